package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evenkeel/evenkeel/framework/workflow"
)

// node is one that does what a function says.
func node(name string, do func(context.Context) error, dependsOn ...string) workflow.Node[int] {
	act := func(ctx context.Context, _ int) error { return do(ctx) }
	return workflow.Node[int]{Name: name, DependsOn: dependsOn, Reconcile: act, Delete: act}
}

func nothing(context.Context) error { return nil }

// untilCancelled returns when the context has ended, and no earlier.
func untilCancelled(ctx context.Context) error {
	<-ctx.Done()
	return fmt.Errorf("gave up: %w", ctx.Err())
}

// passes are both, for what holds in each.
var passes = map[string]func(*workflow.Graph[int], context.Context, int) *workflow.Result{
	"reconcile": (*workflow.Graph[int]).Reconcile, "cleanup": (*workflow.Graph[int]).Cleanup,
}

func state(t *testing.T, r *workflow.Result, name string) workflow.State {
	t.Helper()
	n, ok := r.Node(name)
	if !ok {
		t.Fatalf("no node %s", name)
	}
	return n.State
}

func TestAPassThatIsCancelledStartsNothingMoreAndReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cause := errors.New("the lease is lost")
		for _, concurrency := range []int{1, 8} {
			ctx, cancel := context.WithCancelCause(t.Context())
			started := 0
			count := func(context.Context) error { started++; return nil }
			g := graph(t, []workflow.Node[int]{node("a", nothing), node("b", untilCancelled, "a"), node("c", count, "b"), node("d", count, "c")}, concurrency)
			time.AfterFunc(time.Minute, func() { cancel(cause) })
			began := time.Now()
			result := g.Reconcile(ctx, 0)
			if took := time.Since(began); took != time.Minute || started != 0 {
				t.Errorf("took %v, and started %d", took, started)
			}
			if state(t, result, "a") != workflow.Ready || state(t, result, "b") != workflow.Cancelled || state(t, result, "c") != workflow.Cancelled {
				t.Error(result)
			}
			if err := result.Err(); !errors.Is(err, cause) || !errors.Is(err, context.Canceled) || result.Cut != cause {
				t.Errorf("the error is %v", err)
			}
			if result.Ready() {
				t.Error("is ready")
			}
		}
	})
}

func TestAPassOfAContextThatHasEndedCallsNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, pass := range passes {
		called := false
		g := graph(t, []workflow.Node[int]{node("a", func(context.Context) error { called = true; return nil }), node("b", nothing, "a")}, 0)
		result := pass(g, ctx, 0)
		if called || state(t, result, "a") != workflow.Cancelled || state(t, result, "b") != workflow.Cancelled || !errors.Is(result.Err(), context.Canceled) {
			t.Errorf("%s: called %v, %v: %v", name, called, result, result.Err())
		}
		if summary := result.Summary(nil); summary.Stage != workflow.StageReconciling || summary.Reason != "ACancelled" {
			t.Errorf("%s: the summary is %+v", name, summary)
		}
	}
}

func TestBetweenTheFunctionsOfANodeACancelledPassEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	asked := false
	n := node("a", func(context.Context) error { cancel(); return nil })
	n.ReadyPostcondition = func(context.Context, int) (workflow.Verdict, error) { asked = true; return workflow.Met(), nil }
	result := graph(t, []workflow.Node[int]{n}, 0).Reconcile(ctx, 0)
	if asked || state(t, result, "a") != workflow.Cancelled || result.Ready() {
		t.Errorf("asked %v: %v", asked, result)
	}
}

// TestACancelledPassGivesNoTurn, not even to a node that has nothing to call: that it is gone would
// be news of after the end.
func TestACancelledPassGivesNoTurn(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	last := node("b", nothing, "a")
	last.Delete = func(context.Context, int) error { cancel(); return nil }
	result := graph(t, []workflow.Node[int]{{Name: "a", Reconcile: last.Reconcile}, last}, 0).Cleanup(ctx, 0)
	if a, b := state(t, result, "a"), state(t, result, "b"); a != workflow.Cancelled || b != workflow.Deleted {
		t.Errorf("a is %v, b is %v", a, b)
	}
	if result.Cut == nil {
		t.Error("the pass was not cut short")
	}
}

func TestAPassThatEndedBeforeItsContextIsNotCut(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	result := graph(t, []workflow.Node[int]{node("a", nothing), node("b", func(context.Context) error { cancel(); return nil }, "a")}, 0).Reconcile(ctx, 0)
	if result.Err() != nil || !result.Ready() {
		t.Errorf("%v: %v", result, result.Err())
	}
}

