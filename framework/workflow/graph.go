package workflow

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// DefaultConcurrency is the default of [Options].Concurrency.
const DefaultConcurrency = 8

// Options configures a [Graph]. The zero value is the documented default.
type Options struct {
	// Concurrency is the number of nodes that a pass processes at a time, and so of its goroutines,
	// including the caller's. Default: [DefaultConcurrency]. If it is too low, independent nodes wait
	// for each other. If it is too high, it loads the API server.
	Concurrency int
}

// Graph is an ordered set of nodes. Create it with [New]. It is immutable and may be used by many
// goroutines at once.
type Graph[C any] struct {
	shape *shape
	nodes []Node[C]
}

// New returns the graph of the nodes. It returns an error that names every fault: names that are
// empty, used twice or unknown, cycles with their path, missing functions. It keeps copies of the
// nodes. A graph without nodes is always ready.
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
	g.shape.markLeft(
		func(i int) bool { return g.nodes[i].GarbageCollected && !g.nodes[i].cleaned() },
		func(i int) bool { return g.nodes[i].cleaned() })
	return g, nil
}

// faults returns the faults of a node by itself.
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

// cleaned reports whether a cleanup must remove the node itself.
func (n *Node[C]) cleaned() bool {
	return n.DeletePostcondition != nil || (n.Delete != nil && !n.GarbageCollected)
}

// Reconcile runs one pass in order of dependency. It returns when nothing more can be done. If ctx
// ends, it returns as soon as the functions that were called have returned.
func (g *Graph[C]) Reconcile(ctx context.Context, c C) *Result { return g.pass(ctx, c, Reconciling) }

// Cleanup deletes all nodes, in reverse order. The primary's finalizer may be removed once
// [Result.Gone] is true.
func (g *Graph[C]) Cleanup(ctx context.Context, c C) *Result { return g.pass(ctx, c, CleaningUp) }

// Cleans reports whether a cleanup has anything to do: whether there is a node that it must delete
// or wait for, because garbage collection does not. A primary without such nodes needs no finalizer
// for them.
func (g *Graph[C]) Cleans() bool {
	return slices.ContainsFunc(g.nodes, func(n Node[C]) bool { return n.cleaned() })
}

// Plan returns the names of the nodes in waves. Each node is in the earliest wave that comes after
// all its dependencies. A pass follows the order but not the waves: a node does not wait for nodes
// that it does not depend on. Cleanup goes from the last wave to the first.
func (g *Graph[C]) Plan() [][]string { return g.shape.waves() }

// Mermaid returns the graph as a Mermaid flowchart, with arrows from a node to the nodes that
// depend on it. Equal graphs have equal drawings.
func (g *Graph[C]) Mermaid() string { return g.shape.mermaid(nil) }

// DOT returns the same drawing in Graphviz's language.
func (g *Graph[C]) DOT() string { return g.shape.dot(nil) }
