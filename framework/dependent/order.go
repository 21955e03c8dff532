package dependent

import (
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/evenkeel/evenkeel/framework"
)

// A Desired that reads another node may see an old state of it, or nothing, unless it depends on
// that node. No declaration says what a function reads. So this is detected when it reads, and
// reported once.

// order is the position of a node in a workflow.
type order[P framework.Object] struct {
	place    atomic.Pointer[place] // nil outside of a workflow
	reported sync.Map              // names of nodes that read this one out of order
}

// place is what an order knows of its workflow.
type place struct {
	node   string
	before map[string]bool // all nodes before it
}

// set records which nodes come before a node.
func (o *order[P]) set(node string, nodes []framework.Node[P]) {
	o.place.Store(&place{node, framework.NodesBefore(nodes, node)})
}

// enterDesired records that Desired is called, until done is called. In a workflow, other nodes can
// see that.
func (o *order[P]) enterDesired(c *framework.Context[P]) (done func()) {
	at := o.place.Load()
	if at == nil {
		return func() {}
	}
	in := computingIn(c)
	in.enter(at)
	return func() { in.leave(at.node) }
}

// computing holds the nodes whose Desired is being called in a run.
type computing struct {
	mu    sync.Mutex // guards nodes; a leaf
	nodes map[string]entered
}

type entered struct {
	place *place
	times int
}

// computingKey is the key of a run's computing.
type computingKey struct{}

func computingIn[P framework.Object](c *framework.Context[P]) *computing {
	return c.RunValue(computingKey{}, func() any { return &computing{nodes: map[string]entered{}} }).(*computing)
}

// enter records that the Desired of a node is called, until leave.
func (in *computing) enter(at *place) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.nodes[at.node] = entered{at, in.nodes[at.node].times + 1}
}

func (in *computing) leave(name string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if e := in.nodes[name]; e.times > 1 {
		in.nodes[name] = entered{e.place, e.times - 1}
	} else {
		delete(in.nodes, name)
	}
}

// outOfOrder returns the name of a node whose Desired may be reading another one now without
// depending on it. It returns "" if there is none or it is known already. If several nodes may be
// reading, none of them depends on it.
func (in *computing) outOfOrder(read string, known *sync.Map) (reader string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for name, e := range in.nodes {
		if name == read {
			continue
		}
		if e.place.before[read] {
			return ""
		}
		if _, reported := known.Load(name); reported {
			return ""
		}
		reader = name
	}
	return reader
}

// inDesired reports whether the caller is called, at any depth, by a Desired. Other nodes of the
// run may be in theirs at the same time.
func inDesired() bool {
	var places [64]uintptr
	frames := runtime.CallersFrames(places[:runtime.Callers(2, places[:])])
	for {
		frame, more := frames.Next()
		if strings.HasSuffix(frame.Function, ".desired") && strings.Contains(frame.Function, "framework/dependent.") {
			return true
		}
		if !more {
			return false
		}
	}
}

// reportRead reports, once, that the node is read in the Desired of one that does not depend on it.
func (o *order[P]) reportRead(c *framework.Context[P]) {
	at := o.place.Load()
	if at == nil {
		return
	}
	reader := computingIn(c).outOfOrder(at.node, &o.reported)
	if reader == "" || !inDesired() {
		return
	}
	if _, reported := o.reported.LoadOrStore(reader, true); reported {
		return
	}
	c.Logger().Info("a dependent reads another that it does not depend on, so it may see an old state: add it to DependsOn",
		"node", reader, "reads", at.node)
	c.Event(framework.Warning, "Reconcile", "MissingDependsOn",
		"dependent %q reads %q and does not depend on it, so it may see an old state: add %q to its DependsOn", reader, at.node, at.node)
}
