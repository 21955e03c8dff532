package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// project is one that add changes.
type project struct {
	folder string
	names
	sources map[string][]byte // Go files of the folders . and api/v1, without tests, by path with slashes
}

// add adds a kind to the project in the current folder. It writes nothing if it fails before that.
func (c command) add(a arguments) error {
	p, err := openProject(c.folder)
	if err != nil {
		return err
	}
	if p.names, err = p.ofKind(a.words[0], a.plural); err != nil {
		return err
	}
	w, err := render(added, p.names)
	if err != nil {
		return err
	}
	if err := p.isFree(w); err != nil {
		return err
	}
	if err := errors.Join(p.wireMain(w), p.wireAPI(w), p.wireKustomization(w)); err != nil {
		return err
	}
	if err := w.into(c.folder); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.out, "kind %s.%s: %d files are new, %d changed. Next: make test\n", p.plural, p.group, len(added), len(w)-len(added))
	return err
}

var groupName = regexp.MustCompile(`(?m)^// \+groupName=(\S+)$`)

func openProject(folder string) (*project, error) {
	module, err := moduleOf(folder)
	if err != nil {
		return nil, fmt.Errorf("this folder is no project: %w", err)
	}
	p := &project{folder: folder, names: names{module: module}, sources: map[string][]byte{}}
	for _, pattern := range []string{"*.go", "api/v1/*.go"} {
		found, err := filepath.Glob(filepath.Join(folder, filepath.FromSlash(pattern)))
		if err != nil {
			return nil, err
		}
		for _, name := range found {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			path := strings.TrimSuffix(pattern, "*.go") + filepath.Base(name)
			if p.sources[path], err = os.ReadFile(name); err != nil {
				return nil, err
			}
		}
	}
	for path, source := range p.sources {
		if found := groupName.FindSubmatch(source); found != nil && strings.HasPrefix(path, "api/v1/") {
			p.group = string(found[1])
		}
	}
	if p.group == "" {
		return nil, errors.New("api/v1: no file has a line // +groupName=, which names the API's group")
	}
	return p, nil
}

// isFree checks that neither the files nor the names of a kind exist.
func (p *project) isFree(w written) error {
	for path := range w {
		if _, err := os.Stat(filepath.Join(p.folder, filepath.FromSlash(path))); err == nil {
			return fmt.Errorf("KIND %q: file %s exists", p.kind, path)
		}
	}
	path := regexp.MustCompile(`(?m)^// \+kubebuilder:resource:.*\bpath=` + regexp.QuoteMeta(p.plural) + `(,|$)`)
	for name, source := range p.sources {
		if path.Match(source) {
			return fmt.Errorf("-plural %q: another kind has it, in %s", p.plural, name)
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), name, source, 0)
		if err != nil {
			return fmt.Errorf("file %w", err)
		}
		taken := []string{p.kind + "Reconciler", "register" + p.kind}
		if strings.HasPrefix(name, "api/v1/") {
			taken = []string{p.kind, p.kind + "Spec", p.kind + "Status", p.kind + "List"}
		}
		for _, used := range declared(parsed) {
			if slices.Contains(taken, used) {
				return fmt.Errorf("KIND %q: %s declares %s", p.kind, name, used)
			}
		}
	}
	return nil
}

// declared returns the names that a file declares in its package.
func declared(f *ast.File) (all []string) {
	for _, declaration := range f.Decls {
		switch d := declaration.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				all = append(all, d.Name.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					all = append(all, s.Name.Name)
				case *ast.ValueSpec:
					for _, name := range s.Names {
						all = append(all, name.Name)
					}
				}
			}
		}
	}
	return all
}

// wireMain makes the main function register the kind's controller.
func (p *project) wireMain(w written) error {
	part := "cmd.Part{Register: register" + p.kind + "}"
	isMain := func(call *ast.CallExpr) bool {
		of, ok := call.Fun.(*ast.SelectorExpr)
		return ok && of.Sel.Name == "Main" && isName(of.X, "cmd")
	}
	const path = "main.go"
	changed, err := withArgument(path, p.sources[path], isMain, part)
	if err == nil && !bytes.Contains(changed, []byte("\t\""+evenkeel+"/framework/cmd\"\n")) {
		err = fmt.Errorf("does not import %s/framework/cmd", evenkeel)
	}
	if err != nil {
		return fmt.Errorf("%s: the call cmd.Main(\"...\", cmd.Part{...}), which %s is added to, is not found: %w", path, part, err)
	}
	w[path] = string(changed)
	return nil
}

// wireAPI makes AddToScheme add the kind's types.
func (p *project) wireAPI(w written) error {
	types := fmt.Sprintf("&%s{}, &%[1]sList{}", p.kind)
	isAdd := func(call *ast.CallExpr) bool {
		of, ok := call.Fun.(*ast.SelectorExpr)
		return ok && of.Sel.Name == "AddKnownTypes" && isName(call.Args[0], "GroupVersion")
	}
	problem := errors.New("no file has a call AddKnownTypes")
	for path, source := range p.sources {
		if !strings.HasPrefix(path, "api/v1/") || !bytes.Contains(source, []byte("AddKnownTypes")) {
			continue
		}
		changed, err := withArgument(path, source, isAdd, types)
		if err == nil {
			w[path] = string(changed)
			return nil
		}
		problem = fmt.Errorf("%s: %w", path, err)
	}
	return fmt.Errorf("api/v1: the call AddKnownTypes(GroupVersion, ...), which %s is added to, is not found: %w", types, problem)
}

// wireKustomization adds the kind's definition after those that there are.
func (p *project) wireKustomization(w written) error {
	const path = "config/kustomization.yaml"
	line := fmt.Sprintf("- crd/bases/%s_%s.yaml", p.group, p.plural)
	content, err := os.ReadFile(filepath.Join(p.folder, filepath.FromSlash(path)))
	if err != nil {
		return err
	}
	lines := strings.Split(string(content), "\n")
	if slices.Contains(lines, line) {
		return nil
	}
	last := -1
	for i, of := range lines {
		if strings.HasPrefix(of, "- crd/bases/") {
			last = i
		}
	}
	if last < 0 {
		last = slices.Index(lines, "resources:")
	}
	if last < 0 {
		return fmt.Errorf("%s: the line \"resources:\", below which %q is added, is not found", path, line)
	}
	w[path] = strings.Join(slices.Insert(lines, last+1, line), "\n")
	return nil
}

func isName(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}

// withArgument returns a Go source with one more argument of the only call that is the place. What
// calls without two arguments, or with "...", do is not known, so these are no places.
func withArgument(path string, source []byte, isPlace func(*ast.CallExpr) bool, argument string) ([]byte, error) {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, path, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var places []*ast.CallExpr
	ast.Inspect(parsed, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && len(call.Args) > 1 && !call.Ellipsis.IsValid() && isPlace(call) {
			places = append(places, call)
		}
		return true
	})
	if len(places) != 1 {
		return nil, fmt.Errorf("%d calls are of this form, want 1", len(places))
	}
	last, end := places[0].Args[len(places[0].Args)-1].End(), places[0].Rparen
	at, text := set.Position(last).Offset, ", "+argument
	if line := set.Position(end).Line; line != set.Position(last).Line {
		at, text = set.Position(set.File(end).LineStart(line)).Offset, argument+",\n"
	}
	return format.Source(slices.Concat(source[:at], []byte(text), source[at:]))
}
