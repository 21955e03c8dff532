package dependent

import (
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/evenkeel/evenkeel/framework"
)

// A Desired that reads another node sees it as it was before, or not at all, unless it depends on that node. What a function
// reads, no declaration tells: so it is noticed when it reads, and said once.

// order is the place of a node in a workflow.
type order struct {
	before atomic.Pointer[map[string]bool] // all nodes that come before; nil outside of a workflow
	told   sync.Map                        // names of nodes that are known to read this one out of order
}

// learn notes which nodes come before the objects' own, for [framework.Node.Check].
func (o *objects[P, S]) learn(nodes []framework.Node[P]) error {
	before := framework.NodesBefore(nodes, o.node)
	o.order.before.Store(&before)
	return nil
}

// asks notes that Desired is called, until done is: in a workflow, others can see that it is.
func (o *objects[P, S]) asks(c *framework.Context[P]) (done func()) {
	if o.order.before.Load() == nil {
		return func() {}
	}
	in := computingIn(c)
	in.enter(o.node, &o.order)
	return func() { in.leave(o.node) }
}

// computing are the nodes whose Desired a run is in.
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
	return c.PerRun(computingKey{}, func() any { return &computing{nodes: map[string]entered{}} }).(*computing)
}

// enter notes that the Desired of a node is called, until leave.
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

// outOfOrder returns a node in whose Desired another one may be read now, and that does not depend on it; empty if none
// does, or if that is known already. If there are several, none of them depends on it.
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
		if _, told := known.Load(name); told {
			return ""
		}
		reader = name
	}
	return reader
}

// inDesired reports whether the caller is, however deep, within a Desired. Others of the run may compute theirs meanwhile.
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

// noteRead says, once, that the node is read in the Desired of one that does not depend on it.
func (o *objects[P, S]) noteRead(c *framework.Context[P]) {
	if o.access == ReadOnly || o.order.before.Load() == nil {
		return // what no node writes has no turn
	}
	reader := computingIn(c).outOfOrder(o.node, &o.order.told)
	if reader == "" || !inDesired() {
		return
	}
	if _, told := o.order.told.LoadOrStore(reader, true); told {
		return
	}
	c.Logger().Info("a dependent reads another that it does not depend on: it may see it as it was before; add it to DependsOn",
		"node", reader, "reads", o.node)
	c.Event(framework.Warning, "Reconcile", "MissingDependsOn",
		"dependent %q reads %q and does not depend on it: it may see it as it was before; add %q to its DependsOn", reader, o.node, o.node)
}
