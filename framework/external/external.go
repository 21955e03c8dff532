package external

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/workflow"
)

// Value is one value of type V that each primary of type P needs in a system outside of the
// cluster: a record, a bucket, a repository. Its functions call that system. It is a node of a
// workflow, or is called from Reconcile and Cleanup: see [Value.Reconcile] and [Value.Delete]. It
// usually is a field of the reconciler. Its fields must not be changed after the registration, and
// it must not be copied.
//
// The present value is read from Source, or from the system with Observe. A missing value is
// created, and a different one is updated. If the system itself chooses the id of a value, State
// stores it, and a crash neither loses nor duplicates a value: see [State].
//
// All functions get the context of the run and must return when it ends. They must be safe for
// concurrent use by runs of different primaries, and must not keep a Context. Values are shared and
// must not be changed, except the result of Desired.
type Value[P framework.Object, V any] struct {
	// Name is the name of the node. Required. It must be unique among the externals of a primary,
	// including those of other controllers: [Creation].Tag and the name of the stored state are
	// derived from it. If it changes, the state under the old name is lost.
	Name string
	// DependsOn names the nodes that must be ready before this one.
	DependsOn []string

	// Desired returns the value that should exist, without the fields that only the system sets.
	// Required. It is not called for deletions.
	Desired func(ctx context.Context, primary P, c *framework.Context[P]) (V, error)
	// Observe reads the value from the system, and returns false if there is none. Required without
	// Source and State; with State it must not be set, because ByID is used. If it is not certain that
	// there is none, it must return an error: otherwise the value would be created again. With Source,
	// it is called before a creation, after a removal, and when the primary is deleted, because what a
	// source holds may be old.
	Observe func(ctx context.Context, c *framework.Context[P]) (V, bool, error)
	// Source, if set, is read instead of the system, and makes the primary due when something changes
	// there. Own writes are stored in it: they are read at once, and do not make their own primary
	// due. Several dependents may share a Source.
	Source Source[V]
	// Select reports which of the values that Source holds for the primary is this one. Default: all;
	// more than one is an error. It must be pure. With State, the id selects the value, so it is
	// needed only if ids are not unique in the source.
	Select func(V) bool
	// Create creates the value and returns it as the system answered. Default: values are only read or
	// updated.
	Create func(ctx context.Context, c *framework.Context[P], desired V, as Creation) (V, error)
	// Update changes the present value as desired and returns it as the system answered. Default:
	// values stay as they were created. With State, the id must not change.
	Update func(ctx context.Context, c *framework.Context[P], actual, desired V) (V, error)
	// Remove removes the value. Default: it stays when its primary is deleted. It must not fail if the
	// value is gone already. If Observe or ByID still finds a value afterwards, that is an error that
	// matches [ErrNotGone], and the next run calls Remove again.
	Remove func(ctx context.Context, c *framework.Context[P], actual V) error
	// Matches reports whether no update is needed. Default: [reflect.DeepEqual], which suits values
	// that consist only of what Desired returns. With State and Update it is required, because values
	// have an id then. It must be pure.
	Matches func(actual, desired V) bool

	// State stores the id of the value, for systems that choose ids themselves. Default: none. It
	// requires ID, ByID, Create and Remove.
	State State[P]
	// ID returns the system's id of a value. It must be pure.
	ID func(V) string
	// ByID reads a value from the system by its id, and returns false if there is none. If it is not
	// certain of that, it must return an error.
	ByID func(ctx context.Context, c *framework.Context[P], id string) (V, bool, error)
	// Find searches the system for the value that was created with a [Creation].Tag, and returns false
	// if there is none. It should be set if the system can keep the tag with the value: then no crash
	// needs a human, and a lost id can be found again. It must not find values that are being removed.
	Find func(ctx context.Context, c *framework.Context[P], tag string) (V, bool, error)
	// Unknown decides what follows if the outcome of a creation is unknown. Default: [Stall]. It must
	// be Stall if Find is set.
	Unknown UnknownFate
	// Tag returns the tag of the values of a primary. Default: derived from its UID and Name, so that
	// values of another primary of that name are not mixed up with it. With a tag that does not depend
	// on the UID, a primary that was restored from a backup finds its values.
	Tag func(primary P) string

	// Ready is the ready postcondition, called with the value that the run has left. Default: ready.
	// If there is no value, as for one that is only read, the node is not ready. It must be pure.
	Ready func(V) workflow.Verdict
	// ActivationCondition, ReconcilePrecondition, DeletePostcondition and DeleteInactive are those of
	// [workflow.Node].
	ActivationCondition   workflow.Condition[*framework.Context[P]]
	ReconcilePrecondition workflow.Condition[*framework.Context[P]]
	DeletePostcondition   workflow.Condition[*framework.Context[P]]
	DeleteInactive        bool

	once sync.Once // guards the creation of made and bad, which do not change afterwards
	made *set[P, V]
	bad  error
}

