package framework_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/workflow"
	"github.com/evenkeel/evenkeel/timeline"
)

func TestC102AWorkflowRunsBeforeReconcileAndBeforeCleanup(t *testing.T) {
	s := newScript()
	var seen []string
	for _, what := range []string{"Reconcile", "Cleanup"} {
		s.on(what, func(_ context.Context, c *pageContext) error {
			seen = append(seen, c.WorkflowResult().String())
			return nil
		})
	}
	inVirtualTime(t, s, pageOptions{Workflow: flowOf(s.node("a"), s.node("b", "a"))}, func(v *virtual) {
		v.createPage("p", "1")
		v.pass(time.Minute)
		s.expect(t, "a b Reconcile")
		if got := v.page("p").Finalizers; len(got) != 1 {
			t.Errorf("finalizers %q", got)
		}
		v.delete("p")
		v.pass(time.Minute)
		s.expect(t, "-b -a Cleanup")
		v.atRest()
		v.drained()
	})
	if want := []string{"reconcile: Ready a, b", "cleanup: Deleted a, b"}; !slices.Equal(seen, want) {
		t.Errorf("results %q, want %q", seen, want)
	}
}

// TestC102WhatIsNotReadyIsNoFailure: nothing is polled, and an event brings the next pass.
func TestC102WhatIsNotReadyIsNoFailure(t *testing.T) {
	s := newScript()
	s.meets("a ready", false)
	inVirtualTime(t, s, pageOptions{Workflow: flowOf(s.node("a"), s.node("b", "a"))}, func(v *virtual) {
		v.createPage("p", "1")
		v.pass(time.Hour)
		s.expect(t, "a Reconcile")
		if r := v.lastRecord(); r.Outcome != timeline.Succeeded {
			t.Errorf("the run %v", r)
		}
		s.meets("a ready", true)
		v.touch("p", "2")
		v.pass(time.Hour)
		s.expect(t, "a b Reconcile")
	})
}

func TestC102AFailedNodeFailsTheRunUnlessErrorsAreLeft(t *testing.T) {
	for _, leave := range []bool{false, true} {
		s := newScript()
		r := &failingPages{pages: s.pages}
		var told []string
		r.errorStatus = func(_ *Page, c *pageContext, failure error) framework.ErrorStatusControl[*Page] {
			var of *workflow.NodeError
			told = append(told, fmt.Sprint(errors.As(failure, &of) && of.Node == "a", strings.Count(failure.Error(), "broken"), c.WorkflowResult()))
			return framework.ErrorStatusControl[*Page]{}
		}
		s.fails("a", errors.New("broken"))
		s.fails("b", errors.New("broken too"))
		flow := flowOf(s.node("a"), s.node("b"), s.node("c", "a"))
		flow.Concurrency, flow.LeaveErrors = 1, leave
		inVirtualTime(t, r, pageOptions{Workflow: flow, Retry: exact}, func(v *virtual) {
			v.createPage("p", "1")
			v.pass(time.Second)
			if leave {
				s.expect(t, "a b Reconcile")
				v.pass(time.Hour)
				s.expect(t, "")
			} else {
				s.expect(t, "a b")
				v.pass(10 * time.Second)
				s.expect(t, "a b")
			}
			s.fails("a", nil)
			s.fails("b", nil)
			v.touch("p", "2")
			v.pass(time.Hour)
			s.expect(t, "a b c Reconcile")
		})
		want := []string{"true 2 reconcile: Failed a, b; Skipped c", "true 2 reconcile: Failed a, b; Skipped c"}
		if leave {
			want = nil
		}
		if !slices.Equal(told, want) {
			t.Errorf("errors left: %v: ErrorStatus was told %q, want %q", leave, told, want)
		}
	}
}

// TestC102WhatIsNotGoneKeepsTheFinalizerWithoutPolling: whatever Cleanup says.
func TestC102WhatIsNotGoneKeepsTheFinalizerWithoutPolling(t *testing.T) {
	for _, cleaner := range []bool{false, true} {
		s := newScript()
		s.meets("b gone", false)
		r, also := framework.Reconciler[*Page](noCleaner{s}), ""
		if cleaner {
			r, also = s, " Cleanup"
		}
		inVirtualTime(t, r, pageOptions{Workflow: flowOf(s.node("a"), s.node("b", "a"))}, func(v *virtual) {
			v.createPage("p", "1")
			v.pass(time.Minute)
			s.expect(t, "a b Reconcile")
			v.delete("p")
			v.pass(time.Hour)
			s.expect(t, "-b"+also)
			if r := v.lastRecord(); r.Outcome != timeline.Succeeded || len(v.page("p").Finalizers) != 1 {
				t.Errorf("%v, finalizers %q", r, v.page("p").Finalizers)
			}
			s.meets("b gone", true)
			v.touch("p", "2")
			v.pass(time.Hour)
			s.expect(t, "-b -a"+also)
			v.atRest()
			v.drained()
		})
	}
}

