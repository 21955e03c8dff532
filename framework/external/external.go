package external

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/workflow"
)

// Value is one value of type V that each primary of type P needs in a system that is no part of the cluster: a record, a
// bucket, a repository. Its functions speak with that system. It is a node of a workflow, or is called from Reconcile and
// Cleanup: see [Value.Reconcile] and [Value.Delete]. It usually is a field of the reconciler; its fields must not be
// changed after the registration, and it must not be copied.
//
// What exists is read from Source, or asked for with Observe; what lacks is created; what differs is updated. Where the system itself chooses
// the id under which a value is found again, State remembers it, and a crash neither forgets nor doubles one: see [State].
//
// All functions get the context of the run, must return when it ends, and must be safe for concurrent use by runs of different primaries. A Context
// must not be kept. Values are shared and must not be changed, but for that which Desired returns.
type Value[P framework.Object, V any] struct {
	// Name of the node, required. No two externals of one primary may have the same, nor those of another controller of these primaries: [Creation.Tag]
	// and the name of what remembers are derived from it. After a change of it, what is remembered under the old one is forgotten.
	Name string
	// DependsOn names the nodes that must be ready before this one.
	DependsOn []string

	// Desired returns what should exist, without what only the system knows. Required. It is not called to delete.
	Desired func(ctx context.Context, primary P, c *framework.Context[P]) (V, error)
	// Observe asks the system for what exists, and returns false if there is nothing. Unless it is sure of that it must return an error: it would
	// be created anew. Required without Source and without State; with State it must not be set, but ByID. With Source, it is asked
	// before something is created, after something was removed, and when the primary goes, as what a source holds may be old.
	Observe func(ctx context.Context, c *framework.Context[P]) (V, bool, error)
	// Source, if set, is read rather than the system asked, makes the primary due when something changes there, and is told what this dependent writes:
	// that is read at once, and does not make its own primary due. Several dependents may share one.
	Source Source[V]
	// Select tells which of the values that Source holds for the primary is this one, where there are several. More than one is an error. Default: all.
	// It must be pure. With State, the id tells, so it is needed only if ids are not unique there.
	Select func(V) bool
	// Create makes the value and returns it as the system answered it. Nil for what is only read, or updated.
	Create func(ctx context.Context, c *framework.Context[P], desired V, as Creation) (V, error)
	// Update makes what exists as desired and returns it as the system answered it. With State, the id must stay. Nil for what is left as it was created.
	Update func(ctx context.Context, c *framework.Context[P], actual, desired V) (V, error)
	// Remove takes away what exists; what is gone already is no error. A value that exists afterwards, as far as Observe or ByID tell, is an error
	// that matches [ErrNotGone], and Remove is called again in the next run. Nil for what is to stay when its primary goes.
	Remove func(ctx context.Context, c *framework.Context[P], actual V) error
	// Matches tells that nothing has to be updated. Default: [reflect.DeepEqual], which suits values that have nothing but what Desired returns. With
	// State and Update it is required, as they have an id. It must be pure.
	Matches func(actual, desired V) bool

	// State remembers the id of the value, for systems that choose that themselves. It requires ID, ByID, Create and Remove.
	State State[P]
	// ID returns under which id the system has the value. It must be pure.
	ID func(V) string
	// ByID asks the system for a value by its id, and returns false if there is none. Unless it is sure of that it must return an error.
	ByID func(ctx context.Context, c *framework.Context[P], id string) (V, bool, error)
	// Find asks the system for what was created with a [Creation.Tag], and returns false if there is nothing. It should be set where the system can
	// keep the tag with the value: then no crash needs a human, and what is remembered can be found anew if it is lost. It must
	// not find what is being removed.
	Find func(ctx context.Context, c *framework.Context[P], tag string) (V, bool, error)
	// Unknown is what becomes of a creation of which nobody can tell whether it has happened; it must be [Stall] if Find is set. Default: Stall.
	Unknown UnknownFate
	// Tag returns what values are found by that were created for a primary. Default: derived from its UID and Name, so that what is made for
	// another one of its name is not mixed up with it. Another choice lets a primary that was restored from a backup find what it had.
	Tag func(primary P) string

	// Ready is the ready postcondition, asked about the value as it was left. Without a value, as of what is only read, the node is not ready.
	// Default: ready. It must be pure.
	Ready func(V) workflow.Verdict
	// ActivationCondition, ReconcilePrecondition and DeletePostcondition are those of the node, DeleteInactive too: see [workflow.Node].
	ActivationCondition   workflow.Condition[*framework.Context[P]]
	ReconcilePrecondition workflow.Condition[*framework.Context[P]]
	DeletePostcondition   workflow.Condition[*framework.Context[P]]
	DeleteInactive        bool

	once sync.Once // guards making set and problem, which are not changed any more then
	made *set[P, V]
	bad  error
}

// Source holds values of type V for primaries: [eventsource.Polling], [eventsource.PollingEach] and [eventsource.Inbound] do.
type Source[V any] interface {
	eventsource.Source
	// ID tells the values of one primary apart.
	ID(value V) string
	// Of are the values of a primary, Get that of an ID.
	Of(primary types.NamespacedName) []V
	Get(primary types.NamespacedName, id string) (value V, found bool)
	// Wrote and Removed tell of own writes.
	Wrote(primary types.NamespacedName, value V)
	Removed(primary types.NamespacedName, id string)
}