func TestAFailureDuringACancellationIsAFailure(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	result := graph(t, []workflow.Node[int]{node("a", func(context.Context) error { cancel(); return errBroken })}, 0).Reconcile(ctx, 0)
	if state(t, result, "a") != workflow.Failed || !errors.Is(result.Err(), errBroken) {
		t.Errorf("%v: %v", result, result.Err())
	}
}

func TestATimeoutOfANodesOwnIsAFailure(t *testing.T) {
	result := graph(t, []workflow.Node[int]{node("a", func(context.Context) error { return context.DeadlineExceeded })}, 0).Reconcile(t.Context(), 0)
	if state(t, result, "a") != workflow.Failed || result.Cut != nil {
		t.Errorf("%v: %v", result, result.Err())
	}
}

func TestAPassReturnsWhenWhatIgnoresItsContextHasReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var running atomic.Int32
		stubborn := func(context.Context) error {
			running.Add(1)
			defer running.Add(-1)
			<-time.After(time.Hour)
			return nil
		}
		g := graph(t, []workflow.Node[int]{node("a", stubborn), node("b", stubborn), node("c", nothing, "a", "b")}, 0)
		result := g.Reconcile(ctx, 0)
		if n := running.Load(); n != 0 {
			t.Errorf("%d functions run on", n)
		}
		if state(t, result, "a") != workflow.Ready || state(t, result, "c") != workflow.Cancelled || !errors.Is(result.Err(), context.DeadlineExceeded) {
			t.Errorf("%v: %v", result, result.Err())
		}
	})
}

// crowd counts how many are in it, and the most that ever were.
type crowd struct {
	mu        sync.Mutex
	now, most int
}

func (c *crowd) do(context.Context) error {
	c.move(1)
	<-time.After(time.Second)
	c.move(-1)
	return nil
}

func (c *crowd) move(by int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += by
	c.most = max(c.most, c.now)
}

func TestIndependentNodesRunTogetherUpToTheLimit(t *testing.T) {
	for _, concurrency := range []int{0, 1, 2, 3, 7, 100} {
		for name, pass := range passes {
			t.Run(fmt.Sprintf("%s with %d", name, concurrency), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var c crowd
					var nodes []workflow.Node[int]
					for i := range 40 {
						nodes = append(nodes, node(fmt.Sprint("n", i), c.do))
					}
					began := time.Now()
					pass(graph(t, nodes, concurrency), t.Context(), 0)
					limit := concurrency
					if limit == 0 {
						limit = workflow.DefaultConcurrency
					}
					limit = min(limit, 40)
					took, want := time.Since(began), time.Duration((40+limit-1)/limit)*time.Second
					if c.most != limit || took != want {
						t.Errorf("%d ran together, want %d; took %v, want %v", c.most, limit, took, want)
					}
				})
			})
		}
	}
}

// TestNoPlaceIsLeftEmpty has a pass that widens from one node to many, and again: as many as may
// run do.
func TestNoPlaceIsLeftEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c crowd
		var nodes []workflow.Node[int]
		for layer := range 5 {
			gate := fmt.Sprint("gate", layer)
			var before []string
			if layer > 0 {
				for i := range 12 {
					before = append(before, fmt.Sprint(layer-1, "-", i))
				}
			}
			nodes = append(nodes, node(gate, c.do, before...))
			for i := range 12 {
				nodes = append(nodes, node(fmt.Sprint(layer, "-", i), c.do, gate))
			}
		}
		began := time.Now()
		graph(t, nodes, 4).Reconcile(t.Context(), 0)
		if took := time.Since(began); took != 5*4*time.Second || c.most != 4 {
			t.Errorf("took %v with up to %d together", took, c.most)
		}
	})
}

func TestAGraphWithoutBranchesNeedsNoGoroutine(t *testing.T) {
	before := runtime.NumGoroutine()
	most := 0
	count := func(context.Context) error { most = max(most, runtime.NumGoroutine()); return nil }
	g := graph(t, []workflow.Node[int]{node("a", count), node("b", count, "a"), node("c", count, "b")}, 0)
	for _, pass := range passes {
		pass(g, t.Context(), 0)
	}
	if most > before {
		t.Errorf("%d goroutines, before it were %d", most, before)
	}
}

func TestG16NoGoroutineOutlivesItsPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which fails if any is left
		var nodes []workflow.Node[int]
		for i := range 30 {
			do := nothing
			switch i % 5 {
			case 1:
				do = func(context.Context) error { panic(i) }
			case 2:
				do = untilCancelled
			}
			nodes = append(nodes, node(fmt.Sprint("n", i), do))
		}
		g := graph(t, nodes, 10)
		for _, pass := range passes {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			pass(g, ctx, 0)
			cancel()
		}
	})
}

