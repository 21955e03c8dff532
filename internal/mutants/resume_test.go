package mutants

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// smallModule is a module whose package counts is tested and imports another, and whose package
// aside has nothing to do with it.
var smallModule = map[string]string{
	"go.mod": "module small.example\n\ngo 1.26\n",
	"counts/counts.go": "package counts\n\nimport \"small.example/counts/adds\"\n\nconst First = 1\n\n" +
		"func Next(n int) int {\n	return adds.One(n)\n}\n\nfunc Unused() int {\n	return 7\n}\n",
	"counts/counts_test.go": "package counts\n\nimport (\n	\"os\"\n	\"testing\"\n)\n\n" +
		"func TestNext(t *testing.T) {\n	want, err := os.ReadFile(\"testdata/second\")\n	if err != nil || First != 1 || string(rune('0'+Next(First))) != string(want) {\n		t.Error(want, err)\n	}\n}\n",
	"counts/testdata/second":    "2",
	"counts/adds/adds.go":       "package adds\n\nfunc One(n int) int {\n	return n + 1\n}\n",
	"counts/adds/adds_test.go":  "package adds\n",
	"counts/peeks/peek_test.go": "package peeks\n\nimport (\n	\"os\"\n	\"testing\"\n)\n\nfunc TestPeek(*testing.T) { os.ReadFile(\"../../aside/aside.go\") }\n",
	"aside/aside.go":            "package aside\n",
}

var (
	counts  = []suite{{folder: "counts", run: "TestNext"}}
	dead    = mutant{name: "one adds two", file: "counts/adds/adds.go", old: "n + 1", new: "n + 2", kills: counts}
	alone   = mutant{name: "the first is another", file: "counts/counts.go", old: "First = 1", new: "First = 3", kills: counts}
	unseen  = mutant{name: "the unused is another", file: "counts/counts.go", old: "return 7", new: "return 8", kills: counts}
	crashes = mutant{name: "next panics", file: "counts/counts.go", old: "return adds.One(n)", new: "panic(n)", kills: counts}
)

// newSmallModule returns the root of a copy of smallModule.
func newSmallModule(t *testing.T) (root string) {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range smallModule {
		write(t, filepath.Join(root, name), content)
	}
	return root
}

