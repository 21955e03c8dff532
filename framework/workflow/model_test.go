package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/framework/workflow"
)

// tick is the step of the clock. Functions take an even number of them, and cancellations come at
// odd ones.
const tick = time.Millisecond

// world is the state that the functions of a graph change, and records their calls.
type world struct {
	nodes []*sketch
	limit int

	mu     sync.Mutex // guards what follows
	calls  map[int][]string
	began  map[string]int // call to its place in the order of all begins and ends
	ended  map[int]int    // the last end of a node
	clock  int
	busy   map[int]bool
	exists map[int]bool
	faults []string
}

func (w *world) fault(format string, arguments ...any) {
	w.faults = append(w.faults, fmt.Sprintf(format, arguments...))
}

// enter records that a function of a node begins.
func (w *world) enter(ctx context.Context, i int, what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clock++
	if w.busy[i] {
		w.fault("node %d is touched twice at the same time, by %s", i, what)
	}
	if slices.Contains(w.calls[i], what) {
		w.fault("%s of node %d is called twice", what, i)
	}
	if ctx.Err() != nil {
		w.fault("%s of node %d is called after the cancellation", what, i)
	}
	w.busy[i] = true
	if len(w.busy) > w.limit {
		w.fault("%d nodes are touched at a time, the limit is %d", len(w.busy), w.limit)
	}
	w.calls[i] = append(w.calls[i], what)
	w.began[fmt.Sprint(i, what)] = w.clock
}

func (w *world) leave(i int, what, how string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clock++
	delete(w.busy, i)
	w.ended[i] = w.clock
	if how == "yes" && what == "reconcile" {
		w.exists[i] = true
	}
	if n := w.nodes[i]; how == "yes" && (what == "gone" || what == "delete" && !n.has["gone"]) {
		delete(w.exists, i)
	}
}

// do implements every function of a node; how is its result.
func (w *world) do(ctx context.Context, i int, what string) (how string, err error) {
	n := w.nodes[i]
	w.enter(ctx, i, what)
	if how = n.does[what]; n.lag[what] > 0 {
		n.lag[what]--
		how = "no"
	}
	defer func() { w.leave(i, what, how) }()
	select {
	case <-time.After(time.Duration(2*n.takes[what]) * tick):
	case <-ctx.Done():
		how = "cancelled"
		return how, ctx.Err()
	}
	switch how {
	case "error":
		return how, errBroken
	case "panic":
		panic(errBroken)
	}
	return how, nil
}

func (w *world) act(i int, what string) func(context.Context, *world) error {
	return func(ctx context.Context, _ *world) error {
		_, err := w.do(ctx, i, what)
		return err
	}
}

func (w *world) condition(i int, what string) workflow.Condition[*world] {
	if !w.nodes[i].has[what] {
		return nil
	}
	return func(ctx context.Context, _ *world) (workflow.Verdict, error) {
		how, err := w.do(ctx, i, what)
		return workflow.Verdict{Met: how == "yes", Reason: what}, err
	}
}

// graph is the nodes as the package takes them, in an order of their own.
func (w *world) graph() (*workflow.Graph[*world], error) {
	var nodes []workflow.Node[*world]
	for i, n := range w.nodes {
		node := workflow.Node[*world]{
			Name: fmt.Sprint(i), Reconcile: w.act(i, "reconcile"), Delete: w.act(i, "delete"),
			GarbageCollected: n.collected, DeleteInactive: n.deleteInactive,
			ActivationCondition: w.condition(i, "active"), ReconcilePrecondition: w.condition(i, "wanted"),
			ReadyPostcondition: w.condition(i, "ready"), DeletePostcondition: w.condition(i, "gone"), Activate: w.condition(i, "activate"),
		}
		if n.afterwards {
			node.Gone, node.DeletePostcondition = node.DeletePostcondition, nil
		}
		if n.readonly {
			node.Delete = nil
		}
		if n.has["deactivate"] {
			node.Deactivate = w.act(i, "deactivate")
		}
		for _, needed := range n.needs {
			node.DependsOn = append(node.DependsOn, fmt.Sprint(needed))
		}
		nodes = append(nodes, node)
	}
	return workflow.New(nodes, workflow.Options{Concurrency: w.limit})
}

var hooks = []string{"active", "activate", "wanted", "ready", "gone", "deactivate"}

// drawWorld draws up to 12 nodes. Each may depend on others that come before it in a random order.
func drawWorld(t *rapid.T) *world {
	w := &world{limit: rapid.IntRange(1, 4).Draw(t, "limit"), exists: map[int]bool{}}
	size := rapid.IntRange(0, 12).Draw(t, "nodes")
	var places []int
	for i := range size {
		places = append(places, i)
	}
	places = rapid.Permutation(places).Draw(t, "order")
	w.nodes = make([]*sketch, size)
	for at, i := range places {
		n := &sketch{has: map[string]bool{}, readonly: rare(t, 6, "readonly")}
		for _, earlier := range places[:at] {
			if rare(t, 3, "edge") {
				n.needs = append(n.needs, earlier)
			}
		}
		for _, hook := range hooks {
			n.has[hook] = rapid.Bool().Draw(t, hook)
		}
		n.collected = !n.readonly && rare(t, 4, "collected")
		n.afterwards = n.collected && n.has["gone"] && rapid.Bool().Draw(t, "afterwards")
		n.deleteInactive = !n.readonly && n.has["active"] && rare(t, 2, "deleteInactive")
		w.nodes[i] = n
	}
	for i, n := range w.nodes { // in the order of the nodes that depend
		for _, needed := range n.needs {
			w.nodes[needed].neededBy = append(w.nodes[needed].neededBy, i)
		}
	}
	return w
}

