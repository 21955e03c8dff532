package workflow

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// DefaultConcurrency is how many nodes of a pass are worked on at a time.
const DefaultConcurrency = 8

// Options configure a [Graph]; the zero value is the documented default.
type Options struct {
	// Concurrency bounds the nodes of one pass that are worked on at a time, and so its goroutines, the caller's
	// included. Default [DefaultConcurrency]. Too low makes nodes wait for each other that need not; too high presses on
	// the API server.
	Concurrency int
}

// Graph is nodes in their order. Create it with [New]. It is immutable and may be used by many goroutines at once.
type Graph[C any] struct {
	shape *shape
	nodes []Node[C]
}

// New returns the graph of the nodes, or an error that names everything that is wrong with them: names that are
// empty, used twice or unknown, cycles with their path, functions that are missing. It keeps copies. A graph without
// nodes is always ready.
func New[C any](nodes []Node[C], options Options) (*Graph[C], error) {
	var faults []error
	g := &Graph[C]{nodes: slices.Clone(nodes), shape: &shape{limit: options.Concurrency}}
	switch {
	case options.Concurrency < 0:
		faults = append(faults, fmt.Errorf("workflow: Concurrency %d: must not be negative", options.Concurrency))
	case options.Concurrency == 0:
		g.shape.limit = DefaultConcurrency
	}
	dependsOn := make([][]string, len(nodes))
	for i := range g.nodes {
		n := &g.nodes[i]
		n.DependsOn = slices.Clone(n.DependsOn)
		faults = append(faults, n.faults()...)
		g.shape.names, dependsOn[i] = append(g.shape.names, n.Name), n.DependsOn
	}
	faults = append(faults, g.shape.edges(dependsOn)...)
	faults = append(faults, g.shape.sort()...)
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	g.shape.leave(
		func(i int) bool { return g.nodes[i].GarbageCollected && !g.nodes[i].cleaned() },
		func(i int) bool { return g.nodes[i].cleaned() })
	return g, nil
}

// faults is what is wrong with a node by itself.
func (n *Node[C]) faults() (faults []error) {
	if n.Reconcile == nil {
		faults = append(faults, fmt.Errorf("workflow: node %q: Reconcile is nil", n.Name))
	}
	if n.GarbageCollected && n.Delete == nil {
		faults = append(faults, fmt.Errorf("workflow: node %q: GarbageCollected without Delete", n.Name))
	}
	if n.Gone != nil && (!n.GarbageCollected || n.DeletePostcondition != nil) {
		faults = append(faults, fmt.Errorf("workflow: node %q: Gone requires GarbageCollected, and no DeletePostcondition", n.Name))
	}
	if n.DeleteInactive && (n.ActivationCondition == nil || n.Delete == nil) {
		faults = append(faults, fmt.Errorf("workflow: node %q: DeleteInactive requires ActivationCondition and Delete", n.Name))
	}
	return faults
}

// cleaned says whether a cleanup has to remove the node by itself.
func (n *Node[C]) cleaned() bool {
	return n.DeletePostcondition != nil || (n.Delete != nil && !n.GarbageCollected)
}

// Reconcile goes through the graph once, from what is depended on to what depends on it. It returns when nothing
// more can be done, or, when ctx ends, as soon as the functions that were called have returned.
func (g *Graph[C]) Reconcile(ctx context.Context, c C) *Result { return g.pass(ctx, c, Reconciling) }

// Cleanup deletes everything, in reverse order. A primary is free to go once [Result.Gone] is true.
func (g *Graph[C]) Cleanup(ctx context.Context, c C) *Result { return g.pass(ctx, c, CleaningUp) }

// Cleans reports whether a cleanup has anything to do: whether a node has to be deleted that no garbage collection
// deletes, or be waited for. A primary without such nodes needs no finalizer for them.
func (g *Graph[C]) Cleans() bool {
	return slices.ContainsFunc(g.nodes, func(n Node[C]) bool { return n.cleaned() })
}

// Plan returns the names in waves: what a wave depends on is in earlier ones, and it is as early as can be. A pass keeps
// to the order and not to the waves: a node does not wait for others of the wave before that it does not depend on.
// Cleanup goes through them from the last to the first.
func (g *Graph[C]) Plan() [][]string { return g.shape.waves() }

// Mermaid draws the graph as a Mermaid flowchart, with arrows from what is depended on to what depends on it. Equal
// graphs have equal drawings.
func (g *Graph[C]) Mermaid() string { return g.shape.mermaid(nil) }

// DOT draws the graph in Graphviz's language, alike.
func (g *Graph[C]) DOT() string { return g.shape.dot(nil) }