// Creation is what identifies the creation of a value.
type Creation struct {
	// Key is that of [Values], empty for a [Value].
	Key string
	// Tag is always the same for a primary and a dependent, of which Find is told it: to be kept with the value, together with Key, as by a label.
	Tag string
	// Token is the same whenever one and the same creation is repeated, and another for another one: an idempotency key. With State it is remembered
	// before Create is called. Without State there is none.
	Token string
}

// Describe makes a Value a [framework.Dependent]. An error names all fields that are wrong.
func (e *Value[P, V]) Describe() (framework.Node[P], error) {
	s, err := e.set()
	if err != nil {
		return framework.Node[P]{}, err
	}
	node := s.node()
	node.DependsOn, node.DeleteInactive = e.DependsOn, e.DeleteInactive
	node.ActivationCondition, node.ReconcilePrecondition = e.ActivationCondition, e.ReconcilePrecondition
	node.DeletePostcondition = e.DeletePostcondition
	if e.Ready != nil {
		node.ReadyPostcondition = s.verdict(func(actual map[string]V) workflow.Verdict {
			value, found := actual[only]
			if !found {
				return workflow.NotMet("there is none")
			}
			return e.Ready(value)
		})
	}
	return node, nil
}

// Reconcile brings the value about, and returns it as it is then; false if there is none, as of what is only read. Its node calls it; call it where there
// is no workflow. What it has created in a run that fails later is kept.
func (e *Value[P, V]) Reconcile(ctx context.Context, c *framework.Context[P]) (value V, found bool, err error) {
	s, err := e.set()
	if err != nil {
		return value, false, err
	}
	actual, err := s.reconcile(ctx, c)
	value, found = actual[only]
	return value, found, err
}

// Delete removes the value, and what remembers it once it is gone. It is to be called from Cleanup where there is no workflow. Without a value it sends
// nothing but what it takes to be sure.
func (e *Value[P, V]) Delete(ctx context.Context, c *framework.Context[P]) error {
	s, err := e.set()
	if err != nil {
		return err
	}
	return s.delete(ctx, c)
}

// Get returns the value as this run has left it, or, before that, as it is observed; false if there is none.
func (e *Value[P, V]) Get(ctx context.Context, c *framework.Context[P]) (value V, found bool, err error) {
	s, err := e.set()
	if err != nil {
		return value, false, err
	}
	actual, err := s.get(ctx, c)
	value, found = actual[only]
	return value, found, err
}

// Sources are for [framework.ControllerOptions] where there is no workflow.
func (e *Value[P, V]) Sources() []eventsource.Source { return sourcesOf(e.Source) }

// Secondaries are for [framework.ControllerOptions] where there is no workflow: what State reads.
func (e *Value[P, V]) Secondaries() []framework.SecondarySource { return secondariesOf(e.State) }

// only is the key of a value that is alone.
const only = ""

func (e *Value[P, V]) set() (*set[P, V], error) {
	e.once.Do(func() { e.made, e.bad = e.describe() })
	return e.made, e.bad
}

func (e *Value[P, V]) describe() (*set[P, V], error) {
	s := &set[P, V]{
		what: "external", name: e.Name, source: e.Source, selects: e.Select, matches: e.Matches,
		key:    func(V) string { return only },
		create: e.Create, update: e.Update, remove: e.Remove, tag: e.Tag,
	}
	if e.Desired != nil {
		s.desired = func(ctx context.Context, primary P, c *framework.Context[P]) (map[string]V, error) {
			value, err := e.Desired(ctx, primary, c)
			return asSet(value, true, err)
		}
	}
	if e.Observe != nil {
		s.observe = single(e.Observe)
	}
	m := remembering[P, V]{state: e.State, id: e.ID, byID: e.ByID, unknown: e.Unknown}
	if e.Find != nil {
		m.find = func(ctx context.Context, c *framework.Context[P], tag string) (map[string]V, error) {
			value, found, err := e.Find(ctx, c, tag)
			return asSet(value, found, err)
		}
	}
	return s, s.complete(m, e.DeleteInactive)
}

func single[P framework.Object, V any](ask func(context.Context, *framework.Context[P]) (V, bool, error)) func(context.Context, *framework.Context[P]) (map[string]V, error) {
	return func(ctx context.Context, c *framework.Context[P]) (map[string]V, error) { return asSet(ask(ctx, c)) }
}

func asSet[V any](value V, found bool, err error) (map[string]V, error) {
	if err != nil || !found {
		return nil, err
	}
	return map[string]V{only: value}, nil
}

func sourcesOf[V any](source Source[V]) []eventsource.Source {
	if isNil(source) {
		return nil
	}
	return []eventsource.Source{source}
}

func secondariesOf[P framework.Object](state State[P]) []framework.SecondarySource {
	if isNil(state) {
		return nil
	}
	return state.Secondaries()
}
