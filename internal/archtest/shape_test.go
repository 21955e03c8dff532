package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The shape of the house: what a maintainer can take in at a glance.
const (
	maxFiles    = 30  // production files of a folder
	maxMethods  = 30  // methods of a type
	maxFunction = 60  // lines of a function, with its braces
	maxColumns  = 100 // of a line of a comment; a tab counts as one
)

// larger are the places that exceed a limit, by how much they may: one more fails, and so does a limit that is no longer
// needed. New places do not belong here.
var larger = map[string]int{
	"methods of trc.Store": 83,
}

// shape finds what exceeds a limit below a folder: places, with their sizes.
func shape(root string) (map[string]int, error) {
	found := map[string]int{}
	files, methods := map[string]int{}, map[string]int{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			if path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "bin") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "zz_generated") {
			return nil
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		place, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		place = filepath.ToSlash(place)
		files[filepath.ToSlash(filepath.Dir(place))]++
		return shapeOf(place, source, methods, found)
	})
	for folder, n := range files {
		if n > maxFiles {
			found["files of "+folder] = n
		}
	}
	for of, n := range methods {
		if n > maxMethods {
			found["methods of "+of] = n
		}
	}
	return found, err
}

// shapeOf looks at one file, and counts its methods by type.
func shapeOf(place string, source []byte, methods, found map[string]int) error {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, place, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	folder := filepath.ToSlash(filepath.Dir(place))
	for _, declaration := range file.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if !ok {
			continue
		}
		if of := receiver(function); of != "" {
			methods[folder+"."+of]++
		}
		if lines := set.Position(function.End()).Line - set.Position(function.Pos()).Line + 1; lines > maxFunction {
			found[fmt.Sprintf("lines of %s in %s", function.Name.Name, place)] = lines
		}
	}
	lines := strings.Split(string(source), "\n")
	for _, group := range file.Comments {
		for _, comment := range group.List {
			at := set.Position(comment.Pos())
			if strings.HasPrefix(comment.Text, "// +") || strings.HasPrefix(comment.Text, "//go:") || strings.HasPrefix(comment.Text, "//\t") {
				continue // what a program reads, and code
			}
			if length := len([]rune(lines[at.Line-1])); at.Column == 1+indent(lines[at.Line-1]) && length > maxColumns {
				found["columns of comments in "+place]++
			}
		}
	}
	return nil
}

// indent is the number of tabs that a line begins with.
func indent(line string) int { return len(line) - len(strings.TrimLeft(line, "\t")) }

// receiver is the type that a function is a method of, empty if it is none.
func receiver(function *ast.FuncDecl) string {
	if function.Recv == nil {
		return ""
	}
	of := function.Recv.List[0].Type
	for {
		switch t := of.(type) {
		case *ast.StarExpr:
			of = t.X
		case *ast.IndexExpr:
			of = t.X
		case *ast.IndexListExpr:
			of = t.X
		case *ast.Ident:
			return t.Name
		default:
			return ""
		}
	}
}

func TestTheHouseKeepsItsShape(t *testing.T) {
	found, err := shape(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	for _, place := range slices.Sorted(maps.Keys(found)) {
		if n := found[place]; n > larger[place] {
			t.Errorf("%s: %d, want at most %d", place, n, max(larger[place], limitOf(place)))
		}
	}
	for place, n := range larger {
		if found[place] < n {
			t.Errorf("%s: %d, but %d are granted: lower it", place, found[place], n)
		}
	}
}

func limitOf(place string) int {
	switch first, _, _ := strings.Cut(place, " "); first {
	case "files":
		return maxFiles
	case "methods":
		return maxMethods
	case "lines":
		return maxFunction
	}
	return 0
}

func TestTheShapeCanBeWrong(t *testing.T) {
	methods, found := map[string]int{}, map[string]int{}
	long := "package p\n\n// " + strings.Repeat("x", maxColumns) + "\nfunc f() {\n" + strings.Repeat("\tg()\n", maxFunction) + "}\n\nfunc (t *T[K]) m() {}\n"
	if err := shapeOf("a/p.go", []byte(long), methods, found); err != nil {
		t.Fatal(err)
	}
	if found["lines of f in a/p.go"] != maxFunction+2 || found["columns of comments in a/p.go"] != 1 || methods["a.T"] != 1 {
		t.Errorf("found %v, methods %v", found, methods)
	}
}
