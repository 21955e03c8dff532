package external

import (
	"context"
	"sync"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/workflow"
)

// Values is a set of values of type V that each primary of type P needs in a system outside of the
// cluster, identified by keys. Desired decides how many there are, which may change from run to
// run. First superfluous values are deleted, then missing ones are created and different ones
// updated, one after the other. A failure with one value does not stop the others; all errors are
// joined.
//
// Everything else is as in [Value]; see its fields of the same names.
type Values[P framework.Object, V any] struct {
	// Name is the name of the node. Required.
	Name string
	// DependsOn names the nodes that must be ready before this one.
	DependsOn []string

	// Desired returns the values that should exist, by keys. Required. It is not called when all
	// values are deleted.
	Desired func(ctx context.Context, primary P, c *framework.Context[P]) (map[string]V, error)
	// Observe reads the values from the system, by keys: all values of the primary, including those
	// that are no longer desired. Required without Source and State; with State it must not be set,
	// because ByID is used.
	Observe func(ctx context.Context, c *framework.Context[P]) (map[string]V, error)
	// Source, if set, is read instead of the system.
	Source Source[V]
	// Select reports which of the values that Source holds for the primary belong to the set. Default:
	// all.
	Select func(V) bool
	// Key returns the key of a value that Source holds. Default: the source's ID. With State, the
	// stored state has the keys.
	Key func(V) string
	// Create, Update, Remove and Matches are called for one value each.
	Create  func(ctx context.Context, c *framework.Context[P], desired V, as Creation) (V, error)
	Update  func(ctx context.Context, c *framework.Context[P], actual, desired V) (V, error)
	Remove  func(ctx context.Context, c *framework.Context[P], actual V) error
	Matches func(actual, desired V) bool

	// State stores the ids of the values, for systems that choose ids themselves.
	State State[P]
	// ID and ByID are for one value.
	ID   func(V) string
	ByID func(ctx context.Context, c *framework.Context[P], id string) (V, bool, error)
	// Find searches the system for all values that were created with a [Creation].Tag, by
	// [Creation].Key.
	Find func(ctx context.Context, c *framework.Context[P], tag string) (map[string]V, error)
	// Unknown decides what follows if the outcome of a creation is unknown. Default: [Stall]. It
	// affects only that value.
	Unknown UnknownFate
	// Tag returns the tag of the values of a primary. Default: derived from its UID and Name.
	Tag func(primary P) string

	// Ready is the ready postcondition, called with all values that should exist and do. Default:
	// ready.
	Ready func(values map[string]V) workflow.Verdict
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

// Describe returns the node for a workflow, or an error that names all invalid fields.
func (b *Values[P, V]) Describe() (framework.Node[P], error) {
	s, err := b.set()
	if err != nil {
		return framework.Node[P]{}, err
	}
	node := s.node()
	node.DependsOn, node.DeleteInactive = b.DependsOn, b.DeleteInactive
	node.ActivationCondition, node.ReconcilePrecondition = b.ActivationCondition, b.ReconcilePrecondition
	node.DeletePostcondition = b.DeletePostcondition
	if b.Ready != nil {
		node.ReadyPostcondition = s.verdict(b.Ready)
	}
	return node, nil
}

// Reconcile deletes, creates and updates values as desired, and returns those that exist then. It
// returns them together with an error, too, because some values may have succeeded.
func (b *Values[P, V]) Reconcile(ctx context.Context, c *framework.Context[P]) (map[string]V, error) {
	s, err := b.set()
	if err != nil {
		return nil, err
	}
	return s.reconcile(ctx, c)
}

// Delete removes all values, and their stored state once they are gone.
func (b *Values[P, V]) Delete(ctx context.Context, c *framework.Context[P]) error {
	s, err := b.set()
	if err != nil {
		return err
	}
	return s.delete(ctx, c)
}

// Get returns the values that this run has left. Before that it returns the observed values. The
// map is the caller's.
func (b *Values[P, V]) Get(ctx context.Context, c *framework.Context[P]) (map[string]V, error) {
	s, err := b.set()
	if err != nil {
		return nil, err
	}
	return s.get(ctx, c)
}

// Sources returns what to register in [framework.ControllerOptions] if there is no workflow.
func (b *Values[P, V]) Sources() []eventsource.Source { return sourcesOf(b.Source) }

// Secondaries returns what State reads, to register in [framework.ControllerOptions] if there is no
// workflow.
func (b *Values[P, V]) Secondaries() []framework.SecondarySource { return secondariesOf(b.State) }

func (b *Values[P, V]) set() (*set[P, V], error) {
	b.once.Do(func() { b.made, b.bad = b.describe() })
	return b.made, b.bad
}

func (b *Values[P, V]) describe() (*set[P, V], error) {
	s := &set[P, V]{
		what: "external bulk", name: b.Name, source: b.Source, selects: b.Select, key: b.Key, matches: b.Matches,
		desired: b.Desired, observe: b.Observe, create: b.Create, update: b.Update, remove: b.Remove, tag: b.Tag,
	}
	if s.key == nil && !isNil(b.Source) {
		s.key = b.Source.ID
	}
	return s, s.complete(memoryOptions[P, V]{
		state: b.State, id: b.ID, byID: b.ByID, find: b.Find, unknown: b.Unknown,
	}, b.DeleteInactive)
}
