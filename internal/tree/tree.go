package tree

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
	"slices"
	"strings"
)

// Packages are packages of a module, and the compiled form of all that they import.
type Packages struct {
	root     string
	fset     *token.FileSet
	byFolder map[string]listed
	imports  types.Importer
}

// listed is a package as the go command lists it.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	DepOnly                 bool
}

// List returns the packages of the module at a root that match the patterns of the go command, and
// what they import.
func List(root string, patterns ...string) (*Packages, error) {
	command := exec.Command("go", append([]string{"list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,DepOnly"}, patterns...)...)
	command.Dir = root
	var problems bytes.Buffer
	command.Stderr = &problems
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, problems.Bytes())
	}
	exports := map[string]string{}
	p := &Packages{root: root, fset: token.NewFileSet(), byFolder: map[string]listed{}}
	all, err := Decode[listed](output)
	if err != nil {
		return nil, err
	}
	for _, of := range all {
		exports[of.ImportPath] = of.Export
		if folder, err := filepath.Rel(root, of.Dir); err == nil {
			p.byFolder[folder] = of
		}
	}
	p.imports = importer.ForCompiler(p.fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	return p, nil
}

// Decode returns the packages that go list -json has printed, as values of a type with the fields
// that were asked for.
func Decode[T any](printed []byte) (all []T, err error) {
	for decoder := json.NewDecoder(bytes.NewReader(printed)); ; {
		var one T
		if err := decoder.Decode(&one); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		all = append(all, one)
	}
}

// Folders returns the folders of the packages that the patterns match, relative to the root,
// sorted.
func (p *Packages) Folders() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(p.byFolder)), func(folder string) bool { return p.byFolder[folder].DepOnly })
}

// Checked is a package without its tests.
type Checked struct {
	Types *types.Package
	Info  *types.Info
	Fset  *token.FileSet
	// Files are its syntax trees, by their names relative to the root.
	Files map[string]*ast.File
}

// Check parses a package and checks its types. Some of its files may have other contents than in
// the tree, and there may be more files; both are named relative to the root.
func (p *Packages) Check(folder string, contents map[string][]byte) (*Checked, error) {
	of, ok := p.byFolder[folder]
	if !ok {
		return nil, fmt.Errorf("%s: no such package", folder)
	}
	all := map[string]any{} // nil: read the file
	for _, name := range of.GoFiles {
		all[filepath.Join(folder, name)] = nil
	}
	for name, content := range contents {
		if filepath.Dir(name) == folder {
			all[name] = content
		}
	}
	checked := &Checked{Fset: p.fset, Files: map[string]*ast.File{}, Info: &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{},
		Selections: map[*ast.SelectorExpr]*types.Selection{},
	}}
	var files []*ast.File
	for _, name := range slices.Sorted(maps.Keys(all)) {
		f, err := parser.ParseFile(p.fset, filepath.Join(p.root, name), all[name], parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		checked.Files[name] = f
		files = append(files, f)
	}
	var err error
	checked.Types, err = (&types.Config{Importer: p.imports}).Check(of.ImportPath, p.fset, files, checked.Info)
	return checked, err
}

// Overlay writes files into a folder and returns the file for the go command's -overlay, which puts
// them in the place of those of the same name below a root.
func Overlay(root, folder string, contents map[string][]byte) (string, error) {
	replace := map[string]string{}
	for file, content := range contents {
		beside := filepath.Join(folder, strings.ReplaceAll(file, "/", "-"))
		if err := os.WriteFile(beside, content, 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(root, file)] = beside
	}
	content, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	name := filepath.Join(folder, "overlay.json")
	return name, os.WriteFile(name, content, 0o600)
}
