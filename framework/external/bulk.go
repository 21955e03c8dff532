package external

import (
	"context"
	"sync"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/workflow"
)

// Values is a set of values of type V that each primary of type P needs in a system that is no part of the cluster, told apart by keys: as many as
// Desired says, which may change from run to run. What is too many is deleted first, then what lacks is created and what differs updated,
// one after the other. What fails for one of them does not keep the others from their turn; all errors are joined.
//
// All else is as with [Value], whose fields of the same names say more.
type Values[P framework.Object, V any] struct {
	// Name of the node, required.
	Name string
	// DependsOn names the nodes that must be ready before this one.
	DependsOn []string

	// Desired returns what should exist, by keys. Required. It is not called to delete all.
	Desired func(ctx context.Context, primary P, c *framework.Context[P]) (map[string]V, error)
	// Observe asks the system for what exists, by keys: all that is the primary's, also what is no longer desired. Required without
	// Source and without State; with State it must not be set, but ByID.
	Observe func(ctx context.Context, c *framework.Context[P]) (map[string]V, error)
	// Source, if set, is read rather than the system asked.
	Source Source[V]
	// Select tells which of the values that Source holds for the primary belong to the set. Default: all.
	Select func(V) bool
	// Key returns the key of a value that Source holds. Default: what it tells them apart by. With State, what is remembered tells the key.
	Key func(V) string
	// Create, Update, Remove and Matches are called for one value each.
	Create  func(ctx context.Context, c *framework.Context[P], desired V, as Creation) (V, error)
	Update  func(ctx context.Context, c *framework.Context[P], actual, desired V) (V, error)
	Remove  func(ctx context.Context, c *framework.Context[P], actual V) error
	Matches func(actual, desired V) bool

	// State remembers the ids of the values, for systems that choose these themselves.
	State State[P]
	// ID and ByID are for one value.
	ID   func(V) string
	ByID func(ctx context.Context, c *framework.Context[P], id string) (V, bool, error)
	// Find asks the system for all that was created with a [Creation.Tag], by [Creation.Key].
	Find func(ctx context.Context, c *framework.Context[P], tag string) (map[string]V, error)
	// Unknown is what becomes of a creation of which nobody can tell whether it has happened. Default: [Stall]. The others go on.
	Unknown UnknownFate
	// Tag returns what values are found by that were created for a primary. Default: derived from its UID and Name.
	Tag func(primary P) string

	// Ready is the ready postcondition, asked about all values that should exist and do. Default: ready.
	Ready func(values map[string]V) workflow.Verdict
	// ActivationCondition, ReconcilePrecondition and DeletePostcondition are those of the node, DeleteInactive too: see [workflow.Node].
	ActivationCondition   workflow.Condition[*framework.Context[P]]
	ReconcilePrecondition workflow.Condition[*framework.Context[P]]
	DeletePostcondition   workflow.Condition[*framework.Context[P]]
	DeleteInactive        bool

	once sync.Once // guards making made and bad, which are not changed any more then
	made *set[P, V]
	bad  error
}

// Describe makes Values a [framework.Dependent]. An error names all fields that are wrong.
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

// Reconcile brings the set about, and returns what exists of it then: with an error, too, as some may have succeeded.
func (b *Values[P, V]) Reconcile(ctx context.Context, c *framework.Context[P]) (map[string]V, error) {
	s, err := b.set()
	if err != nil {
		return nil, err
	}
	return s.reconcile(ctx, c)
}

// Delete removes all values, and what remembers them once they are gone.
func (b *Values[P, V]) Delete(ctx context.Context, c *framework.Context[P]) error {
	s, err := b.set()
	if err != nil {
		return err
	}
	return s.delete(ctx, c)
}

// Get returns the values as this run has left them, or, before that, as they are observed. The map is the caller's.
func (b *Values[P, V]) Get(ctx context.Context, c *framework.Context[P]) (map[string]V, error) {
	s, err := b.set()
	if err != nil {
		return nil, err
	}
	return s.get(ctx, c)
}

// Sources are for [framework.ControllerOptions] where there is no workflow.
func (b *Values[P, V]) Sources() []eventsource.Source { return sourcesOf(b.Source) }

// Secondaries are for [framework.ControllerOptions] where there is no workflow: what State reads.
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
	return s, s.complete(remembering[P, V]{
		state: b.State, id: b.ID, byID: b.ByID, find: b.Find, unknown: b.Unknown,
	}, b.DeleteInactive)
}
