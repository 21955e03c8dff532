package framework

import (
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework/internal/admission"
	"github.com/evenkeel/evenkeel/framework/internal/cache"
	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/framework/internal/lease"
	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/framework/internal/run"
	"github.com/evenkeel/evenkeel/scheduler"
	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// PendingKeys is the number of primaries that a controller's scheduler keeps state for.
func PendingKeys(op *Operator, controller string) int {
	op.mu.Lock()
	defer op.mu.Unlock()
	for _, c := range op.controllers {
		if c.Name == controller {
			return c.Scheduler.Len()
		}
	}
	return -1
}

// EndWrites does to writes what the end of Operator.Run does.
func EndWrites(op *Operator) { op.host.Cluster.Inflight.Close() }

// Shown is the version of an object that the caches show, empty if none does.
func Shown(op *Operator, gvk schema.GroupVersionKind, key trc.Key) string {
	if o := ShownObject(op, gvk, key); o != nil {
		return o.GetResourceVersion()
	}
	return ""
}

// ShownObject is the object that the caches show, shared, or nil.
func ShownObject(op *Operator, gvk schema.GroupVersionKind, key trc.Key) Object {
	for _, s := range op.host.Cluster.StoresOf(gvk) {
		if o := s.Get(key); o != nil {
			return o
		}
	}
	return nil
}

// AnswerAs is what a cache of a Go type gets of an answer in another form.
func AnswerAs(answered Object, gvk schema.GroupVersionKind, sample Object) Object {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(gvk, sample)
	own, err := cache.Forms{Scheme: scheme}.As(object.Typed, gvk, client.Answer{Object: answered})
	if err != nil {
		panic(err)
	}
	return own
}

// Lanes is the number of objects that an apply is under way to, or waits.
func Lanes(op *Operator) int { return op.Occupancy().Applying }

// Rewind does to an operator what a list does that is older than what its watch had delivered.
func Rewind(op *Operator, gvk schema.GroupVersionKind) {
	for _, s := range op.host.Cluster.StoresOf(gvk) {
		op.host.Cluster.Rewound(s, "7", "3")
	}
}

// Unresolved is the number of writes of unknown fate that wait for the next run of their primary.
func Unresolved(op *Operator) int { return op.Occupancy().Unresolved }

// Loops is the number of primaries that are remembered because their last run may have made them
// due.
func Loops(op *Operator) int {
	return op.controllers[0].Loops()
}

// FinalRuns is the number of names under which primaries wait for their last run.
func FinalRuns(op *Operator) int { return op.Occupancy().FinalRuns }

// Histories is the number of primaries that records are kept of one by one.
func Histories(op *Operator) int { return op.Occupancy().Histories }

// RecordAllocations is how often a controller allocates to record a run that ended as the record
// says.
func RecordAllocations(op *Operator, r timeline.Record) float64 {
	c := op.controllers[0]
	key := trc.Key{Namespace: "default", Name: "p"}
	return testing.AllocsPerRun(100, func() { c.Records.Add(key, r) })
}

// RunAllocations is how often a whole run of a primary allocates, from where the scheduler calls
// it.
func RunAllocations(op *Operator, primary types.NamespacedName, cause timeline.Cause) float64 {
	c := op.controllers[0]
	run := scheduler.Run{Causes: []timeline.Cause{cause}}
	return testing.AllocsPerRun(100, func() { c.Reconcile(context.Background(), primary, run) })
}

// CancelledLifetime returns the context of a run that was cancelled, and asked only after its
// deadline.
func CancelledLifetime(cause error) context.Context {
	l := &admission.Lifetime{}
	l.Begin(context.Background(), -time.Second, logs(logr.Discard))
	l.Cancel(cause)
	return l
}

type logs func() logr.Logger

func (l logs) Logger() logr.Logger { return l() }

// Cached returns the object as each cache shows it: the very one.
func Cached(op *Operator, gvk schema.GroupVersionKind, key trc.Key) (all []Object) {
	for _, s := range op.host.Cluster.StoresOf(gvk) {
		if o := s.Get(key); o != nil {
			all = append(all, o)
		}
	}
	return all
}

// StopTimerOfTerm has the timer of the current term fire late, as after a pause of the process.
func StopTimerOfTerm(op *Operator) { op.host.Cluster.Fence.Current().PauseTimer() }

// ResolvedElection is what the options of a leader election come to, or what is wrong with them.
func ResolvedElection(o LeaderElection, operator, file string) (LeaderElection, error) {
	o = o.resolved(operator, inferNamespace(file))
	return o, o.validate()
}

// WantsOther tells whether what is wanted of an object has changed.
func WantsOther(old, new Object) bool { return run.GenerationChanged(old, new) }

// StillReads has a run read secondaries, and returns what counts those that their source holds,
// whatever has become of it.
func StillReads[P Object](c *Context[P], secondary SecondarySource) (count func() int) {
	source, err := c.run.Informer(secondary)
	if err != nil {
		panic(err)
	}
	return source.Store().Len
}

// HasIndex tells whether a cache of a kind has an index.
func HasIndex(op *Operator, gvk schema.GroupVersionKind, name string) bool {
	for _, s := range op.host.Cluster.StoresOf(gvk) {
		if _, err := s.ByIndex(name, ""); err == nil {
			return true
		}
	}
	return false
}

// Remotes is the number of other clusters that an operator knows.
func Remotes(op *Operator) int {
	return len(op.host.Clusters()) - 1
}

// IsChanging tells whether somebody holds what guards sources and namespaces.
func IsChanging(op *Operator) bool {
	if op.host.Changing.TryLock() {
		op.host.Changing.Unlock()
		return false
	}
	return true
}

// ResumesAfterCatchingUp reports whether controllers resume at the begin of a term that ends with a
// context, and lasts until a time, which both may have passed while the caches caught up.
func ResumesAfterCatchingUp(t *testing.T, leading context.Context, until time.Time) bool {
	t.Helper()
	op, err := NewOperator(&rest.Config{Host: "http://nowhere.invalid"}, OperatorOptions{
		Scheme: runtime.NewScheme(), Name: "fence", LeaderElection: LeaderElection{Mode: Always, Namespace: "default"},
	})
	if err != nil {
		t.Fatal(err)
	}
	held := lease.NewTerm(func() {}, func() time.Duration { return 0 }, nil)
	held.Extend(until, 0)
	defer held.Stop()
	op.host.Cluster.Fence.Set(held)
	resumed := false
	leadership{op: op}.beginTerm(leading, func() { resumed = true })
	return resumed
}

// SetAsleep has an operator with leader election believe that the machine was suspended so long so
// far.
func SetAsleep(op *Operator, asleep func() time.Duration) { op.election.Asleep = asleep }