func TestC102AFailedCleanupIsRetriedUnlessCleanupSeesToIt(t *testing.T) {
	for _, c := range []struct {
		name         string
		leave, keeps bool
		want         string // two attempts, the second without the failure
	}{
		{"errors fail the run before Cleanup", false, false, "-a -a Cleanup"},
		{"errors are left to Cleanup, which does nothing", true, false, "-a Cleanup -a Cleanup"},
		{"errors are left to Cleanup, which keeps the finalizer", true, true, "-a Cleanup"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScript()
			s.fails("-a", errors.New("broken"))
			if c.keeps {
				s.cleanup = func(ctx context.Context, _ *Page, c *pageContext) (framework.DeleteControl, error) {
					return framework.KeepFinalizer(), s.call(ctx, c, "Cleanup")
				}
			}
			flow := flowOf(s.node("a"))
			flow.LeaveErrors = c.leave
			inVirtualTime(t, s, pageOptions{Workflow: flow, Retry: exact}, func(v *virtual) {
				v.createPage("p", "1")
				v.pass(time.Minute)
				s.expect(t, "a Reconcile")
				v.delete("p")
				v.pass(time.Second)
				s.fails("-a", nil)
				v.pass(time.Minute)
				s.expect(t, c.want)
			})
		})
	}
}

func TestC102AnExplicitWorkflowRunsWhenItIsCalled(t *testing.T) {
	for _, cleaner := range []bool{false, true} {
		s := newScript()
		s.on("Reconcile", func(ctx context.Context, c *pageContext) error {
			if before := c.WorkflowResult(); before != nil {
				t.Errorf("before the call: %v", before)
			}
			if c.Primary().Spec.HTML == "without" {
				return nil
			}
			for range 2 { // as often as it likes
				if result := c.ReconcileWorkflow(ctx); !result.Ready() || c.WorkflowResult() != result {
					t.Errorf("result %v", result)
				}
			}
			return nil
		})
		s.on("Cleanup", func(ctx context.Context, c *pageContext) error {
			if result := c.CleanupWorkflow(ctx); !result.Gone() {
				t.Errorf("result %v", result)
			}
			return nil
		})
		flow := flowOf(s.node("a"), s.node("b", "a"))
		flow.Explicit = true
		r := framework.Reconciler[*Page](noCleaner{s})
		if cleaner {
			r = s
		}
		inVirtualTime(t, r, pageOptions{Workflow: flow}, func(v *virtual) {
			v.createPage("p", "without")
			v.pass(time.Minute)
			s.expect(t, "Reconcile")
			v.touch("p", "with")
			v.pass(time.Minute)
			s.expect(t, "Reconcile a b a b")
			v.delete("p")
			v.pass(time.Minute)
			if cleaner {
				s.expect(t, "Cleanup -b -a")
			} else {
				s.expect(t, "-b -a")
			}
			v.atRest()
			v.drained()
		})
	}
}

// TestC102APassThatCannotBeIsCut: after the run, and inside of another one.
func TestC102APassThatCannotBeIsCut(t *testing.T) {
	s := newScript()
	var late *pageContext
	s.on("a", func(ctx context.Context, c *pageContext) error {
		if inner := c.ReconcileWorkflow(ctx); inner.Cut == nil || !strings.Contains(inner.Err().Error(), "in progress") {
			t.Errorf("a pass within a pass: %v", inner.Err())
		}
		late = c
		return nil
	})
	inVirtualTime(t, s, pageOptions{Workflow: flowOf(s.node("a"))}, func(v *virtual) {
		v.createPage("p", "1")
		v.pass(time.Minute)
		s.expect(t, "a Reconcile")
		for _, result := range []*workflow.Result{late.ReconcileWorkflow(v.t.Context()), late.CleanupWorkflow(v.t.Context())} {
			if !errors.Is(result.Err(), framework.ErrRunEnded) || result.Nodes[0].State != workflow.Cancelled {
				t.Errorf("after the run: %v, %v", result, result.Err())
			}
		}
		s.expect(t, "")
	})
}

