package framework_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/framework/workflow"
	"github.com/evenkeel/evenkeel/internal/depth"
	"github.com/evenkeel/evenkeel/timeline"
)

func TestG16TheNewestResultOfAPrimaryEndsWithIt(t *testing.T) {
	for _, way := range []string{"with a finalizer", "without one", "with all events"} {
		s := newScript()
		n, allEvents := s.node("a"), way == "with all events"
		if way == "without one" {
			n.Delete, n.DeletePostcondition = nil, nil
		}
		n.ReadyPostcondition = func(context.Context, *pageContext) (workflow.Verdict, error) {
			return workflow.Met().With(make([]byte, 1<<20)), nil
		}
		flow := flowOf(n)
		flow.Explicit = allEvents
		var own []byte
		s.on("Reconcile", func(ctx context.Context, c *pageContext) error {
			if allEvents {
				c.ReconcileWorkflow(ctx) // also of what is gone
			}
			node, _ := c.WorkflowResult().Node("a")
			own, _ = workflow.Detail[[]byte](node, workflow.ReadyPostcondition)
			return nil
		})
		inVirtualTime(t, noCleaner{s}, pageOptions{Workflow: flow, AllEvents: allEvents}, func(v *virtual) {
			v.createPage("p", "1")
			v.pass(time.Minute)
			result, any := v.op.WorkflowResult("webpage", pageKey("p"))
			if !any || !result.Ready() || !strings.Contains(result.Mermaid(), "a<br/>Ready") {
				t.Errorf("result %v", result)
			}
			node, _ := result.Node("a")
			if _, kept := workflow.Detail[[]byte](node, workflow.ReadyPostcondition); kept || len(own) != 1<<20 {
				t.Errorf("details are kept: %v; the run's own has %d bytes", kept, len(own))
			}
			if verdict, asked := node.Answer(workflow.ReadyPostcondition); !asked || !verdict.Met {
				t.Error("the verdict is not kept")
			}
			v.createPage("q", "1")
			v.pass(time.Minute)
			s.on("a", func(context.Context, *pageContext) error { time.Sleep(time.Second); return nil })
			v.touch("q", "2")
			time.Sleep(time.Millisecond)
			v.delete("p")
			v.delete("q") // during its run
			v.pass(time.Minute)
			if n := v.op.Occupancy().WorkflowResults; n != 0 {
				t.Errorf("%s: results of %d primaries are kept that are gone", way, n)
			}
			v.createPage("r", "1")
			v.pass(time.Minute)
			noError(t, v.op.SetNamespaces([]string{"elsewhere"}))
			v.pass(time.Minute)
			if n := v.op.Occupancy().WorkflowResults; n != 0 {
				t.Errorf("%s: results of %d primaries are kept that are not watched", way, n)
			}
			v.drained()
		})
	}
}

// TestG16AThousandPrimariesLeaveNothingOfTheirWorkflows: created and deleted, a hundred at a time.
func TestG16AThousandPrimariesLeaveNothingOfTheirWorkflows(t *testing.T) {
	s := newScript()
	n := s.reads(t, activeBy(s.node("on")), &s.configMaps)
	inVirtualTime(t, noCleaner{s}, pageOptions{Workflow: flowOf(n, s.node("a"))}, func(v *virtual) {
		var goroutines int
		for round := range depth.Of(3, 10, 10) {
			for i := range 100 {
				v.createPage(fmt.Sprintf("p%d-%d", round, i), "on")
			}
			v.pass(time.Minute)
			if now := v.op.Occupancy(); now.WorkflowResults != 100 || now.DynamicSources != 1 {
				t.Fatalf("%d results of 100 primaries, %d sources", now.WorkflowResults, now.DynamicSources)
			}
			for i := range 100 {
				v.delete(fmt.Sprintf("p%d-%d", round, i))
			}
			v.pass(time.Minute)
			if round == 0 {
				goroutines = bubbled()
			}
			if now := v.op.Occupancy(); now.WorkflowResults != 0 || now.DynamicSources != 0 || now.Keys != 0 {
				t.Fatalf("%d results, %d sources and %d keys of primaries that are gone", now.WorkflowResults, now.DynamicSources, now.Keys)
			}
		}
		v.holdsNothing(1, goroutines)
	})
}

// TestG06APassIsCutWithTheLeaseAndComesAgain: it is neither a success nor an attempt.
func TestG06APassIsCutWithTheLeaseAndComesAgain(t *testing.T) {
	for _, explicit := range []bool{false, true} {
		withReplicas(t, func(r *replicas) {
			s := newScript()
			s.on("a", func(ctx context.Context, c *pageContext) error {
				if c.Retry().Attempt != 0 {
					r.Errorf("attempt %d", c.Retry().Attempt)
				}
				<-ctx.Done()
				return nil
			})
			var cut *workflow.Result
			s.on("Reconcile", func(ctx context.Context, c *pageContext) error {
				if explicit {
					cut = c.ReconcileWorkflow(ctx)
				}
				return nil // as if nothing had been
			})
			flow := flowOf(s.node("a"), s.node("b", "a"))
			flow.Explicit = explicit
			a := r.startWith("a", noCleaner{s}, pageOptions{Workflow: flow})
			r.create(newPage("default", "p"))
			r.pass(time.Second)
			r.disturb(unreachable("a"))
			r.pass(12 * time.Second)
			s.fails("a", nil)
			r.disturb(nil)
			r.pass(10 * time.Second)
			r.lead("a", a)
			if explicit {
				s.expect(t, "Reconcile a Reconcile a b")
			} else {
				s.expect(t, "a a b Reconcile")
			}
			if explicit && !cut.Ready() {
				r.Errorf("at last: %v", cut)
			}
			noError(r.T, a.stop())
		})
	}
}