func write(t *testing.T, file, content string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(content), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// boardOf returns a board for mutants of a small module. Boards of the same root share their
// results.
func boardOf(t *testing.T, root string, mutants ...mutant) *board {
	t.Helper()
	b, err := newBoard(t.Context(), root, t.TempDir(), keptFile(filepath.Join(root, "bin", "mutants.json")), mutants)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestABoardGoesOnWhereOneWasBrokenOff(t *testing.T) {
	root := newSmallModule(t)
	first := boardOf(t, root, dead, alone, crashes)
	for _, m := range []mutant{dead, alone} { // and no further
		if r, wasKept, err := first.settle(t.Context(), m); err != nil || wasKept || r.Killer != "counts: TestNext" {
			t.Fatalf("%s: %+v, kept %v, %v", m.name, r, wasKept, err)
		}
	}
	second := boardOf(t, root, dead, alone, crashes)
	for _, m := range []mutant{dead, alone} {
		if r, wasKept, err := second.settle(t.Context(), m); err != nil || !wasKept || r.Killer != "counts: TestNext" {
			t.Errorf("%s: %+v, kept %v, %v", m.name, r, wasKept, err)
		}
	}
	if len(second.programs) > 0 {
		t.Error("tests were compiled though all results are kept")
	}
	if _, wasKept, err := second.settle(t.Context(), crashes); err != nil || wasKept {
		t.Errorf("%s: kept %v, %v", crashes.name, wasKept, err)
	}
	var printed strings.Builder
	if err := second.report(&printed); err != nil || !strings.HasSuffix(printed.String(), "figure mutants_total 3\nfigure mutants_killed 3\n") {
		t.Errorf("reports %v\n%s", err, &printed)
	}
	third := boardOf(t, root, dead)
	third.fresh = true
	if _, wasKept, err := third.settle(t.Context(), dead); err != nil || wasKept {
		t.Errorf("fresh: kept %v, %v", wasKept, err)
	}
}

func TestASurvivorIsNotKept(t *testing.T) {
	root := newSmallModule(t)
	b := boardOf(t, root, dead, unseen)
	if err := errors.Join(b.kept.keep(result{Name: unseen.name, Hash: "of before"}), b.kept.keep(result{Name: "of another branch"})); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if r, wasKept, err := b.settle(t.Context(), unseen); !errors.Is(err, errSurvives) || wasKept {
			t.Errorf("%+v, kept %v, %v", r, wasKept, err)
		}
	}
	if found, err := b.kept.load(); err != nil || !slices.Equal(slices.Sorted(maps.Keys(found)), []string{"of another branch"}) {
		t.Errorf("kept %v, %v", found, err)
	}
}

func TestAFaultOfTheBoardIsNotKept(t *testing.T) {
	unnamed := dead
	unnamed.kills = []suite{{folder: "counts", run: "TestNoSuch"}}
	b := boardOf(t, newSmallModule(t), unnamed)
	if _, _, err := b.settle(t.Context(), unnamed); err == nil || errors.Is(err, errSurvives) {
		t.Errorf("no test is of the name: %v", err)
	}
	if found, err := b.kept.load(); err != nil || len(found) > 0 {
		t.Errorf("kept %v, %v", found, err)
	}
}

func TestAKillCountsOnlyIfTheTestsPassWithoutTheMutant(t *testing.T) {
	root := newSmallModule(t)
	write(t, filepath.Join(root, "counts/testdata/second"), "5")
	b := boardOf(t, root, dead)
	if _, _, err := b.settle(t.Context(), dead); err == nil || !strings.Contains(err.Error(), "but without the mutant") {
		t.Errorf("got %v", err)
	}
}

func TestATreeThatChangesWhileTheBoardRunsIsNoticed(t *testing.T) {
	root := newSmallModule(t)
	b := boardOf(t, root, dead)
	write(t, filepath.Join(root, "counts/testdata/second"), "2\n")
	if _, _, err := b.settle(t.Context(), dead); err == nil || !strings.Contains(err.Error(), "has changed") {
		t.Errorf("got %v", err)
	}
}

func TestTestsThatReadWhatTheHashDoesNotCoverAreAFault(t *testing.T) {
	b := boardOf(t, newSmallModule(t), mutant{name: "peeked", file: "aside/aside.go", old: "package", new: "package ", kills: []suite{{folder: "counts/peeks", run: "TestPeek"}}})
	if _, _, err := b.settleSuite(t.Context(), "counts/peeks"); err == nil || !strings.Contains(err.Error(), `reads ["aside/aside.go"]`) {
		t.Errorf("got %v", err)
	}
}

func TestAHashChangesWithWhatDecidesTheResult(t *testing.T) {
	root := newSmallModule(t)
	hash := func() string {
		t.Helper()
		found, err := survey(t.Context(), root, "counts")
		if err != nil {
			t.Fatal(err)
		}
		return dead.hash(found)
	}
	before := hash()
	for file, changes := range map[string]bool{
		"counts/counts.go": true, "counts/counts_test.go": true, "counts/testdata/second": true, "counts/testdata/new/file": true,
		"counts/adds/adds.go": true, "go.mod": true, "go.sum": true,
		"counts/adds/adds_test.go": false, "aside/aside.go": false, "README.md": false, "counts/notes.txt": false,
	} {
		was, existed := smallModule[file]
		write(t, filepath.Join(root, file), was+"\n")
		if (hash() != before) != changes {
			t.Errorf("%s: the hash changes: %v, want %v", file, !changes, changes)
		}
		if write(t, filepath.Join(root, file), was); !existed {
			if err := os.Remove(filepath.Join(root, file)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if hash() != before {
		t.Error("the hash of the same tree differs")
	}
}

func TestTheHashOfATestWithAControlPlaneCoversItsSources(t *testing.T) {
	root := newSmallModule(t)
	write(t, filepath.Join(root, "internal/testenv/testenv.go"), "package testenv\n")
	write(t, filepath.Join(root, "internal/testenv/testenv_test.go"), "package testenv\n")
	digest := func() string {
		t.Helper()
		found, err := survey(t.Context(), root, "internal/testenv")
		if err != nil {
			t.Fatal(err)
		}
		return found["internal/testenv"].digest
	}
	before := digest()
	for _, change := range []struct {
		file    string
		changes bool
	}{
		{"sandbox/main_test.go", false},
		{"sandbox/bin/sandbox", false},
		{"samples/some/reconciler.go", false},
		{"sandbox/main.go", true},
		{"sandbox/internal/a.go", true},
		{"samples/some/config/crd/bases/a.yaml", true},
	} {
		write(t, filepath.Join(root, change.file), "package a\n")
		after := digest()
		if (after != before) != change.changes {
			t.Errorf("%s: the digest changes: %v", change.file, !change.changes)
		}
		before = after
	}
}

func TestMutantsDifferInTheirHashes(t *testing.T) {
	of := map[string]inputs{"counts": {digest: "a"}, "other": {digest: "b"}}
	seen := map[string]string{}
	for name, change := range map[string]func(*mutant){
		"as it is":      func(*mutant) {},
		"another file":  func(m *mutant) { m.file = "counts/counts.go" },
		"other code":    func(m *mutant) { m.new = "n + 3" },
		"it hangs":      func(m *mutant) { m.hangs = "why" },
		"another test":  func(m *mutant) { m.kills = []suite{{folder: "counts", run: "TestOther"}} },
		"another spec":  func(m *mutant) { m.kills = []suite{{folder: "counts", focus: "TestNext"}} },
		"another suite": func(m *mutant) { m.kills = []suite{{folder: "other", run: "TestNext"}} },
		"two suites":    func(m *mutant) { m.kills = slices.Concat(counts, counts) },
	} {
		m := dead
		change(&m)
		if other, ok := seen[m.hash(of)]; ok {
			t.Errorf("%s and %s have the same hash", name, other)
		}
		seen[m.hash(of)] = name
	}
}