func TestC102AControllerWithoutAWorkflowHasAnEmptyOne(t *testing.T) {
	var late *pageContext
	r := &pages{reconcile: func(ctx context.Context, _ *Page, c *pageContext) (pageUpdate, error) {
		late = c
		if c.WorkflowResult() != nil || !c.ReconcileWorkflow(ctx).Ready() || !c.CleanupWorkflow(ctx).Gone() {
			t.Error("it has one")
		}
		return pageUpdate{}, nil
	}}
	inVirtualTime(t, r, pageOptions{}, func(v *virtual) {
		v.createPage("p", "1")
		v.pass(time.Minute)
		if _, any := v.op.WorkflowGraph("webpage"); any || v.op.Occupancy().WorkflowResults != 0 || len(v.page("p").Finalizers) != 0 {
			t.Error("it has left something")
		}
		if result := late.ReconcileWorkflow(v.t.Context()); !errors.Is(result.Cut, framework.ErrRunEnded) || result.Ready() {
			t.Errorf("after the run: %v, cut by %v", result, result.Cut)
		}
	})
}

func TestARecordTellsOfTheNodesOfEachPass(t *testing.T) {
	s := newScript()
	for _, name := range []string{"a", "b"} {
		s.on(name, func(context.Context, *pageContext) error { time.Sleep(3 * time.Second); return nil })
	}
	s.meets("b ready", false)
	inVirtualTime(t, noCleaner{s}, pageOptions{Workflow: flowOf(s.node("a"), s.node("b"), s.node("c", "b"))}, func(v *virtual) {
		v.createPage("p", "1")
		v.pass(time.Minute)
		r := v.lastRecord()
		if len(r.Nodes) != 3 || r.Nodes[0].Started != r.Nodes[1].Started || r.Nodes[1].Duration != 3*time.Second || r.Duration != 3*time.Second {
			t.Errorf("independent nodes did not run at the same time: %+v", r)
		}
		want := "nodes a Ready, b NotReady: it is not b ready, c Waiting: waiting for b: it is not b ready"
		if !strings.Contains(r.String(), want) || r.Nodes[2].Because != "b" || r.Nodes[2].Pass != "reconcile" {
			t.Errorf("%v", r)
		}
	})
}

// TestC102AllEventsMakesNoPassForWhatGoes: there is no finalizer that would wait for it.
func TestC102AllEventsMakesNoPassForWhatGoes(t *testing.T) {
	s := newScript()
	n := s.node("a")
	n.Delete, n.DeletePostcondition = nil, nil
	inVirtualTime(t, noCleaner{s}, pageOptions{Workflow: flowOf(n), AllEvents: true}, func(v *virtual) {
		v.createPage("p", "1")
		v.pass(time.Minute)
		v.patch(newPage("default", "p"), `{"metadata":{"finalizers":["example.com/other"]}}`)
		s.expect(t, "a Reconcile")
		v.delete("p")
		v.pass(time.Minute)
		s.expect(t, "Reconcile")
		v.patch(newPage("default", "p"), `{"metadata":{"finalizers":[]}}`)
		v.pass(time.Minute)
		s.expect(t, "Reconcile")
		if n := v.op.Occupancy().WorkflowResults; n != 0 {
			t.Errorf("%d results are kept", n)
		}
		v.drained()
	})
}

// TestC105AWorkflowWithNothingToDeleteTakesNoFinalizer: garbage collection sees to it.
func TestC105AWorkflowWithNothingToDeleteTakesNoFinalizer(t *testing.T) {
	s := newScript()
	n := s.node("a")
	n.GarbageCollected, n.DeletePostcondition = true, nil
	inVirtualTime(t, noCleaner{s}, pageOptions{Workflow: flowOf(n)}, func(v *virtual) {
		v.createPage("p", "1")
		v.pass(time.Minute)
		if got := v.page("p").Finalizers; len(got) != 0 {
			t.Errorf("finalizers %q", got)
		}
		v.delete("p")
		v.pass(time.Minute)
		s.expect(t, "a Reconcile")
	})
}
