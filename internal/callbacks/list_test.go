package callbacks

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// folders are the packages that authors use.
var folders = []string{
	"retry", "timeline", "scheduler", "trc", "eventsource", "framework", "framework/config", "framework/workflow",
	"framework/conditions", "framework/dependent", "framework/external", "framework/health", "framework/interlock", "framework/ready",
}

// found are the callbacks in the source.
type found struct {
	functions map[string]bool // named function types, by "package.Name"
	callbacks []string
}

// parsedPackage is the source of a package without its tests.
type parsedPackage struct {
	Name  string
	Files []*ast.File
}

func sourceOf(t *testing.T, folder string) (p parsedPackage) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("..", "..", folder, "*.go"))
	if err != nil || len(names) == 0 {
		t.Fatalf("%s: %d files, %v", folder, len(names), err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		p.Name, p.Files = file.Name.Name, append(p.Files, file)
	}
	return p
}

// callbacksOf lists the callbacks of the API, as "package.Struct.Field", "package.Interface.Method"
// or "package.Function(parameter)".
func callbacksOf(t *testing.T) []string {
	t.Helper()
	var parsed []parsedPackage
	f := &found{functions: map[string]bool{}}
	for _, folder := range folders {
		parsed = append(parsed, sourceOf(t, folder))
	}
	for _, p := range parsed {
		f.eachType(p, func(s *ast.TypeSpec) {
			if _, is := s.Type.(*ast.FuncType); is {
				f.functions[p.Name+"."+s.Name.Name] = true
			}
		})
	}
	for _, p := range parsed {
		f.eachType(p, func(s *ast.TypeSpec) { f.describe(p.Name, s) })
		for _, file := range p.Files {
			for _, d := range file.Decls {
				if function, is := d.(*ast.FuncDecl); is {
					f.parameters(p.Name, function)
				}
			}
		}
	}
	slices.Sort(f.callbacks)
	return slices.Compact(f.callbacks)
}

func (f *found) eachType(p parsedPackage, do func(*ast.TypeSpec)) {
	for _, file := range p.Files {
		for _, d := range file.Decls {
			if declared, is := d.(*ast.GenDecl); is {
				for _, s := range declared.Specs {
					if s, is := s.(*ast.TypeSpec); is {
						do(s)
					}
				}
			}
		}
	}
}

// describe adds the callbacks of an exported type.
func (f *found) describe(in string, s *ast.TypeSpec) {
	if !s.Name.IsExported() {
		return
	}
	name := in + "." + s.Name.Name
	switch of := s.Type.(type) {
	case *ast.StructType:
		for _, field := range of.Fields.List {
			for _, n := range field.Names {
				if n.IsExported() && f.isFunction(in, field.Type) {
					f.callbacks = append(f.callbacks, name+"."+n.Name)
				}
			}
		}
	case *ast.InterfaceType:
		for _, method := range of.Methods.List {
			if _, is := method.Type.(*ast.FuncType); !is {
				continue
			}
			for _, n := range method.Names {
				if n.IsExported() {
					f.callbacks = append(f.callbacks, name+"."+n.Name)
				}
			}
		}
	}
}

// parameters adds the functions that an exported function or method takes.
func (f *found) parameters(in string, d *ast.FuncDecl) {
	if !d.Name.IsExported() {
		return
	}
	name := in + "." + d.Name.Name
	if d.Recv != nil {
		of := baseOf(d.Recv.List[0].Type)
		if !ast.IsExported(of) {
			return
		}
		name = in + "." + of + "." + d.Name.Name
	}
	for _, p := range d.Type.Params.List {
		for _, n := range p.Names {
			if f.isFunction(in, p.Type) {
				f.callbacks = append(f.callbacks, name+"("+n.Name+")")
			}
		}
	}
}

func baseOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return baseOf(e.X)
	case *ast.IndexExpr:
		return baseOf(e.X)
	case *ast.IndexListExpr:
		return baseOf(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// isFunction tells function types, and slices, maps and the like of them.
func (f *found) isFunction(in string, e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.FuncType:
		return true
	case *ast.Ident:
		return f.functions[in+"."+e.Name]
	case *ast.SelectorExpr:
		p, is := e.X.(*ast.Ident)
		return is && f.functions[p.Name+"."+e.Sel.Name]
	case *ast.IndexExpr:
		return f.isFunction(in, e.X)
	case *ast.IndexListExpr:
		return f.isFunction(in, e.X)
	case *ast.StarExpr:
		return f.isFunction(in, e.X)
	case *ast.ArrayType:
		return f.isFunction(in, e.Elt)
	case *ast.MapType:
		return f.isFunction(in, e.Value)
	case *ast.Ellipsis:
		return f.isFunction(in, e.Elt)
	}
	return false
}

// TestNoGoroutines: what packages of dependents call, they call in the goroutine of a node's
// function: whatever it does, the rows of these tell what becomes of it.
func TestNoGoroutines(t *testing.T) {
	harmless := map[string]bool{"framework/interlock AfterFunc": true} // it makes a dependent due, and calls no author
	for _, folder := range []string{"framework/dependent", "framework/external", "framework/interlock", "framework/ready"} {
		for _, file := range sourceOf(t, folder).Files {
			ast.Inspect(file, func(n ast.Node) bool {
				if _, is := n.(*ast.GoStmt); is {
					t.Errorf("%s begins a goroutine: what it calls there needs rows of its own", folder)
				}
				if selected, is := n.(*ast.SelectorExpr); is && (selected.Sel.Name == "Go" || selected.Sel.Name == "AfterFunc") && !harmless[folder+" "+selected.Sel.Name] {
					t.Errorf("%s begins a goroutine (%s): what it calls there needs rows of its own", folder, selected.Sel.Name)
				}
				return true
			})
		}
	}
}
