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

const fixture = "internal/lockorder/testdata/fixture"

func root(t *testing.T) string {
	t.Helper()
	folder, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return folder
}

// edgesOf returns the edges of a file, sorted, each once: with an example, and as text.
func edgesOf(t *testing.T, file string) (seen []recorder.Seen, edges []string) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if seen, err = recorder.Parse(content); err != nil {
		t.Fatal(err)
	}
	slices.SortStableFunc(seen, func(a, b recorder.Seen) int { return strings.Compare(a.Edge.String(), b.Edge.String()) })
	seen = slices.CompactFunc(seen, func(a, b recorder.Seen) bool { return a.Edge == b.Edge }) // of several processes
	for _, s := range seen {
		edges = append(edges, s.Edge.String())
	}
	return seen, edges
}

func TestLocksThatAreTakenWhileOthersAreHeldAreRecorded(t *testing.T) {
	packages, err := tree.List(root(t), "./"+fixture)
	if err != nil {
		t.Fatal(err)
	}
	files, err := rewritten(root(t), packages, packages.Folders(), []string{"main.gate.free"})
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := tree.Overlay(root(t), t.TempDir(), files)
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "fixture")
	build := exec.Command("go", "build", "-overlay="+overlay, "-o", program, "./"+fixture)
	build.Dir = root(t)
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	for way, c := range map[string]struct {
		edges    []string
		problems []string // with a table of one row: main.store.mu before main.ledger.RWMutex
	}{
		"in order": {edges: []string{"main.store.mu → main.ledger.RWMutex"}},
		"cycle": {
			edges:    []string{"main.ledger.RWMutex → main.store.mu", "main.store.mu → main.ledger.RWMutex"},
			problems: []string{"the table does not have: main.store.mu is taken (", "a cycle:"},
		},
		"two of a class": {
			edges:    []string{"main.store.mu → main.store.mu"},
			problems: []string{"the table does not have", "a dead row", "a cycle:"},
		},
		"read twice": {
			edges:    []string{"main.ledger.RWMutex → main.ledger.RWMutex"},
			problems: []string{"the table does not have", "a dead row", "a cycle:"},
		},
		"tried":       {edges: []string{"main.store.mu → main.ledger.RWMutex (tried)"}},
		"waits":       {edges: []string{"main.all → main.store.mu", "main.store.mu → main.all"}, problems: []string{"not have", "not have", "dead row", "a cycle:"}},
		"lent":        {edges: []string{"main.store.mu → main.all"}, problems: []string{"the table does not have", "a dead row"}},
		"values":      {edges: []string{"main.store.mu → main.all"}, problems: []string{"the table does not have", "a dead row"}},
		"handed over": {problems: []string{"a dead row"}},
		"once":        {edges: []string{"main.ledger.once → main.all"}, problems: []string{"the table does not have", "a dead row"}},
		"channel":     {edges: []string{"main.gate.free → main.store.mu"}, problems: []string{"the table does not have", "a dead row"}},
		"local":       {edges: []string{"main.main.mu → main.store.mu"}, problems: []string{"the table does not have", "a dead row"}},
	} {
		t.Run(way, func(t *testing.T) {
			written := filepath.Join(t.TempDir(), "edges")
			run := exec.Command(program, way)
			run.Env = append(os.Environ(), recorder.File+"="+written)
			if output, err := run.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, output)
			}
			seen, edges := edgesOf(t, written)
			if !slices.Equal(edges, c.edges) {
				t.Errorf("edges %q, want %q", edges, c.edges)
			}
			problems := order{{"main.store.mu", "main.ledger.RWMutex"}}.problems(seen)
			if !slices.EqualFunc(problems, c.problems, strings.Contains) {
				t.Errorf("problems %q, want %q", problems, c.problems)
			}
			for _, s := range seen {
				if !strings.HasPrefix(s.HeldAt, fixture+"/main.go:") || !strings.HasPrefix(s.TakenAt, fixture+"/main.go:") {
					t.Errorf("examples at %s and %s", s.HeldAt, s.TakenAt)
				}
			}
		})
	}
}

func TestALockWhoseClassTheSourceDoesNotTellIsRefused(t *testing.T) {
	packages, err := tree.List(root(t), "./"+fixture+"/refused")
	if err != nil {
		t.Fatal(err)
	}
	_, err = rewritten(root(t), packages, packages.Folders(), []string{"refused.gate.free"})
	if err == nil {
		t.Fatal("nothing is refused")
	}
	got := strings.Split(err.Error(), "\n")
	want := []string{"(sync.Locker).Lock does not tell", "the source does not tell the class", "without a name", "a method expression", "not by a case"}
	if !slices.EqualFunc(got, want, strings.Contains) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestOnlyLocksBelowAreAny(t *testing.T) {
	table, err := parseOrder("# Locks\n\n| held | taken | why |\n|---|---|---|\n| `a.A.mu` | any | x |\n| `b.B.mu` | any | x |\n| `c.C.mu` | `c.D.mu` | x |\n\n" +
		"| other | table |\n|---|---|\n| `e.E.mu` | any |\n")
	if err != nil {
		t.Fatal(err)
	}
	if want := (order{{"a.A.mu", "any"}, {"b.B.mu", "any"}, {"c.C.mu", "c.D.mu"}}); !slices.Equal(table, want) {
		t.Fatalf("rows %v, want %v", table, want)
	}
	for edge, want := range map[recorder.Edge]int{
		{Held: "a.A.mu", Taken: "b.B.mu"}: 0, {Held: "a.A.mu", Taken: "x.X.mu"}: 0, {Held: "a.A.mu", Taken: "a.A.mu"}: -1,
		{Held: "b.B.mu", Taken: "a.A.mu"}: -1, {Held: "b.B.mu", Taken: "b.B.mu"}: -1, {Held: "b.B.mu", Taken: "c.C.mu"}: 1,
		{Held: "c.C.mu", Taken: "c.D.mu"}: 2, {Held: "c.D.mu", Taken: "c.C.mu"}: -1, {Held: "e.E.mu", Taken: "c.C.mu"}: -1,
	} {
		if got := table.find(edge); got != want {
			t.Errorf("%v: row %d, want %d", edge, got, want)
		}
	}
	if _, err := parseOrder("| a | b |\n"); err == nil {
		t.Error("a page without the table is taken")
	}
}
