package mutants

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// switchVariable is the environment variable that names the mutant that is on. It is empty in a run
// without a mutant.
const switchVariable = "EVENKEEL_MUTANT"

// switchFile is added to each package that has mutants.
const switchFile = "switched_mutant.go"

// switches is source code that contains many mutants, each of which is off unless switchVariable
// names it. So each suite is compiled once, and not once for each mutant, which is what takes long.
type switches struct {
	// sources are the files that differ from the tree or are added to it, relative to the module's
	// root.
	sources map[string][]byte
	// alone are the names of the mutants without a switch: they change more than the body of one
	// function.
	alone map[string]bool
}

// body is where the body of a function lies in its file, without the braces.
type body struct{ start, end int }

// switched returns the switches of mutants of the module at a root.
//
// A function with mutants becomes a switch over the name of the mutant that is on. Its default is
// the body as it is in the tree:
//
//	func f() int {switch mutantSwitchedOn { default:
//		return 1
//	case "it returns two":
//		return 2
//	}}
func switched(root string, mutants []mutant) (switches, error) {
	made := switches{sources: map[string][]byte{}, alone: map[string]bool{}}
	variants := map[string]map[body][]string{} // by file and function: the cases
	for _, m := range mutants {
		source, mutated, err := m.in(root)
		if err != nil {
			return switches{}, fmt.Errorf("%s: %w", m.name, err)
		}
		of, variant, ok := changedBody(source, mutated)
		if !ok {
			made.alone[m.name] = true
			continue
		}
		if variants[m.file] == nil {
			variants[m.file] = map[body][]string{}
			made.sources[m.file] = source
		}
		variants[m.file][of] = append(variants[m.file][of], fmt.Sprintf("\ncase %q:%s", m.name, variant))
	}
	for file, functions := range variants {
		name, err := packageOf(made.sources[file])
		if err != nil {
			return switches{}, fmt.Errorf("%s: %w", file, err)
		}
		made.sources[file] = withCases(made.sources[file], functions)
		made.sources[filepath.Join(filepath.Dir(file), switchFile)] = fmt.Appendf(nil,
			"package %s\n\nimport \"os\"\n\nvar mutantSwitchedOn = os.Getenv(%q)\n", name, switchVariable)
	}
	return made, nil
}

func packageOf(source []byte) (string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), "", source, parser.PackageClauseOnly)
	if err != nil {
		return "", err
	}
	return file.Name.Name, nil
}

// withCases returns the source with cases added to the bodies of functions. Their own lines stay
// where they are in the lines above and in the default.
func withCases(source []byte, functions map[body][]string) []byte {
	var made bytes.Buffer
	from := 0
	for _, of := range slices.SortedFunc(maps.Keys(functions), func(a, b body) int { return a.start - b.start }) {
		made.Write(source[from:of.start])
		made.WriteString("switch mutantSwitchedOn { default:")
		made.Write(source[of.start:of.end])
		made.WriteString(strings.Join(functions[of], ""))
		made.WriteString("\n}")
		from = of.end
	}
	made.Write(source[from:])
	return made.Bytes()
}

// changedBody returns the one function body that differs between two versions of a file, and its
// second version. It reports false if anything else differs, or if the body has labels: they must
// be unique within a function.
func changedBody(source, mutated []byte) (of body, variant []byte, ok bool) {
	fset := token.NewFileSet()
	before, err := parser.ParseFile(fset, "", source, parser.SkipObjectResolution)
	if err != nil {
		return body{}, nil, false
	}
	after, err := parser.ParseFile(fset, "", mutated, parser.SkipObjectResolution)
	if err != nil || len(before.Decls) != len(after.Decls) {
		return body{}, nil, false
	}
	offset := func(p token.Pos) int { return fset.Position(p).Offset }
	text := func(of []byte, from, to token.Pos) string { return string(of[offset(from):offset(to)]) }
	for i, a := range before.Decls {
		b := after.Decls[i]
		if text(source, a.Pos(), a.End()) == text(mutated, b.Pos(), b.End()) {
			continue
		}
		f, isFunction := a.(*ast.FuncDecl)
		g, stays := b.(*ast.FuncDecl)
		if ok || !isFunction || !stays || f.Body == nil || g.Body == nil || hasLabels(f.Body) || hasLabels(g.Body) ||
			text(source, f.Pos(), f.Body.Lbrace) != text(mutated, g.Pos(), g.Body.Lbrace) {
			return body{}, nil, false
		}
		ok = true
		of = body{offset(f.Body.Lbrace) + 1, offset(f.Body.Rbrace)}
		variant = mutated[offset(g.Body.Lbrace)+1 : offset(g.Body.Rbrace)]
	}
	return of, variant, ok
}

func hasLabels(b *ast.BlockStmt) (found bool) {
	ast.Inspect(b, func(n ast.Node) bool {
		_, isLabel := n.(*ast.LabeledStmt)
		found = found || isLabel
		return !found
	})
	return found
}

func TestAMutantWithinAFunctionGetsASwitch(t *testing.T) {
	source := "package p\n\nimport \"fmt\"\n\nconst c = 1\n\nfunc f(x int) int { return x }\n\nfunc g() {\n	fmt.Println(c)\n}\n\n" +
		"func h() {\nagain:\n	for {\n		continue again\n	}\n}\n"
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "p.go"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := switched(root, []mutant{
		{name: "f adds one", file: "p.go", old: "return x", new: "return x + 1"},
		{name: "f goes with its end", file: "p.go", old: "return x }\n", new: "return x + 2 }\n"},
		{name: "g is silent", file: "p.go", old: "	fmt.Println(c)\n", new: ""},
		{name: "another parameter", file: "p.go", old: "f(x int)", new: "f(x int64)"},
		{name: "another constant", file: "p.go", old: "c = 1", new: "c = 2"},
		{name: "a label", file: "p.go", old: "continue again", new: "break again"},
		{name: "two functions", file: "p.go", old: "return x }\n\nfunc g() {\n", new: "return x + 3 }\n\nfunc g() {\n	return\n"},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := "package p\n\nimport \"fmt\"\n\nconst c = 1\n\n" +
		"func f(x int) int {switch mutantSwitchedOn { default: return x \ncase \"f adds one\": return x + 1 \ncase \"f goes with its end\": return x + 2 \n}}\n\n" +
		"func g() {switch mutantSwitchedOn { default:\n	fmt.Println(c)\n\ncase \"g is silent\":\n\n}}\n\n" +
		"func h() {\nagain:\n	for {\n		continue again\n	}\n}\n"
	if string(got.sources["p.go"]) != want {
		t.Errorf("got\n%s\nwant\n%s", got.sources["p.go"], want)
	}
	if alone := slices.Sorted(maps.Keys(got.alone)); !slices.Equal(alone, []string{"a label", "another constant", "another parameter", "two functions"}) {
		t.Errorf("without a switch: %q", alone)
	}
	if len(got.sources) != 2 || !bytes.HasPrefix(got.sources[switchFile], []byte("package p\n")) {
		t.Errorf("%s: %s", switchFile, got.sources[switchFile])
	}
}
