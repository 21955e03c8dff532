package mutants

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/internal/tree"
)

func TestEveryMutantSaysWhatItIs(t *testing.T) {
	guarantee := regexp.MustCompile(`^[GOC]\d{1,3}: `)
	names := map[string]bool{}
	for _, m := range all() {
		switch {
		case m.name == "" || names[m.name]:
			t.Errorf("the name %q is empty or taken", m.name)
		case !guarantee.MatchString(m.breaks):
			t.Errorf("%s: breaks %q, which is no guarantee by its number", m.name, m.breaks)
		case m.old == m.new:
			t.Errorf("%s: changes nothing", m.name)
		case len(m.kills) == 0:
			t.Errorf("%s: no tests are said to kill it", m.name)
		case slices.ContainsFunc(m.kills, func(s suite) bool { return s.run == "" && s.focus == "" }):
			t.Errorf("%s: does not name the tests that are about the rule", m.name)
		}
		names[m.name] = true
	}
	if len(names) < 16 {
		t.Errorf("there are %d mutants, want at least 16", len(names))
	}
}

// TestEveryMutantFitsTheCodeAndCompiles names all that do not fit, so that a move of code is mended
// in one go.
func TestEveryMutantFitsTheCodeAndCompiles(t *testing.T) {
	for _, m := range all() {
		if _, _, err := m.in(root()); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
	if t.Failed() {
		return
	}
	made, err := switched(root(), all())
	if err != nil {
		t.Fatal(err)
	}
	var places []string
	for _, m := range all() {
		places = append(places, filepath.Dir(m.file))
	}
	slices.Sort(places)
	places = slices.Compact(places)
	var patterns []string
	for _, folder := range places {
		patterns = append(patterns, "./"+folder)
	}
	known, err := tree.List(root(), patterns...)
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range places {
		if _, err := known.Check(folder, made.sources); err != nil {
			t.Errorf("with switches: %v", err)
		}
	}
	for _, m := range all() {
		if !made.alone[m.name] && !t.Failed() {
			continue // checked above; each by itself only to name the one that is wrong
		}
		t.Run(m.name, func(t *testing.T) {
			_, mutated, err := m.in(root())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := known.Check(filepath.Dir(m.file), map[string][]byte{m.file: mutated}); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestEveryMutantNamesTestsThatAreThere notices a test that moved to another package or has another
// name now, before the board does, which takes long.
func TestEveryMutantNamesTestsThatAreThere(t *testing.T) {
	there := map[string][]string{}
	for _, folder := range folders(all()) {
		there[folder] = testsIn(t, folder)
	}
	for _, m := range all() {
		for _, s := range m.kills {
			if !slices.ContainsFunc(there[s.folder], func(test string) bool { return selects(s.run, test) }) {
				t.Errorf("%s: no test of %s is selected by %q", m.name, s.folder, s.run)
			}
		}
	}
}

// testsIn returns the names of the test functions of a package.
func testsIn(t *testing.T, folder string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root(), folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
				names = append(names, f.Name.Name)
			}
		}
	}
	return names
}

func TestASnippetThatMovedIsNoticed(t *testing.T) {
	for name, old := range map[string]string{"gone": "no such code", "ambiguous": "package"} {
		m := mutant{file: "internal/mutants/doc.go", old: old, new: "x"}
		if _, _, err := m.in(root()); err == nil {
			t.Errorf("a snippet that is %s is not refused", name)
		}
	}
}
