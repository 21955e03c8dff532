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
// belongs to its run. Reads and writes through it fail with [ErrRunEnded] after the run.
type Context[P Object] struct {
	run run.Run
}

var (
	_ Lookup = (*Context[Object])(nil)
	_ Writes = (*Context[Object])(nil)
)

// Primary returns the same copy that Reconcile or Cleanup received.
func (c *Context[P]) Primary() P {
	primary, _ := c.run.Primary.(P)
	return primary
}

// Gone reports whether the primary no longer exists, or no longer exists for this controller. It
// can be true only with [ControllerOptions.AllEvents]. [Context.Primary] is then the last known
// state. The cache may show another object of that name.
func (c *Context[P]) Gone() bool { return c.run.Gone }

// Finalizer returns the controller's finalizer, which keeps primaries until the controller has
// cleaned up. It is empty if the reconciler is not a [Cleaner] and its workflow has nothing to
// delete.
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

// RetryInfo describes the attempt of a run.
type RetryInfo struct {
	// Attempt is 0 for a run after a success, and n for the n-th retry.
	Attempt int
	// LastAttempt is true if the policy allows no further retry.
	LastAttempt bool
	// BackOffLeft is the time from the start of this run until the retry of an earlier failure, if an
	// event caused this run before that retry. If this run fails too, the retry still comes at that
	// time. It is 0 if no retry is pending, as before the first failure and in the retry itself.
	BackOffLeft time.Duration
}

// Retry returns the attempt that this run is.
func (c *Context[P]) Retry() RetryInfo {
	return RetryInfo{Attempt: c.run.Due.Attempt, LastAttempt: c.run.Due.LastAttempt, BackOffLeft: c.run.Due.BackOffLeft}
}

// NextRunImminent reports whether it is already certain that another run follows this one, so that,
// for example, an intermediate status need not be written. The run's own writes cause no further
// run, as long as they are proven. A rate limit or a back-off may delay the next run.
func (c *Context[P]) NextRunImminent() bool { return c.run.Controller.Scheduler.Imminent(c.run.Key) }

// Logger returns the run's logger. It carries controller, controllerGroup, controllerKind,
// namespace, name and reconcileID. The ctx of the run carries the same logger.
func (c *Context[P]) Logger() logr.Logger { return c.run.Logger() }

// Live reads an object of T's type from the API server, consistently and past all caches. It takes
// one request, and gives up after 30 s without an answer. Use it where a cached answer is not
// enough, although that is at least as new as the controller's own writes.
//
// namespace is empty for cluster-scoped objects. *unstructured.Unstructured is refused, because it
// has no kind. For an object that does not exist it returns an error that apierrors.IsNotFound
// recognises.
//
// The answer, or that there is none, is recorded in every cache of the kind before Live returns: no
// later read shows an older state.
func Live[T Object, P Object](ctx context.Context, c *Context[P], namespace, name string) (T, error) {
	var none T
	if c.run.Ended.Load() {
		return none, ErrRunEnded
	}
	sample := newObject[T]()
	sample.SetNamespace(namespace)
	sample.SetName(name)
	r, key, err := c.run.Writes.Local.Target(ctx, sample)
	if err != nil {
		return none, err
	}
	o, err := c.run.Writes.Local.Live(ctx, r, key)
	if err != nil {
		return none, err
	}
	return o.(T), nil
}

// Event publishes a Kubernetes event about the primary. action is what was done or tried, and
// reason is why, in one CamelCase word. Both are for machines. note and args are formatted for
// people, and cut at 1,024 bytes. The events API counts repetitions instead of storing each, with
// the note of the first.
//
// It never blocks, and events are best effort. Nothing is published once the run has ended, or once
// the lease that the run began under is lost, because the decisions of such a run do not take
// effect.
func (c *Context[P]) Event(kind EventKind, action, reason, note string, args ...any) {
	if c.run.Ended.Load() || c.run.Writes.LostLease() {
		return
	}
	c.run.Controller.Operator.Event(c.run.Controller.GVK, c.run.Writes.Primary.Object, kind == Warning, action, reason, note, args...)
}

// EventKind is [Normal] or [Warning].
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

func (c *Context[P]) writer() *write.Writer { return &c.run.Writes.Local }
func (c *Context[P]) lookup() *run.Run      { return &c.run }
