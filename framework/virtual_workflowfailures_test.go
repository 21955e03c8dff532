package framework_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/retry"
	"github.com/evenkeel/evenkeel/timeline"
)

// TestC102WhatIsNoFailureOfARunIsNoneOfAPass: conflicts have the run repeated at once, whatever
// else has to wait.
func TestC102WhatIsNoFailureOfARunIsNoneOfAPass(t *testing.T) {
	conflict := func(v *virtual) func(context.Context, *pageContext) error {
		return func(ctx context.Context, c *pageContext) error {
			page := c.Primary()
			v.patch(newPage("default", page.Name), fmt.Sprintf(`{"metadata":{"labels":{"at":"%d"}}}`, time.Now().UnixNano()))
			_, err := framework.MergePatch(ctx, c, page, []byte(`{"metadata":{"labels":{"own":"x"}}}`))
			return err
		}
	}
	for _, other := range []string{"alone", "with another conflict", "with a source that is not filled", "with a failure"} {
		for _, leave := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, errors left: %v", other, leave), func(t *testing.T) {
				s := newScript()
				flow := flowOf(s.node("a"), s.node("b"))
				flow.Concurrency, flow.LeaveErrors = 1, leave
				inVirtualTime(t, noCleaner{s}, pageOptions{Workflow: flow, Retry: exact}, func(v *virtual) {
					v.disturb(func(r apimodel.Request) apimodel.Fault { return apimodel.Fault{Drop: r.Resource == "configmaps"} })
					s.on("a", conflict(v))
					switch other {
					case "with another conflict":
						s.on("b", conflict(v))
					case "with a source that is not filled":
						s.on("b", func(_ context.Context, c *pageContext) error {
							if err := c.AddSecondary(&s.configMaps); err != nil {
								return err
							}
							_, err := s.configMaps.List(c)
							return err
						})
					case "with a failure":
						s.fails("b", errors.New("broken"))
					}
					v.createPage("p", "1")
					v.pass(time.Second)
					records := v.op.Records("webpage")
					fails := other == "with a failure" && !leave
					if again := len(records) > 1; again == fails || len(records) == 0 {
						v.t.Errorf("runs: %v", records)
					}
					for _, r := range records {
						if r.Attempt != 0 || (r.Outcome == timeline.Failed) != fails {
							t.Errorf("%v, attempt %d", r, r.Attempt)
						}
					}
				})
			})
		}
	}
}

// TestC102ATerminalFailureIsOneOfAllNodes: while one of them may be mended by a retry, there is
// one.
func TestC102ATerminalFailureIsOneOfAllNodes(t *testing.T) {
	soon := apierrors.NewTooManyRequests("later", 30)
	for _, c := range []struct {
		name string
		a, b error
		want []time.Duration // the runs of the first minute
	}{
		{"both are terminal", retry.Final(errors.New("no")), framework.ErrTooLarge, []time.Duration{0}},
		{"one is", retry.Final(errors.New("no")), errors.New("maybe"), []time.Duration{0, 10 * time.Second, 20 * time.Second, 30 * time.Second, 40 * time.Second, 50 * time.Second}},
		{"one is refused for now", retry.Final(errors.New("no")), soon, []time.Duration{0, 30 * time.Second}},
		{"one fails and one is refused for now", errors.New("maybe"), soon, []time.Duration{0, 30 * time.Second}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScript()
			s.fails("a", c.a)
			s.fails("b", c.b)
			inVirtualTime(t, noCleaner{s}, pageOptions{Workflow: flowOf(s.node("a"), s.node("b")), Retry: exact}, func(v *virtual) {
				began := time.Now()
				v.createPage("p", "1")
				v.pass(59 * time.Second)
				var at []time.Duration
				for _, r := range v.op.Records("webpage") {
					at = append(at, r.Started.Sub(began).Round(time.Second))
				}
				if !slices.Equal(at, c.want) {
					t.Errorf("runs at %v, want %v", at, c.want)
				}
			})
		})
	}
}

func TestC102APanicOfANodeFailsItAndTheRun(t *testing.T) {
	s := newScript()
	s.on("a", func(context.Context, *pageContext) error { panic("oops") })
	inVirtualTime(t, noCleaner{s}, pageOptions{Workflow: flowOf(s.node("a"), s.node("b"))}, func(v *virtual) {
		v.createPage("p", "1")
		v.pass(time.Millisecond)
		r := v.lastRecord()
		if r.Outcome != timeline.Panicked || !strings.Contains(r.Err, "oops") || !strings.Contains(r.Stack, "virtual_workflowfailures_test.go") {
			t.Errorf("%v, stack %s", r, r.Stack)
		}
		if r.Nodes[0].State != "Failed" || r.Nodes[1].State != "Ready" {
			t.Errorf("nodes %v", r.Nodes)
		}
	})
}

