package write

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/trc"
)

// Config is the write config of a controller, or of a writer outside of runs.
type Config struct {
	Port         *Port  // the local cluster, or another one
	FieldManager string // of all writes
	// Mode is how Apply writes secondaries.
	Mode Mode
	// OwnerGVK is the kind of the primaries; empty outside of runs.
	OwnerGVK schema.GroupVersionKind
	// Finalizer is the controller's, empty if it has none. FormerFinalizer counts as it.
	Finalizer, FormerFinalizer string
	// Created, if not nil, is called for objects that a run has created.
	Created func(w *Writer, r *client.Client, key trc.Key)
	// Loops is the controller's; nil outside of runs.
	Loops LoopWatch
	// Owns, if not nil, is called for the kinds of secondaries that are written as owned.
	Owns func(gvk schema.GroupVersionKind)
}

// LoopWatch watches the unproven writes of runs to their own primaries.
type LoopWatch interface {
	// Wrote is called before the change is delivered.
	Wrote(key trc.Key, what Unproven)
	// Does is called when a request of the author's for the primary begins; done when it has ended.
	Does(key trc.Key) (done func())
}

// Writer sends writes to one cluster, of one run or outside of runs. It adds their answers to the
// caches before it returns them. It is safe for concurrent use after Run.Begin.
type Writer struct {
	*Config
	// Run is what the writers of the run have in common. A writer outside of runs has a Run of its
	// own, without an identity.
	Run *Run
	// Wrong is why nothing can be written; nil if writes are allowed.
	Wrong error

	primary *Primary // nil outside of runs, and in other clusters than the primary's
	answers answers
}

// New returns a writer for writes outside of runs.
func New(c *Port, fieldManager string) *Writer {
	r := &Run{}
	r.Local = Writer{Config: &Config{Port: c, FieldManager: fieldManager, Mode: ByApply}, Run: r}
	return &r.Local
}

// Refusing returns a writer that refuses all writes with that error.
func (w *Writer) Refusing(reason error) *Writer {
	return &Writer{Config: w.Config, Run: w.Run, Wrong: reason}
}

// Target checks what all writes have in common, and returns the client and the key of the object.
func (w *Writer) Target(ctx context.Context, o trc.Object) (*client.Client, trc.Key, error) {
	r, err := w.resourceOf(ctx, o)
	if err != nil {
		return nil, trc.Key{}, err
	}
	key := trc.KeyOf(o)
	if r.OnlyCreated {
		return nil, trc.Key{}, fmt.Errorf("framework: %s: objects of this kind are never stored, they can only be created; %w", r.Describe(key), errNothingSent)
	}
	if err := r.CheckScope(key); err != nil {
		return nil, trc.Key{}, err
	}
	return r.Writes, key, w.Port.checkPlace(r, key, o.GetUID())
}

// checkPlace refuses an object that was read from another cluster. For a request it would seem to
// be deleted or replaced.
func (c *Port) checkPlace(r *client.Client, key trc.Key, uid types.UID) error {
	if uid == "" {
		return nil
	}
	for _, other := range c.Others() {
		if other != c && other.Shows(r.GVK, key, uid) && !c.Shows(r.GVK, key, uid) {
			return fmt.Errorf("framework: %s: it is an object of another cluster%s: Secondary.In writes to that of its secondaries, a Context to the operator's own", r.Describe(key), other.Place())
		}
	}
	return nil
}

// resourceOf returns the client of the object's kind, in the object's form.
func (w *Writer) resourceOf(ctx context.Context, o trc.Object) (*client.Client, error) {
	if w.Wrong != nil {
		return nil, w.Wrong
	}
	if object.IsNil(o) {
		return nil, errors.New("framework: the object is nil")
	}
	gvk, err := client.GVKOf(w.Port.Scheme, o)
	if err != nil {
		return nil, err
	}
	return w.Port.ClientOf(ctx, o, gvk)
}

// wholeTarget is Target for writes that send the whole object.
func (w *Writer) wholeTarget(ctx context.Context, o trc.Object) (*client.Client, trc.Key, error) {
	r, key, err := w.Target(ctx, o)
	if err == nil && object.FormOf(o) == object.Metadata {
		err = fmt.Errorf("framework: %s: a metadata-only object can be applied, patched and deleted, but not created or replaced: its content would be missing", r.Describe(key))
	}
	return r, key, err
}

// errRemoved is the error of writes to a cluster that is no longer watched: no cache would show
// them.
var errRemoved = errors.New("framework: the operator no longer reads secondaries from that cluster; if one was added again, get a new writer")

// check returns the error that enter would return, for writes that may need no request.
func (w *Writer) check() error {
	switch {
	case w.Port.Inflight.IsClosed() || w.Run.inflight.IsClosed():
		return ErrRunEnded
	case w.Run.isRun() && w.Run.lostLease(w.Port.Fence) || !w.Port.Fence.Allowed():
		return ErrStandby
	case w.Port.Abandoned.Load():
		return errRemoved
	}
	return nil
}

// enter registers a request. It returns an error if the run has ended, or if another instance
// leads. The context of the request ends with the run, the term of leadership and the operator.
func (w *Writer) enter(ctx context.Context, verb string, r *client.Client, key trc.Key) (_ context.Context, done func(), err error) {
	if w.Port.Abandoned.Load() {
		return nil, nil, errRemoved
	}
	what := fmt.Stringer(underway{verb, r, key, w.Run.By}) // once: it allocates
	ctx, down, ok := w.Port.Inflight.Enter(ctx, what)
	if !ok {
		return nil, nil, ErrRunEnded
	}
	ctx, downOfTerm, ok := w.Run.enterTerm(ctx, w.Port.Fence, what)
	if !ok {
		down()
		return nil, nil, ErrStandby
	}
	ctx, downOfRun, ok := w.Run.inflight.Enter(ctx, what)
	if !ok {
		downOfTerm()
		down()
		return nil, nil, ErrRunEnded
	}
	return ctx, func() { downOfRun(); downOfTerm(); down() }, nil
}

// underway describes a request in flight, for people.
type underway struct {
	verb string
	of   *client.Client
	key  trc.Key
	by   trc.Writer // empty outside of runs
}

// String returns the request and who sends it.
func (u underway) String() string {
	text := u.verb + " " + u.of.Describe(u.key)
	if u.by != (trc.Writer{}) {
		text += " of a run of " + u.by.Primary.String() + " by controller " + u.by.Controller
	}
	return text
}
