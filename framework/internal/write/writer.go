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

// Only the framework may add and remove the controller's finalizer. An author's write of the
// primary replaces the list of finalizers, or gives them up by not listing them: it must not lose
// that one.

// finalizerToKeep returns the controller's finalizer if the object is the primary and, as far as
// the run knows, has it. Otherwise it returns an empty string: an apply must not add a finalizer
// again that was removed, for instance after Cleanup.
func (w *Writer) finalizerToKeep(r *client.Client, key trc.Key) string {
	if w.Finalizer == "" || w.Owner == nil || r.GVK.GroupKind() != w.OwnerGVK.GroupKind() || key != trc.KeyOf(w.Owner) {
		return ""
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return object.FinalizerOn(w.held, w.Finalizer, w.FormerFinalizer)
}

// Primary returns the primary as the run holds it, if r and key are those of the primary; nil
// otherwise.
func (w *Writer) Primary(r *client.Client, key trc.Key) trc.Object {
	if r.GVK != w.OwnerGVK || key != trc.KeyOf(w.Owner) {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.held
}

// follow makes the answer to a write of the primary the version that the run holds, if the server
// carried the write out on the version that the run held before. No other write came in between
// then.
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

// Hold sets the version of the primary that the run holds. The object must not be changed.
func (w *Writer) Hold(primary trc.Object) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = primary
}

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

// New returns a writer for writes outside of runs.
func New(c *Port, fieldManager string) *Writer {
	return &Writer{Config: &Config{Port: c, FieldManager: fieldManager, Mode: ByApply}}
}

// Refusing returns a writer that refuses all writes with that error.
func (w *Writer) Refusing(reason error) *Writer { return &Writer{Config: w.Config, Wrong: reason} }

// Begin sets up the writer of a run: its identity, its term of leadership, and whether its requests
// are recorded.
func (w *Writer) Begin(m *Config, by trc.Writer, term *lease.Term, recording bool, calls *author.Callbacks) {
	w.Config, w.Run, w.Term, w.Recording, w.inflight.Calls = m, by, term, recording, calls
}

// Writer sends the writes of one run. It adds their answers to the caches before it returns them.
// It is safe for concurrent use after Begin.
type Writer struct {
	*Config
	// Owner is the primary, for OwnedByPrimary; nil outside of a run.
	Owner trc.Object
	// OwnerGone says that the owner no longer exists.
	OwnerGone bool
	// Run identifies the run; empty outside of one.
	Run trc.Writer
	// Term is the term of leadership in which the run began; nil if there is no election.
	Term *lease.Term

	// local is the run's writer to the local cluster; nil if this is it.
	local *Writer
	// Wrong is why nothing can be written; nil if writes are allowed.
	Wrong error

	inflight  lease.Inflight // the in-flight requests of the run
	Recording bool           // requests and reads are recorded
	// ReadsAhead counts the objects that reads returned newer than the watch has delivered.
	ReadsAhead atomic.Int32

	mu       sync.Mutex         // guards everything below; a leaf
	requests []timeline.Request // for the record
	// page takes the proven writes of the run; nil until there is one.
	page *trc.Page
	// written are the kinds whose caches were changed by an answer.
	written map[schema.GroupKind]bool
	// unresolved are the writes of unknown outcome.
	unresolved []Request
	// made are creates of earlier runs whose objects this run cannot find.
	made []Request
	// held is the primary as the run knows it. It is the version that was read, then each answer to
	// the run's own writes that the server has proven to follow directly.
	held    trc.Object
	remotes []*Writer // the run's writers to other clusters
	// unproven are the writes without a proof, which may make the primary due again.
	unproven []Unproven
}

// inRun reports whether the writer belongs to a run.
func (w *Writer) inRun() bool { return w.Run != (trc.Writer{}) }