// TestC102APassWithALimitOfTheAuthorsIsTheAuthorsToJudge: the run goes on.
func TestC102APassWithALimitOfTheAuthorsIsTheAuthorsToJudge(t *testing.T) {
	s := newScript()
	s.on("a", func(ctx context.Context, _ *pageContext) error { <-ctx.Done(); return nil })
	tooLong := errors.New("it takes too long")
	s.on("Reconcile", func(ctx context.Context, c *pageContext) error {
		limited, cancel := context.WithTimeoutCause(ctx, time.Second, tooLong)
		defer cancel()
		if result := c.ReconcileWorkflow(limited); !errors.Is(result.Cut, tooLong) || ctx.Err() != nil {
			t.Errorf("cut by %v", result.Cut)
		}
		return nil
	})
	flow := flowOf(s.node("a"), s.node("b", "a"))
	flow.Explicit = true
	inVirtualTime(t, noCleaner{s}, pageOptions{Workflow: flow}, func(v *virtual) {
		v.createPage("p", "1")
		v.pass(time.Minute)
		s.expect(t, "Reconcile a")
		if r := v.lastRecord(); r.Outcome != timeline.Succeeded {
			t.Errorf("%v", r)
		}
	})
}

// TestG19APassLeftInAGoroutineEndsWithItsRun: nothing of it is kept, and nothing is begun any more.
func TestG19APassLeftInAGoroutineEndsWithItsRun(t *testing.T) {
	s := newScript()
	var came chan *workflow.Result
	s.on("a", func(ctx context.Context, _ *pageContext) error { <-ctx.Done(); return nil })
	s.on("Reconcile", func(_ context.Context, c *pageContext) error {
		go func() { came <- c.ReconcileWorkflow(context.Background()) }()
		time.Sleep(time.Second)
		return nil
	})
	flow := flowOf(s.node("a"), s.node("b", "a"))
	flow.Explicit = true
	inVirtualTime(t, noCleaner{s}, pageOptions{Workflow: flow}, func(v *virtual) {
		came = make(chan *workflow.Result, 1) // of the bubble
		v.createPage("p", "1")
		v.pass(time.Minute)
		s.expect(t, "Reconcile a")
		if result := <-came; result.Cut == nil || result.Nodes[1].State != workflow.Cancelled {
			t.Errorf("%v, cut by %v", result, result.Cut)
		}
		if n := v.op.Occupancy().WorkflowResults; n != 0 {
			t.Errorf("%d results are kept", n)
		}
	})
}

// TestG19APassThatEndsAfterItsRunChangesNothing: neither the record of that, nor what the next run
// holds.
func TestG19APassThatEndsAfterItsRunChangesNothing(t *testing.T) {
	s := newScript()
	var release chan struct{}
	n := s.reads(t, activeBy(s.node("on")), &s.configMaps)
	n.Deactivate = func(_ context.Context, c *pageContext) error {
		if c.Primary().Spec.HTML == "left" {
			<-release
		}
		return nil
	}
	flow := flowOf(n)
	flow.Explicit = true
	s.on("Reconcile", func(ctx context.Context, c *pageContext) error {
		if c.Primary().Spec.HTML == "left" {
			go c.ReconcileWorkflow(ctx)
			time.Sleep(time.Second)
			return nil
		}
		for range 9 {
			c.ReconcileWorkflow(ctx)
		}
		if c.Primary().Spec.HTML == "full" {
			c.Primary().Spec.HTML = "left"
			go c.ReconcileWorkflow(ctx)
			time.Sleep(time.Second)
		}
		return nil
	})
	inVirtualTime(t, noCleaner{s}, pageOptions{Workflow: flow}, func(v *virtual) {
		for _, html := range []string{"left", "full"} {
			release = make(chan struct{})
			v.createPage(html, html)
			v.pass(time.Minute)
			record := v.lastRecord()
			before := slices.Clone(record.Nodes)
			v.touch(html, "on")
			v.pass(time.Minute)
			close(release)
			v.pass(time.Minute)
			if !slices.Equal(record.Nodes, before) {
				t.Errorf("%s: the record changed from %+v to %+v", html, before, record.Nodes)
			}
			if now := v.op.Occupancy(); now.DynamicSources != 1 {
				t.Errorf("%s: %d sources are held for the next run, which needs one", html, now.DynamicSources)
			}
			v.delete(html)
			v.pass(time.Minute)
		}
	})
}
