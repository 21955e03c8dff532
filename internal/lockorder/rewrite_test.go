package lockorder

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"

	"github.com/evenkeel/evenkeel/internal/tree"
)

// recorderPath is the package whose functions the copies of the sources call.
const recorderPath = "github.com/evenkeel/evenkeel/internal/lockorder/recorder"

// methods are the methods of locks, and the functions of the recorder that stand for them.
var methods = map[string]string{
	"(*sync.Mutex).Lock": "Lock", "(*sync.Mutex).Unlock": "Unlock", "(*sync.Mutex).TryLock": "TryLock",
	"(*sync.RWMutex).Lock": "Lock", "(*sync.RWMutex).Unlock": "Unlock", "(*sync.RWMutex).TryLock": "TryLock",
	"(*sync.RWMutex).RLock": "RLock", "(*sync.RWMutex).RUnlock": "RUnlock", "(*sync.RWMutex).TryRLock": "TryRLock",
	"(*sync.Cond).Wait": "Wait", "(*sync.Once).Do": "Do",
}

// refused are functions whose lock has no class that the source tells.
var refused = []string{"(sync.Locker).Lock", "(sync.Locker).Unlock", "(*sync.RWMutex).RLocker"}

// rewriting is the rewriting of one package.
type rewriting struct {
	*tree.Checked
	// channels are the classes of channels that are locks: a receive takes them, a send releases
	// them.
	channels []string

	file     string
	source   []byte
	function string // the top-level function that is rewritten
	edits    []edit
	errs     []error
}

// edit replaces a part of a file.
type edit struct {
	from, to int
	text     string
}

// rewritten returns the files of packages that take locks, with calls of the recorder.
func rewritten(root string, packages *tree.Packages, folders, channels []string) (map[string][]byte, error) {
	files := map[string][]byte{}
	in := map[string]string{} // the folder of a package's name
	var errs []error
	for _, folder := range folders {
		checked, err := packages.Check(folder, nil)
		if err != nil {
			return nil, err
		}
		r := &rewriting{Checked: checked, channels: channels}
		for name, file := range checked.Files {
			content, err := r.rewrite(root, name, file)
			if err != nil {
				return nil, err
			}
			if content == nil {
				continue
			}
			files[name] = content
			if other := cmp.Or(in[checked.Types.Name()], folder); other != folder {
				errs = append(errs, fmt.Errorf("%s and %s have locks and the same name: classes need another one", folder, other))
			}
			in[checked.Types.Name()] = folder
		}
		errs = append(errs, r.errs...)
	}
	return files, errors.Join(errs...)
}

// rewrite returns a file with calls of the recorder, nil if it takes no locks. Lines stay where they
// are.
func (r *rewriting) rewrite(root, name string, file *ast.File) ([]byte, error) {
	var err error
	if r.source, err = os.ReadFile(filepath.Join(root, name)); err != nil {
		return nil, err
	}
	r.file, r.edits = name, nil
	for _, d := range file.Decls {
		r.function = ""
		if f, ok := d.(*ast.FuncDecl); ok {
			r.function = f.Name.Name
		}
		ast.Inspect(d, r.visit)
	}
	if len(r.edits) == 0 {
		return nil, nil
	}
	slices.SortFunc(r.edits, func(a, b edit) int { return a.from - b.from })
	end := r.offset(file.Name.End())
	made := fmt.Appendf(slices.Clone(r.source[:end]), "; import lockrecorder %q", recorderPath)
	for _, e := range r.edits {
		if e.from < end {
			return nil, fmt.Errorf("%s: one use of a lock is within another one", name)
		}
		made = append(append(made, r.source[end:e.from]...), e.text...)
		end = e.to
	}
	return append(made, r.source[end:]...), nil
}

// visit rewrites a node that takes or releases a lock, or takes the address of one.
func (r *rewriting) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.SelectorExpr:
		if s := r.Info.Selections[n]; s != nil && s.Kind() != types.FieldVal {
			r.method(n, s)
		}
	case *ast.UnaryExpr:
		switch {
		case n.Op == token.AND && isMutex(r.Info.TypeOf(n.X)):
			class := r.class(n.X)
			r.replace(n, fmt.Sprintf("lockrecorder.Address(&%s, %q, %q)", r.text(n.X), class, r.at(n)))
		case n.Op == token.ARROW && r.isLock(n.X):
			r.fail(n, "a lock is received, but not by a case of a select statement")
		}
	case *ast.CommClause:
		if receive, ok := received(n.Comm); ok && r.isLock(receive) {
			class := r.class(receive)
			r.edit(n.Colon+1, n.Colon+1, fmt.Sprintf(" lockrecorder.Received(%s, %q, %q); ", r.text(receive), class, r.at(n)))
			for _, statement := range n.Body {
				ast.Inspect(statement, r.visit)
			}
			return false
		}
	case *ast.SendStmt:
		if r.isLock(n.Chan) {
			r.edit(n.Pos(), n.Pos(), fmt.Sprintf("lockrecorder.Sends(%s); ", r.text(n.Chan)))
		}
	}
	return true
}

