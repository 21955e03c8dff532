package framework

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework/internal/run"
	"github.com/evenkeel/evenkeel/framework/internal/write"
	"github.com/evenkeel/evenkeel/timeline"
)

// Context is one run of one primary: what it may read, what it writes through, and why it runs. It
// belongs to its run; reads and writes through it fail with [ErrRunEnded] afterwards.
type Context[P Object] struct {
	run run.Run
}

var (
	_ Lookup = (*Context[Object])(nil)
	_ Writes = (*Context[Object])(nil)
)

// Primary returns the very copy that Reconcile or Cleanup was given.
func (c *Context[P]) Primary() P {
	primary, _ := c.run.Primary.(P)
	return primary
}

// Gone reports, with [ControllerOptions.AllEvents], that the primary does not exist any more, or not for this
// controller: [Context.Primary] is what was known of it last. The cache may show another one of its name.
func (c *Context[P]) Gone() bool { return c.run.Gone }

// Finalizer is the controller's, which keeps primaries until it has cleaned up; empty if it has none: the reconciler is no Cleaner, and
// nothing of its workflow is to be deleted.
func (c *Context[P]) Finalizer() string {
	if !c.run.Controller.Cleans() {
		return ""
	}
	return c.run.Controller.Options.Finalizer
}

// Key returns the primary's namespace and name.
func (c *Context[P]) Key() types.NamespacedName { return c.run.Key }

// Causes returns why this run happens, oldest first. The slice must not be changed.
func (c *Context[P]) Causes() []timeline.Cause { return c.run.Due.Causes }

// RetryInfo tells a retry from an ordinary run.
type RetryInfo struct {
	// Attempt is 0 for a run after a success, n for the n-th retry.
	Attempt int
	// LastAttempt is true if the policy grants no further retry.
	LastAttempt bool
	// BackOffLeft is how long after the start of this run the retry of an earlier failure is due that an event has
	// brought this run before: if it fails, too, the retry comes then all the same. 0 if none is waited for, as
	// before the first failure and in the retry itself.
	BackOffLeft time.Duration
}

// Retry tells which attempt this run is.
func (c *Context[P]) Retry() RetryInfo {
	return RetryInfo{Attempt: c.run.Due.Attempt, LastAttempt: c.run.Due.LastAttempt, BackOffLeft: c.run.Due.BackOffLeft}
}

// NextRunImminent reports whether a further run is already certain to follow this one, so that, say,
// an intermediate status need not be written. What the run itself has written brings none, as long as that is
// proven. A rate limit or a back-off may delay it.
func (c *Context[P]) NextRunImminent() bool { return c.run.Controller.Scheduler.Imminent(c.run.Key) }

// Logger returns the run's logger, which carries controller, controllerGroup, controllerKind,
// namespace, name and reconcileID. It is also in the ctx of the run.
func (c *Context[P]) Logger() logr.Logger { return c.run.Logger() }

// Live reads an object of T's type from the API server, consistently, past all caches: one request.
// Use it where a cached answer will not do even though it is at least as new as the controller's own
// writes. namespace is empty for cluster-scoped objects. *unstructured.Unstructured is refused, as
// nothing tells its kind. One that does not exist is an error that apierrors.IsNotFound recognises. It gives
// up after 30 s without an answer. What it found is laid over every cache of the kind before it returns, or that there is
// none: no later read shows an older state.
func Live[T Object, P Object](ctx context.Context, c *Context[P], namespace, name string) (T, error) {
	var none T
	if c.run.Ended.Load() {
		return none, ErrRunEnded
	}
	sample := newObject[T]()
	sample.SetNamespace(namespace)
	sample.SetName(name)
	r, key, err := c.run.Write.Target(ctx, sample)
	if err != nil {
		return none, err
	}
	o, err := c.run.Write.Live(ctx, r, key)
	if err != nil {
		return none, err
	}
	return o.(T), nil
}

// Event publishes a Kubernetes event about the primary. action says what was done or tried, reason
// why in one CamelCase word; both are for machines, note is for people. Repetitions are counted by
// the events API instead of being stored one by one, with the note of the first; a note is cut at 1,024
// bytes. It never blocks; events are best effort. Once the run has ended, or the lease is lost in which it began, nothing
// is published: what such a run decides does not come about.
func (c *Context[P]) Event(kind EventKind, action, reason, note string, args ...any) {
	if c.run.Ended.Load() || c.run.Write.LostLease() {
		return
	}
	c.run.Controller.Operator.Event(c.run.Controller.GVK, c.run.Write.Owner, kind == Warning, action, reason, note, args...)
}

// EventKind is Normal or Warning.
type EventKind int

// The kinds of events.
const (
	Normal EventKind = iota
	Warning
)

// String returns the kind as the API spells it.
func (k EventKind) String() string {
	if k == Warning {
		return corev1.EventTypeWarning
	}
	return corev1.EventTypeNormal
}

func (c *Context[P]) writer() *write.Writer { return c.run.Write }
func (c *Context[P]) lookup() *run.Run      { return &c.run }
