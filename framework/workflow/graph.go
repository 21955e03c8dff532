package workflow

import (
	"context"
	"errors"
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

type shape struct{}

// New returns the graph of the nodes, or an error that names everything that is wrong with them: names that are
// empty, used twice or unknown, cycles with their path, functions that are missing. It keeps copies. A graph without
// nodes is always ready.
func New[C any](nodes []Node[C], options Options) (*Graph[C], error) {
	return nil, errors.ErrUnsupported
}

// Reconcile goes through the graph once, from what is depended on to what depends on it. It returns when nothing
// more can be done, or, when ctx ends, as soon as the functions that were called have returned.
func (g *Graph[C]) Reconcile(ctx context.Context, c C) *Result { return nil }

// Cleanup deletes everything, in reverse order. A primary is free to go once [Result.Gone] is true.
func (g *Graph[C]) Cleanup(ctx context.Context, c C) *Result { return nil }

// Cleans reports whether a cleanup has anything to do: whether a node has to be deleted that no garbage collection
// deletes. A primary without such nodes needs no finalizer for them.
func (g *Graph[C]) Cleans() bool { return false }

// Plan returns the names in waves: what a wave depends on is in earlier ones, and it is as early as can be. A pass keeps
// to the order and not to the waves: a node does not wait for others of the wave before that it does not depend on.
// Cleanup goes through them from the last to the first.
func (g *Graph[C]) Plan() [][]string { return nil }

// Mermaid draws the graph as a Mermaid flowchart, with arrows from what is depended on to what depends on it. Equal
// graphs have equal drawings.
func (g *Graph[C]) Mermaid() string { return "" }

// DOT draws the graph in Graphviz's language, alike.
func (g *Graph[C]) DOT() string { return "" }