// TestC102ARunThatEndsDuringAPassIsNoSuccess: nor is one whose author does not look at what came of
// it.
func TestC102ARunThatEndsDuringAPassIsNoSuccess(t *testing.T) {
	for _, c := range []struct {
		name            string
		explicit, leave bool
		within          string
	}{
		{"before Reconcile", false, false, "Reconcile"},
		{"before Reconcile, errors left", false, true, "Reconcile"},
		{"in Reconcile", true, false, "Reconcile"},
		{"in Cleanup", true, false, "Cleanup"},
		{"before Cleanup, errors left", false, true, "Cleanup"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScript()
			slow := func(ctx context.Context, _ *pageContext) error { <-ctx.Done(); return nil }
			s.on("Reconcile", func(ctx context.Context, rc *pageContext) error {
				if c.explicit {
					rc.ReconcileWorkflow(ctx)
				}
				return nil
			})
			s.on("Cleanup", func(ctx context.Context, rc *pageContext) error {
				if c.explicit {
					rc.CleanupWorkflow(ctx)
				}
				return nil
			})
			flow := flowOf(s.node("a"), s.node("b", "a"))
			flow.Explicit, flow.LeaveErrors = c.explicit, c.leave
			inVirtualTime(t, s, pageOptions{Workflow: flow, RunTimeout: 5 * time.Second}, func(v *virtual) {
				if c.within == "Reconcile" {
					s.on("a", slow)
				} else {
					s.on("-b", slow)
				}
				v.createPage("p", "1")
				if v.pass(time.Second); c.within == "Cleanup" {
					v.delete("p")
				}
				v.pass(5100 * time.Millisecond)
				r := v.lastRecord()
				if r.Outcome != timeline.Failed || !strings.Contains(r.Err, "RunTimeout") || len(v.page("p").Finalizers) != 1 {
					t.Errorf("%v, finalizers %q", r, v.page("p").Finalizers)
				}
			})
		})
	}
}

// TestC102APanicWithAConflictIsNoConflict: the run fails, and is retried as any that panics.
func TestC102APanicWithAConflictIsNoConflict(t *testing.T) {
	s := newScript()
	inVirtualTime(t, noCleaner{s}, pageOptions{Workflow: flowOf(s.node("a")), Retry: exact}, func(v *virtual) {
		s.on("a", func(ctx context.Context, c *pageContext) error {
			page := c.Primary()
			v.patch(newPage("default", page.Name), fmt.Sprintf(`{"metadata":{"labels":{"at":"%d"}}}`, time.Now().UnixNano()))
			_, err := framework.MergePatch(ctx, c, page, []byte(`{"metadata":{"labels":{"own":"x"}}}`))
			panic(err)
		})
		v.createPage("p", "1")
		v.pass(time.Millisecond)
		if r := v.op.Records("webpage")[0]; r.Outcome != timeline.Panicked {
			t.Errorf("%v", r)
		}
	})
}

// TestC102APanicOfANodeIsOneInAnExplicitPassToo: if its error is what Reconcile or Cleanup returns.
func TestC102APanicOfANodeIsOneInAnExplicitPassToo(t *testing.T) {
	s := newScript()
	for _, what := range []string{"a", "-a"} {
		s.on(what, func(context.Context, *pageContext) error { panic("oops") })
	}
	s.on("Reconcile", func(ctx context.Context, c *pageContext) error {
		return fmt.Errorf("a pass: %w", c.ReconcileWorkflow(ctx).Err())
	})
	s.on("Cleanup", func(ctx context.Context, c *pageContext) error { return c.CleanupWorkflow(ctx).Err() })
	flow := flowOf(s.node("a"))
	flow.Explicit = true
	inVirtualTime(t, s, pageOptions{Workflow: flow}, func(v *virtual) {
		v.createPage("p", "1")
		for range 2 {
			v.pass(time.Millisecond)
			r := v.lastRecord()
			if r.Outcome != timeline.Panicked || !strings.Contains(r.Stack, "virtual_workflowfailures_test.go") {
				t.Errorf("%v, stack %s", r, r.Stack)
			}
			v.delete("p")
		}
	})
}

// TestC102AConflictLeftToCleanupBringsAnotherRun: as it does if it is left to Reconcile, whoever
// keeps the finalizer.
func TestC102AConflictLeftToCleanupBringsAnotherRun(t *testing.T) {
	s := newScript()
	s.cleanup = func(ctx context.Context, _ *Page, c *pageContext) (framework.DeleteControl, error) {
		return framework.KeepFinalizer(), s.call(ctx, c, "Cleanup")
	}
	s.fails("-b", errors.New("broken"))
	flow := flowOf(s.node("a"), s.node("b"))
	flow.LeaveErrors = true
	inVirtualTime(t, s, pageOptions{Workflow: flow, Retry: exact}, func(v *virtual) {
		s.on("-a", func(ctx context.Context, c *pageContext) error {
			s.fails("-a", nil)
			other := v.page("other")
			v.touch("other", "2")
			_, err := framework.MergePatch(ctx, c, other, []byte(`{"metadata":{"labels":{"own":"x"}}}`))
			return err
		})
		v.createPage("p", "1")
		v.createPage("other", "1")
		v.pass(time.Minute)
		v.delete("p")
		v.pass(time.Second)
		cleanups := 0
		for _, r := range v.op.Records("webpage") {
			if r.Key == "default/p" && len(r.Nodes) > 0 && r.Nodes[0].Pass == "cleanup" {
				cleanups++
			}
		}
		if cleanups != 2 {
			t.Errorf("%d runs that clean up, want a second one for the conflict", cleanups)
		}
	})
}
