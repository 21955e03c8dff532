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
type order struct {
	before   atomic.Pointer[map[string]bool] // all nodes before it; nil outside of a workflow
	reported sync.Map                        // names of nodes that read this one out of order
}

// setOrder records which nodes come before the objects' own. It is for [framework.Node].Check.
func (o *objects[P, S]) setOrder(nodes []framework.Node[P]) error {
	before := framework.NodesBefore(nodes, o.node)
	o.order.before.Store(&before)
	return nil
}

// enterDesired records that Desired is called, until done is called. In a workflow, other nodes can
// see that.
func (o *objects[P, S]) enterDesired(c *framework.Context[P]) (done func()) {
	if o.order.before.Load() == nil {
		return func() {}
	}
	in := computingIn(c)
	in.enter(o.node, &o.order)
	return func() { in.leave(o.node) }
}

// computing holds the nodes whose Desired is being called in a run.
type computing struct {
	mu    sync.Mutex // guards nodes; a leaf
	nodes map[string]entered
}

type entered struct {
	order *order
	times int
}

// computingKey is the key of a run's computing.
type computingKey struct{}

func computingIn[P framework.Object](c *framework.Context[P]) *computing {
	return c.RunValue(computingKey{}, func() any { return &computing{nodes: map[string]entered{}} }).(*computing)
}

// enter records that the Desired of a node is called, until leave.
func (in *computing) enter(name string, o *order) {
	in.mu.Lock()
	defer in.mu.Unlock()
	e := in.nodes[name]
	in.nodes[name] = entered{o, e.times + 1}
}

func (in *computing) leave(name string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if e := in.nodes[name]; e.times > 1 {
		in.nodes[name] = entered{e.order, e.times - 1}
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
		if before := e.order.before.Load(); before == nil || (*before)[read] {
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
func (o *objects[P, S]) reportRead(c *framework.Context[P]) {
	if o.access == ReadOnly || o.order.before.Load() == nil {
		return // no node writes it, so there is no order
	}
	reader := computingIn(c).outOfOrder(o.node, &o.order.reported)
	if reader == "" || !inDesired() {
		return
	}
	if _, reported := o.order.reported.LoadOrStore(reader, true); reported {
		return
	}
	c.Logger().Info("a dependent reads another that it does not depend on, so it may see an old state: add it to DependsOn",
		"node", reader, "reads", o.node)
	c.Event(framework.Warning, "Reconcile", "MissingDependsOn",
		"dependent %q reads %q and does not depend on it, so it may see an old state: add %q to its DependsOn", reader, o.node, o.node)
}
