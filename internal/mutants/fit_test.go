package mutants

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
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
	known := list(t, places)
	for _, folder := range places {
		if err := known.check(folder, made.sources); err != nil {
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
			if err := known.check(filepath.Dir(m.file), map[string][]byte{m.file: mutated}); err != nil {
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

// listed is a package as the go command lists it.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
}

// packages are those of the mutants by folder, and the compiled form of all that they import.
type packages struct {
	fset     *token.FileSet
	byFolder map[string]listed
	imports  types.Importer
}

func list(t *testing.T, folders []string) packages {
	t.Helper()
	arguments := []string{"list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles"}
	for _, folder := range folders {
		arguments = append(arguments, "./"+folder)
	}
	command := exec.Command("go", arguments...)
	command.Dir = root()
	output, err := command.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	exports := map[string]string{}
	known := packages{fset: token.NewFileSet(), byFolder: map[string]listed{}}
	for decoder := json.NewDecoder(bytes.NewReader(output)); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		exports[p.ImportPath] = p.Export
		if folder, err := filepath.Rel(root(), p.Dir); err == nil {
			known.byFolder[folder] = p
		}
	}
	known.imports = importer.ForCompiler(known.fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	return known
}

// check type-checks a package with other sources for some of its files, or more of them.
func (p packages) check(folder string, sources map[string][]byte) error {
	of, ok := p.byFolder[folder]
	if !ok {
		return fmt.Errorf("%s: no such package", folder)
	}
	content := map[string]any{} // nil: read the file
	for _, name := range of.GoFiles {
		content[filepath.Join(folder, name)] = nil
	}
	for name, source := range sources {
		if filepath.Dir(name) == folder {
			content[name] = source
		}
	}
	var parsed []*ast.File
	for _, name := range slices.Sorted(maps.Keys(content)) {
		f, err := parser.ParseFile(p.fset, filepath.Join(root(), name), content[name], parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		parsed = append(parsed, f)
	}
	_, err := (&types.Config{Importer: p.imports}).Check(of.ImportPath, p.fset, parsed, nil)
	return err
}