// method rewrites a method of a lock, whether it is called or used as a value.
func (r *rewriting) method(n *ast.SelectorExpr, s *types.Selection) {
	name := s.Obj().(*types.Func).FullName()
	if slices.Contains(refused, name) {
		r.fail(n, name+" does not tell which lock it is")
	}
	function, ok := methods[name]
	switch {
	case !ok:
		return
	case s.Kind() == types.MethodExpr:
		r.fail(n, "a method expression does not tell which lock it is")
		return
	}
	text, class, t := r.text(n.X), "", r.Info.TypeOf(n.X)
	if path := s.Index()[:len(s.Index())-1]; len(path) == 0 {
		class = r.class(n.X)
	} else { // an embedded lock
		for _, i := range path {
			field := under(t).(*types.Struct).Field(i)
			class, t = r.classOfField(n, t, field), field.Type()
			text += "." + field.Name()
		}
	}
	if _, isPointer := types.Unalias(t).(*types.Pointer); !isPointer {
		text = "&" + text
	} else if isMutex(t) {
		class = "*" + class // the class of what it points to is known when it runs
	}
	r.replace(n, fmt.Sprintf("lockrecorder.%s(%s, %q, %q)", function, text, class, r.at(n)))
}

// class returns the class of the lock that an expression names.
func (r *rewriting) class(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.ParenExpr:
		return r.class(x.X)
	case *ast.StarExpr:
		return r.class(x.X)
	case *ast.IndexExpr:
		return r.class(x.X)
	case *ast.Ident:
		if v, ok := r.Info.Uses[x].(*types.Var); ok {
			return r.classOfVariable(v)
		}
	case *ast.SelectorExpr:
		s := r.Info.Selections[x]
		if s == nil {
			if v, ok := r.Info.Uses[x.Sel].(*types.Var); ok {
				return r.classOfVariable(v)
			}
			break
		}
		if s.Kind() != types.FieldVal {
			break
		}
		t := s.Recv()
		for _, i := range s.Index()[:len(s.Index())-1] {
			t = under(t).(*types.Struct).Field(i).Type()
		}
		return r.classOfField(x, t, s.Obj().(*types.Var))
	}
	r.fail(x, "the source does not tell the class of this lock")
	return ""
}

// classOfVariable returns the class of a variable: with its function unless it is one of the
// package.
func (r *rewriting) classOfVariable(v *types.Var) string {
	if v.Parent() == v.Pkg().Scope() {
		return v.Pkg().Name() + "." + v.Name()
	}
	return v.Pkg().Name() + "." + r.function + "." + v.Name()
}

// classOfField returns the class of a field of a type. A generic type counts without its arguments.
func (r *rewriting) classOfField(n ast.Node, of types.Type, field *types.Var) string {
	of = types.Unalias(of)
	if p, ok := of.(*types.Pointer); ok {
		of = types.Unalias(p.Elem())
	}
	named, ok := of.(*types.Named)
	if !ok {
		r.fail(n, "the lock is in a struct without a name")
		return ""
	}
	return named.Obj().Pkg().Name() + "." + named.Obj().Name() + "." + field.Name()
}

// isLock reports whether an expression is a channel that is a lock.
func (r *rewriting) isLock(x ast.Expr) bool {
	field, ok := x.(*ast.SelectorExpr)
	if !ok || r.Info.Selections[field] == nil {
		return false
	}
	_, isChannel := r.Info.TypeOf(x).Underlying().(*types.Chan)
	return isChannel && slices.Contains(r.channels, r.class(x))
}

// received returns the channel that a statement receives from.
func received(s ast.Stmt) (ast.Expr, bool) {
	if e, ok := s.(*ast.ExprStmt); ok {
		if u, ok := e.X.(*ast.UnaryExpr); ok && u.Op == token.ARROW {
			return u.X, true
		}
	}
	return nil, false
}

// isMutex reports whether a type is that of a mutex, or of a pointer to one.
func isMutex(t types.Type) bool {
	if t == nil {
		return false
	}
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		t = p.Elem()
	}
	name := types.TypeString(t, nil)
	return name == "sync.Mutex" || name == "sync.RWMutex"
}

// under returns the underlying type of a type, or of what it points to.
func under(t types.Type) types.Type {
	if p, ok := t.Underlying().(*types.Pointer); ok {
		t = p.Elem()
	}
	return t.Underlying()
}

func (r *rewriting) offset(p token.Pos) int { return r.Fset.Position(p).Offset }

func (r *rewriting) text(n ast.Node) string {
	return string(r.source[r.offset(n.Pos()):r.offset(n.End())])
}

func (r *rewriting) at(n ast.Node) string {
	return fmt.Sprintf("%s:%d", r.file, r.Fset.Position(n.Pos()).Line)
}

func (r *rewriting) replace(n ast.Node, text string) { r.edit(n.Pos(), n.End(), text) }

func (r *rewriting) edit(from, to token.Pos, text string) {
	r.edits = append(r.edits, edit{r.offset(from), r.offset(to), text})
}

func (r *rewriting) fail(n ast.Node, why string) {
	r.errs = append(r.errs, fmt.Errorf("%s: %s", r.at(n), why))
}
