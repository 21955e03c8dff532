package write

import (
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/framework/internal/lease"
	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/internal/author"
	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// The controller's finalizer is the framework's to put on and take off. What an author writes of the primary
// lists finalizers as a whole, or gives them up by not listing them: it must not lose that one.

// finalizerToKeep is the controller's finalizer if an object is the primary and carries it as far as the run
// knows, empty otherwise: one that is off, as after Cleanup, is not put on again by an apply.
func (w *Writer) finalizerToKeep(r *client.Client, key trc.Key) string {
	if w.Finalizer == "" || w.Owner == nil || r.GVK.GroupKind() != w.OwnerGVK.GroupKind() || key != trc.KeyOf(w.Owner) {
		return ""
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return object.FinalizerOn(w.held, w.Finalizer, w.FormerFinalizer)
}

// Primary returns the primary as the run holds it, if the key is its; nil otherwise.
func (w *Writer) Primary(r *client.Client, key trc.Key) trc.Object {
	if r.GVK != w.OwnerGVK || key != trc.KeyOf(w.Owner) {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.held
}

// follow takes the answer to a write of the primary as what the run holds, if the server carried it out
// on the version that the run held before: nothing foreign lies in between then.
func (w *Writer) follow(q Request, answer trc.Object) {
	held := w.Primary(q.resource, q.key)
	if held == nil || held.GetResourceVersion() != q.base.GetResourceVersion() || held.GetUID() != answer.GetUID() {
		return
	}
	if !q.options.Internal { // the author may change it
		answer = answer.DeepCopyObject().(trc.Object)
	}
	w.Hold(answer)
}

// Hold takes an object that is not changed any more as what the run holds of the primary.
func (w *Writer) Hold(primary trc.Object) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = primary
}

// Config is how a controller writes, or who writes outside of its runs.
type Config struct {
	Port         *Port
	FieldManager string
	// mode is how secondaries are written by Apply.
	Mode Mode
	// ownerGVK is the kind of the primaries; empty outside of runs.
	OwnerGVK schema.GroupVersionKind
	// finalizer is the controller's, empty if it has none; formerFinalizer counts as it.
	Finalizer, FormerFinalizer string
	// created, if set, is told of objects that a run has created.
	Created func(w *Writer, r *client.Client, key trc.Key)
	// loops are the controller's, nil outside of runs.
	Loops LoopWatch
	// owns is told of what kinds secondaries are written as owned; nil outside of runs.
	Owns func(gvk schema.GroupVersionKind)
}

// LoopWatch is told of what runs write of their own primaries without a proof.
type LoopWatch interface {
	// wrote is called before anybody is told of the write.
	Wrote(key trc.Key, what Unproven)
	// does says that a request of the author's about the primary is under way, until done is called.
	Does(key trc.Key) (done func())
}

// New returns what writes go through that are made outside of runs.
func New(c *Port, fieldManager string) *Writer {
	return &Writer{Config: &Config{Port: c, FieldManager: fieldManager, Mode: ByApply}}
}

// Refusing returns a writer that writes nothing, for a reason.
func (w *Writer) Refusing(reason error) *Writer { return &Writer{Config: w.Config, Wrong: reason} }

// Begin sets the writer of a run up: who writes, in which term of leadership, and whether its requests are recorded.
func (w *Writer) Begin(m *Config, by trc.Writer, term *lease.Term, noting bool, calls *author.Callbacks) {
	w.Config, w.Run, w.Term, w.Recording, w.inflight.Calls = m, by, term, noting, calls
}

// Writer sends the writes of one run, and lays their answers over the caches before it returns them.
type Writer struct {
	*Config
	// owner is the primary, for OwnedByPrimary; nil outside of a run.
	Owner trc.Object
	// ownerGone says that the owner does not exist any more.
	OwnerGone bool
	// run is who writes in a run; empty outside of one.
	Run trc.Writer
	// term is the time in office in which the run began, nil if there is no election.
	Term *lease.Term

	// home is what the run writes to the operator's own cluster through: nil if that is it. far are those of other clusters.
	home *Writer
	// wrong is why nothing can be written, nil mostly.
	Wrong error

	inflight  lease.Inflight // the requests of the run
	Recording bool           // requests and reads are to be noted
	// readsAhead counts the objects that reads brought from ahead of the watch.
	ReadsAhead atomic.Int32

	mu       sync.Mutex // guards everything below; a leaf
	requests []timeline.Request
	// page takes the proven writes of the run; nil until there is one.
	page *trc.Page
	// written are the kinds that an answer was acknowledged for.
	written map[schema.GroupKind]bool
	// unresolved are the writes of unknown fate.
	unresolved []Request
	// made are creates of former runs that this one cannot find the objects of by itself.
	made []Request
	// held is the primary as the run knows it: as it was read, moved on by those of the run's own writes
	// that the server has proven to follow it directly.
	held trc.Object
	far  []*Writer
	// unproven is what writes left that prove nothing, and that may make the primary due again.
	unproven []Unproven
}

func (w *Writer) inRun() bool { return w.Run != (trc.Writer{}) }