// rare is true one time in n, and false where rapid simplifies.
func rare(t *rapid.T, n int, name string) bool {
	return rapid.IntRange(0, n-1).Draw(t, name) == n-1 && n > 1
}

// drawPass draws what the functions do in a pass, and how long they take.
func (w *world) drawPass(t *rapid.T) {
	verdict := rapid.SampledFrom([]string{"yes", "yes", "yes", "yes", "yes", "no", "no", "error", "panic"})
	success := rapid.SampledFrom([]string{"yes", "yes", "yes", "yes", "error", "panic"})
	for _, n := range w.nodes {
		n.does, n.takes = map[string]string{}, map[string]int{}
		for _, what := range []string{"active", "activate", "wanted", "ready", "gone"} {
			n.does[what] = verdict.Draw(t, what)
		}
		for _, what := range []string{"reconcile", "delete", "deactivate"} {
			n.does[what] = success.Draw(t, what)
		}
		for what := range n.does {
			n.takes[what] = 0
		}
		for _, what := range slices.Sorted(maps.Keys(n.takes)) {
			n.takes[what] = rapid.IntRange(0, 3).Draw(t, "takes")
		}
	}
}

// pass runs a pass, and checks what holds of each, cancelled or not.
func (w *world) pass(ctx context.Context, t *rapid.T, g *workflow.Graph[*world], cleanup bool) *workflow.Result {
	w.calls, w.began, w.ended, w.busy, w.clock = map[int][]string{}, map[string]int{}, map[int]int{}, map[int]bool{}, 0
	var result *workflow.Result
	if cleanup {
		result = g.Cleanup(ctx, w)
	} else {
		result = g.Reconcile(ctx, w)
	}
	for i, n := range w.nodes {
		for _, needed := range n.needs {
			if begin, called := w.began[fmt.Sprint(i, "reconcile")]; called && (begin < w.ended[needed] || result.Nodes[needed].State != workflow.Ready) {
				w.fault("node %d is reconciled before %d is ready", i, needed)
			}
			for _, what := range []string{"delete", "deactivate"} {
				s := result.Nodes[i].State
				absent := s == workflow.Deleted || s == workflow.Inactive || s == workflow.Left
				if begin, called := w.began[fmt.Sprint(needed, what)]; called && (begin < w.ended[i] || !absent) {
					w.fault("%s of node %d is called before %d is gone", what, needed, i)
				}
			}
		}
	}
	if len(w.faults) > 0 {
		t.Fatalf("%v\n%v", w.faults, result)
	}
	return result
}

// judge compares a pass with what the oracle says.
func (w *world) judge(t *rapid.T, result *workflow.Result, cleanup bool) {
	o := newOracle(w.nodes, cleanup)
	for i, want := range o.fates() {
		n := result.Nodes[i]
		because := ""
		if want.because != i {
			because = fmt.Sprint(want.because)
		}
		if n.State != want.state || n.Because != because || n.Removing != want.removing {
			t.Fatalf("node %d is %v because of %q, removing %v; want %+v\n%v", i, n.State, n.Because, n.Removing, want, result)
		}
		if failed := errors.Is(n.Err, errBroken); failed != (want.state == workflow.Failed) {
			t.Fatalf("node %d, %v, has the error %v", i, n.State, n.Err)
		}
	}
	for i := range w.nodes {
		got, want := slices.Sorted(slices.Values(w.calls[i])), slices.Sorted(slices.Values(o.calls[i]))
		if !slices.Equal(got, want) {
			t.Fatalf("of node %d %v are called, want %v\n%v", i, got, want, result)
		}
	}
}

// bubbled hides what rapid asks of a *testing.T and must not within a bubble: the deadline.
type bubbled struct{ rapid.TB }

// TestModel_C102 runs random graphs through random passes, and compares each with the oracle.
func TestModel_C102(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(bubbled{t}, func(t *rapid.T) {
			w := drawWorld(t)
			g, err := w.graph()
			if err != nil {
				t.Fatal(err)
			}
			for range rapid.IntRange(1, 4).Draw(t, "passes") {
				w.drawPass(t)
				cleanup := rare(t, 3, "cleanup")
				if !rare(t, 4, "cancelled") {
					w.judge(t, w.pass(context.Background(), t, g, cleanup), cleanup)
					continue
				}
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(2*rapid.IntRange(0, 20).Draw(t, "after")+1)*tick)
				w.judgeCancelled(ctx, t, w.pass(ctx, t, g, cleanup), cleanup)
				cancel()
			}
		})
	})
}

// judgeCancelled checks that a cancelled pass went as far as the other, or less far, and says so.
func (w *world) judgeCancelled(ctx context.Context, t *rapid.T, result *workflow.Result, cleanup bool) {
	cut := slices.ContainsFunc(result.Nodes, func(n workflow.NodeResult) bool { return n.State == workflow.Cancelled })
	if cut != (result.Cut != nil) || cut && !errors.Is(result.Err(), context.DeadlineExceeded) {
		t.Fatalf("cut is %v, by %v: %v", cut, result.Cut, result)
	}
	if cut && ctx.Err() == nil {
		t.Fatalf("cut, and the context has not ended: %v", result)
	}
	if !cut {
		return
	}
	o := newOracle(w.nodes, cleanup)
	for i, want := range o.fates() {
		if s := result.Nodes[i].State; (s.Settled() || s == workflow.Failed) && s != want.state {
			t.Fatalf("node %d is %v, uncancelled it would be %v\n%v", i, s, want.state, result)
		}
		for _, what := range w.calls[i] {
			if !slices.Contains(o.calls[i], what) {
				t.Fatalf("%s of node %d is called, which an uncancelled pass does not\n%v", what, i, result)
			}
		}
	}
}
