package lockorder

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/internal/lockorder/recorder"
	"github.com/evenkeel/evenkeel/internal/tree"
)

// channels are the channels of production code that are locks: see doc.go.
var channels = []string{"write.turn.free"}

// runs are the tests that take the locks, by the arguments of go test. doc.go says what is left out,
// and why.
var runs = [][]string{
	{"./scheduler", "./eventsource", "./timeline", "./internal/author", "./trc", "-skip=Model|Filter|Allocates"},
	{"./framework", "./framework/internal/...", "-run=^Test(G[0-9]|[A-EG-Z]|F[a-qs-z])", "-skip=Allocates|CopiesNoMore|StandsByKeeps|ManyWritesOf|AFloodOf|NamedAndSlowed|AThousand"},
	{"./framework/workflow", "./framework/external", "./framework/plan", "-skip=Allocates|TestOnServer"},
	{"./internal/simulation"},
}

// isRecorded reports whether the locks of a package are recorded: those of all that an operator is
// made of, and of the API server of the tests, so that a request under a lock is an edge.
func isRecorded(folder string) bool {
	return !strings.HasPrefix(folder, "internal/") && folder != "frameworktest" || folder == "internal/author" || folder == "internal/apimodel"
}

func TestLocksAreTakenInTheOrderOfTheTable(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root(t), "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	table, err := parseOrder(string(page))
	if err != nil {
		t.Error(err)
	}
	packages, err := tree.List(root(t), "./...")
	if err != nil {
		t.Fatal(err)
	}
	folders := slices.DeleteFunc(packages.Folders(), func(folder string) bool { return !isRecorded(folder) })
	files, err := rewritten(root(t), packages, folders, channels)
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := tree.Overlay(root(t), t.TempDir(), files)
	if err != nil {
		t.Fatal(err)
	}
	written := filepath.Join(t.TempDir(), "edges")
	for _, arguments := range runs {
		command := exec.Command("go", append([]string{"test", "-short", "-count=1", "-vet=off", "-timeout=10m", "-overlay=" + overlay}, arguments...)...)
		command.Dir = root(t)
		command.Env = append(os.Environ(), recorder.File+"="+written, "SIMULATION_SEEDS=20", "KUBE_CACHE_MUTATION_DETECTOR=")
		output, err := command.CombinedOutput()
		t.Logf("%s\n%v %v", output, command.ProcessState.UserTime(), command.ProcessState.SystemTime())
		if err != nil {
			t.Errorf("%v: %v", arguments, err)
		}
	}
	seen, edges := edgesOf(t, written)
	t.Logf("%s", strings.Join(edges, "\n"))
	for _, problem := range table.problems(seen) {
		t.Error(problem)
	}
}
