package workflow_test

import (
	"slices"

	"github.com/evenkeel/evenkeel/framework/workflow"
)

// sketch is the oracle's description of a node: its place, its functions, and what they do in this
// pass.
type sketch struct {
	needs, neededBy []int
	readonly        bool
	collected       bool
	afterwards      bool // collected, and what says that it is gone is no reason to delete it
	deleteInactive  bool
	has             map[string]bool   // the conditions and hooks
	does            map[string]string // yes, no, error or panic; for functions yes is success
	lag             map[string]int    // how often a condition still says no before that
	takes           map[string]int    // how long, in steps of the clock
}

// fate is what the oracle expects of a node.
type fate struct {
	state    workflow.State
	removing bool
	because  int // the node itself if there is no other
}

// oracle computes the result of a pass recursively, from the results of the nodes that a node waits
// for. It has no queues or counters.
type oracle struct {
	nodes   []*sketch
	cleanup bool
	calls   map[int][]string // what has to be called, by node
	known   map[int]fate     // results so far, because there are many paths through a graph
	roots   map[int]int
}

func newOracle(nodes []*sketch, cleanup bool) *oracle {
	return &oracle{nodes: nodes, cleanup: cleanup, calls: map[int][]string{}, known: map[int]fate{}, roots: map[int]int{}}
}

func (o *oracle) call(i int, what string) string {
	if !slices.Contains(o.calls[i], what) { // everything is called once, however often the oracle asks
		o.calls[i] = append(o.calls[i], what)
	}
	if how := o.nodes[i].does[what]; how != "panic" {
		return how
	}
	return "error"
}

func (o *oracle) ask(i int, what string) string {
	if what != "reconcile" && what != "delete" && !o.nodes[i].has[what] {
		return "yes"
	}
	return o.call(i, what)
}

func (o *oracle) fates() []fate {
	all := make([]fate, len(o.nodes))
	for i := range o.nodes {
		all[i] = o.fate(i)
	}
	return all
}

func (o *oracle) fate(i int) fate {
	f, known := o.known[i]
	switch {
	case known:
		return f
	case o.cleanup && o.left(i):
		f = fate{workflow.Left, true, i}
	case o.cleanup || o.root(i) >= 0:
		f = o.removed(i)
	default:
		f = o.present(i)
	}
	o.known[i] = f
	return f
}

// root returns the node because of which a reconcile pass removes one, or a negative number.
func (o *oracle) root(i int) int {
	if _, known := o.roots[i]; !known {
		o.roots[i] = o.findRoot(i)
	}
	return o.roots[i]
}

func (o *oracle) findRoot(i int) int {
	for _, needed := range o.nodes[i].needs {
		if r := o.root(needed); r >= 0 {
			return r
		}
	}
	if !o.ready(o.nodes[i].needs) {
		return -1
	}
	if active := o.ask(i, "active"); active != "yes" {
		return map[string]int{"no": i, "error": -1}[active]
	}
	if o.ask(i, "activate") == "yes" && o.ask(i, "wanted") == "no" {
		return i
	}
	return -1
}

func (o *oracle) ready(of []int) bool {
	return !slices.ContainsFunc(of, func(i int) bool { return o.fate(i).state != workflow.Ready })
}

func (o *oracle) present(i int) fate {
	if needs := o.nodes[i].needs; !o.ready(needs) {
		return o.blocked(i, needs, false)
	}
	for _, step := range []struct {
		what    string
		refused workflow.State
	}{{"active", workflow.Inactive}, {"activate", workflow.Waiting}, {"wanted", workflow.Deleted}, {"reconcile", workflow.Failed}, {"ready", workflow.NotReady}} {
		answer := "yes"
		if answer = o.ask(i, step.what); answer == "no" {
			return fate{step.refused, false, i}
		}
		if answer == "error" {
			return fate{workflow.Failed, false, i}
		}
	}
	return fate{workflow.Ready, false, i}
}

func (o *oracle) removed(i int) fate {
	n := o.nodes[i]
	for _, d := range n.neededBy {
		if s := o.fate(d).state; s != workflow.Deleted && s != workflow.Inactive && s != workflow.Left {
			return o.blocked(i, n.neededBy, true)
		}
	}
	active := o.ask(i, "active")
	if active == "error" {
		return fate{workflow.Failed, true, i}
	}
	if (active == "yes" || n.deleteInactive) && (!n.readonly || n.has["gone"]) {
		steps := []string{"activate", "delete", "gone"}
		if active == "no" {
			steps = steps[1:]
		}
		if n.readonly {
			steps = slices.DeleteFunc(steps, func(s string) bool { return s == "delete" })
		}
		for _, what := range steps {
			switch answer := o.ask(i, what); {
			case answer == "error":
				return fate{workflow.Failed, true, i}
			case answer == "no" && what == "activate":
				return fate{workflow.Waiting, true, i}
			case answer == "no":
				return fate{workflow.Deleting, true, i}
			}
		}
	}
	if active == "no" {
		if o.ask(i, "deactivate") == "error" {
			return fate{workflow.Failed, true, i}
		}
		return fate{workflow.Inactive, true, i}
	}
	if o.cleanup {
		return fate{workflow.Deleted, true, i}
	}
	return fate{workflow.Deleted, true, o.root(i)}
}

// blocked is what becomes of a node that others hold back.
func (o *oracle) blocked(i int, by []int, removing bool) fate {
	for _, other := range by {
		if f := o.fate(other); f.state == workflow.Failed || f.state == workflow.Skipped {
			return fate{workflow.Skipped, removing, f.because}
		}
	}
	for _, other := range by {
		if f := o.fate(other); f.state == workflow.NotReady || f.state == workflow.Deleting || f.state == workflow.Waiting {
			return fate{workflow.Waiting, removing, f.because}
		}
	}
	return fate{workflow.Cancelled, removing, i}
}

// left says that the platform collects the node, and that nothing has to wait for that.
func (o *oracle) left(i int) bool {
	return o.nodes[i].collected && !o.waitedFor(i)
}

// waitedFor says that a cleanup removes the node or something below it.
func (o *oracle) waitedFor(i int) bool {
	n := o.nodes[i]
	return n.has["gone"] && !n.afterwards || (!n.readonly && !n.collected) || slices.ContainsFunc(n.needs, o.waitedFor)
}