func TestAFunctionThatEndsItsGoroutineFailsItsNodeAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exit := func(context.Context) error { runtime.Goexit(); return nil }
		first := true
		slow := func(ctx context.Context) error {
			if first { // that of the caller's goroutine, which takes the first turn
				first = false
				<-time.After(time.Second)
			}
			return nil
		}
		nodes := []workflow.Node[int]{node("slow", slow)}
		for i := range 5 {
			nodes = append(nodes, node(fmt.Sprint("exit", i), exit), node(fmt.Sprint("after", i), nothing, fmt.Sprint("exit", i)))
		}
		nodes = append(nodes, node("last", nothing))
		result := graph(t, nodes, 2).Reconcile(t.Context(), 0)
		for i := range 5 {
			n, _ := result.Node(fmt.Sprint("exit", i))
			if n.State != workflow.Failed || !errors.Is(n.Err, workflow.ErrExited) || state(t, result, fmt.Sprint("after", i)) != workflow.Skipped {
				t.Errorf("%v: %v", n, n.Err)
			}
		}
		if state(t, result, "slow") != workflow.Ready || state(t, result, "last") != workflow.Ready {
			t.Error(result)
		}
	})
}

// TestTheCallersGoroutineEndsAfterTheOthers is what a test sees whose node calls FailNow.
func TestTheCallersGoroutineEndsAfterTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended, returned, late := false, false, false
		nodes := []workflow.Node[int]{
			node("exit", func(context.Context) error {
				<-time.After(time.Millisecond) // until the other one runs
				runtime.Goexit()
				return nil
			}),
			node("slow", func(context.Context) error { <-time.After(time.Second); ended = true; return nil }),
			node("late", func(context.Context) error { late = true; return nil }, "slow"),
		}
		g := graph(t, nodes, 2)
		var caller sync.WaitGroup
		caller.Go(func() {
			defer func() {
				if !ended {
					t.Error("it left another one behind")
				}
			}()
			g.Reconcile(t.Context(), 0)
			returned = true
		})
		caller.Wait()
		if returned || late {
			t.Errorf("returned %v, and started more: %v", returned, late)
		}
	})
}

func TestOneGraphServesManyPrimariesAtOnce(t *testing.T) {
	g := graph(t, scripted("a[active=yes] b<a[ready=no] c<a[wanted=no] d<b+c e<c f[reconcile=panic]"), 3)
	var primaries sync.WaitGroup
	for range 50 {
		primaries.Go(func() {
			var c calls
			if got, want := g.Reconcile(t.Context(), &c).String(), "reconcile: Failed f; NotReady b; Ready a; Deleted c, d, e"; got != want {
				t.Errorf("is %q, want %q", got, want)
			}
			if got, want := g.Cleanup(t.Context(), &c).String(), "cleanup: Deleted a, b, c, d, e, f"; got != want {
				t.Errorf("is %q, want %q", got, want)
			}
		})
	}
	primaries.Wait()
}

func TestAChainOfTenThousandNodes(t *testing.T) {
	const length = 10_000
	var reconciled, deleted int
	var nodes []workflow.Node[int]
	for i := range length {
		n := node(fmt.Sprint("n", i), func(context.Context) error { reconciled++; return nil })
		n.Delete = func(context.Context, int) error { deleted++; return nil }
		if i > 0 {
			n.DependsOn = []string{fmt.Sprint("n", i-1)}
		}
		nodes = append(nodes, n)
	}
	g := graph(t, nodes, 0)
	if !g.Reconcile(t.Context(), 0).Ready() || !g.Cleanup(t.Context(), 0).Gone() || reconciled != length || deleted != length {
		t.Errorf("%d reconciled, %d deleted", reconciled, deleted)
	}
	nodes[0].ReconcilePrecondition = func(context.Context, int) (workflow.Verdict, error) { return workflow.NotMet("off"), nil }
	if result := graph(t, nodes, 0).Reconcile(t.Context(), 0); !result.Ready() || deleted != 2*length || result.Nodes[length-1].Because != "n0" {
		t.Errorf("%d deleted, %v", deleted-length, result.Nodes[length-1])
	}
	nodes[0].ReconcilePrecondition, nodes[0].Reconcile = nil, func(context.Context, int) error { return errBroken }
	if last := graph(t, nodes, 0).Reconcile(t.Context(), 0).Nodes[length-1]; last.State != workflow.Skipped || last.Because != "n0" {
		t.Error(last)
	}
	nodes[0].DependsOn = []string{fmt.Sprint("n", length-1)}
	if _, err := workflow.New(nodes, workflow.Options{}); err == nil {
		t.Error("a cycle of that length is not noticed")
	}
}