// Source holds values of type V for primaries. [eventsource.Polling], [eventsource.PollingEach] and
// [eventsource.Inbound] implement it.
type Source[V any] interface {
	eventsource.Source
	// ID identifies a value among those of its primary.
	ID(value V) string
	// Of returns the values of a primary, Get the one with an ID.
	Of(primary types.NamespacedName) []V
	Get(primary types.NamespacedName, id string) (value V, found bool)
	// Wrote and Removed store own writes.
	Wrote(primary types.NamespacedName, value V)
	Removed(primary types.NamespacedName, id string)
}

// Creation identifies the creation of a value.
type Creation struct {
	// Key is the key of the value in [Values], "" for a [Value].
	Key string
	// Tag is always the same for a primary and a dependent. Keep it with the value, together with Key,
	// as a label for instance: Find is called with it.
	Tag string
	// Token is an idempotency key: the same for every attempt of one creation, and different for
	// another creation. With State it is stored before Create is called. Without State it is "".
	Token string
}

// Describe returns the node for a workflow, or an error that names all invalid fields.
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

// Reconcile creates or updates the value and returns it. It returns false if there is none, as for
// a value that is only read. The node calls it; call it yourself if there is no workflow. A value
// that was created stays, even if the run fails later.
func (e *Value[P, V]) Reconcile(ctx context.Context, c *framework.Context[P]) (value V, found bool, err error) {
	s, err := e.set()
	if err != nil {
		return value, false, err
	}
	actual, err := s.reconcile(ctx, c)
	value, found = actual[only]
	return value, found, err
}

// Delete removes the value, and its stored state once the value is gone. Call it from Cleanup if
// there is no workflow. If there is no value, it sends only the requests that are needed to be
// certain.
func (e *Value[P, V]) Delete(ctx context.Context, c *framework.Context[P]) error {
	s, err := e.set()
	if err != nil {
		return err
	}
	return s.delete(ctx, c)
}

// Get returns the value that this run has left. Before that it returns the observed value; false if
// there is none.
func (e *Value[P, V]) Get(ctx context.Context, c *framework.Context[P]) (value V, found bool, err error) {
	s, err := e.set()
	if err != nil {
		return value, false, err
	}
	actual, err := s.get(ctx, c)
	value, found = actual[only]
	return value, found, err
}

// Sources returns what to register in [framework.ControllerOptions] if there is no workflow.
func (e *Value[P, V]) Sources() []eventsource.Source { return sourcesOf(e.Source) }

// Secondaries returns what State reads, to register in [framework.ControllerOptions] if there is no
// workflow.
func (e *Value[P, V]) Secondaries() []framework.SecondarySource { return secondariesOf(e.State) }

// only is the key of the value of a [Value].
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
	m := memoryOptions[P, V]{state: e.State, id: e.ID, byID: e.ByID, unknown: e.Unknown}
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
