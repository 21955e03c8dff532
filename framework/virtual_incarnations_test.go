package framework_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/workflow"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/retry"
	"github.com/evenkeel/evenkeel/scheduler"
	"github.com/evenkeel/evenkeel/trc"
)

// A run of the new incarnation leaves a create of unknown fate. Then the deletion of the old
// incarnation is delivered late, as a filter is slow. It must not drop what belongs to the new one.
func TestG13ALateDeletionKeepsTheUnresolvedWritesOfTheNextPrimary(t *testing.T) {
	r := allocator()
	allocate := r.reconcile
	r.reconcile = func(ctx context.Context, p *Page, c *pageContext) (pageUpdate, error) {
		switch p.Spec.HTML {
		case "old":
			return framework.NoUpdate[*Page]().RescheduleAfter(5 * time.Second), nil
		case "new":
			return allocate(ctx, p, c)
		}
		return pageUpdate{}, nil
	}
	options := withConfigMaps(r, pageOptions{
		RunTimeout: 2 * time.Second, Retry: retry.Policy{Initial: time.Hour, Max: time.Hour},
		UpdateFilter: func(old, new *Page) bool {
			if new.Name == "slow" {
				time.Sleep(9 * time.Second)
			}
			return true
		},
	})
	inVirtualTime(t, r, options, func(v *virtual) {
		v.model.Lag("configmaps", 15*time.Minute) // the watch does not tell what became of it
		v.createPage("slow", "x")
		v.createPage("p", "old")
		v.pass(4900 * time.Millisecond)
		v.disturb(unanswered(apimodel.Fault{Lose: true}, "create", "configmaps", true))
		v.touch("slow", "y") // the filter is busy until 13.9 s
		v.delete("p")
		v.createPage("p", "new")
		v.pass(4 * time.Second) // the timer of the old one runs the new one, which gives up after 2 s
		if n := framework.Unresolved(v.op); n != 1 {
			t.Fatalf("%d unresolved writes after the run of the new one, records %v", n, v.op.Records("webpage"))
		}
		v.disturb(nil)
		v.pass(20 * time.Minute)
		if made := v.commits("configmaps"); len(made) != 1 {
			t.Errorf("made %q", made)
		}
	})
}

type toolmaker struct {
	configMaps framework.Secondary[*corev1.ConfigMap]
	reconcile  func(ctx context.Context, t *Tool, c *framework.Context[*Tool]) error
}

func (r *toolmaker) Reconcile(ctx context.Context, t *Tool, c *framework.Context[*Tool]) (framework.UpdateControl[*Tool], error) {
	return framework.NoUpdate[*Tool](), r.reconcile(ctx, t, c)
}

// The newest result of a workflow is kept while the primary exists, also if it becomes undecodable.
func TestTheWorkflowResultStaysWhenThePrimaryBecomesUndecodable(t *testing.T) {
	for _, at := range []time.Duration{5 * time.Second, time.Minute} { // in its run, and after it
		r := &toolmaker{}
		r.reconcile = func(context.Context, *Tool, *framework.Context[*Tool]) error {
			time.Sleep(10 * time.Second)
			return nil
		}
		node := framework.Node[*Tool]{Node: workflow.Node[*framework.Context[*Tool]]{
			Name: "n", Reconcile: func(context.Context, *framework.Context[*Tool]) error { return nil },
		}}
		options := framework.ControllerOptions[*Tool]{Workflow: framework.Workflow[*Tool]{Dependents: []framework.Dependent[*Tool]{node}}}
		inVirtualTimeOf(t, framework.OperatorOptions{}, func(op *framework.Operator) error { return framework.Register(op, r, options) }, func(v *virtual) {
			v.create(newTool("t", 1))
			v.pass(at)
			v.changeTool("t", `{"spec":{"size":"huge"}}`)
			v.pass(time.Minute)
			if _, any := v.op.WorkflowResult("tool", pageKey("t")); !any {
				t.Errorf("undecodable after %v: no result", at)
			}
		})
	}
}

// What is kept for a primary goes with the watch of its namespace, also if it is undecodable.
func TestG16AnUndecodablePrimaryIsForgottenWithItsNamespace(t *testing.T) {
	for _, undecodable := range []bool{false, true} {
		r := &toolmaker{}
		r.reconcile = func(ctx context.Context, tool *Tool, c *framework.Context[*Tool]) error {
			if err := c.AddSecondary(&r.configMaps); err != nil {
				return err
			}
			if _, err := r.configMaps.List(c); err != nil {
				return err
			}
			_, err := framework.Create(ctx, c, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: tool.Namespace, Name: tool.Name}})
			return err
		}
		known := map[string]bool{} // to a source
		watching := &rowdy{source: "watching", changed: func(old, new trc.Object) {
			if new == nil {
				known[trc.KeyOf(old).String()] = false
			} else {
				known[trc.KeyOf(new).String()] = true
			}
		}}
		options := framework.ControllerOptions[*Tool]{
			Sources: []eventsource.Source{watching}, KeepRecords: 100, RunTimeout: 10 * time.Second, KeepRecordsPerPrimary: 3,
			Retry: retry.Policy{Initial: time.Hour, Max: time.Hour},
		}
		inVirtualTimeOf(t, framework.OperatorOptions{}, func(op *framework.Operator) error { return framework.Register(op, r, options) }, func(v *virtual) {
			noError(t, v.op.SetNamespaces([]string{"default"}))
			v.disturb(unanswered(apimodel.Fault{Lose: true}, "create", "configmaps", true))
			v.create(newTool("t", 1))
			v.pass(time.Minute)
			if undecodable {
				v.changeTool("t", `{"spec":{"size":"huge"}}`)
				v.pass(time.Second)
			}
			if n := framework.Unresolved(v.op); n != 1 {
				t.Fatalf("%d unresolved", n)
			}
			noError(t, v.op.SetNamespaces([]string{"elsewhere"}))
			v.pass(3 * time.Hour)
			if len(known) != 1 || known["default/t"] {
				t.Errorf("undecodable %t: the source knows %v", undecodable, known)
			}
			now := v.op.Occupancy()
			if now.Unresolved != 0 || now.DynamicSources != 0 || now.Histories != 0 || now.Keys != 0 {
				t.Errorf("undecodable %t: %d unresolved writes, %d dynamic sources, %d histories, %d keys are left", undecodable, now.Unresolved, now.DynamicSources, now.Histories, now.Keys)
			}
			noError(t, v.op.SetNamespaces([]string{"default"})) // and deleted later
			noError(t, v.admin.Delete(v.t.Context(), newTool("t", 1)))
			v.pass(3 * time.Hour)
			now = v.op.Occupancy()
			if now.Unresolved != 0 || now.DynamicSources != 0 || now.Histories != 0 || now.Keys != 0 {
				t.Errorf("undecodable %t, at last: %d unresolved writes, %d dynamic sources, %d histories, %d keys are left", undecodable, now.Unresolved, now.DynamicSources, now.Histories, now.Keys)
			}
		})
	}
}

// A goroutine of the author's outlives its run and its primary.
func TestG16ARequestAfterTheRunLeavesNoLoop(t *testing.T) {
	r := &pages{}
	var late func()
	r.reconcile = func(ctx context.Context, p *Page, c *pageContext) (pageUpdate, error) {
		late = func() {
			_, err := framework.Do(ctx, c, p, func(context.Context) (*Page, error) { t.Error("sent"); return nil, nil })
			if err == nil || !strings.Contains(err.Error(), "the run has ended") {
				t.Errorf("got %v", err)
			}
		}
		return pageUpdate{}, nil
	}
	inVirtualTime(t, r, pageOptions{}, func(v *virtual) {
		v.createPage("p", "a")
		v.pass(time.Minute)
		v.delete("p")
		v.pass(time.Minute)
		late()
		v.pass(time.Hour)
		if n := framework.Loops(v.op); n != 0 {
			t.Errorf("%d loops of primaries that are gone", n)
		}
	})
}

// The last run of a page ends its goroutine each time; another page has its name.
func TestG07AFinalRunThatEndsItsGoroutineReleasesTheNextPrimary(t *testing.T) {
	for _, ending := range []string{"panics", "ends its goroutine"} {
		d := newDiary()
		d.after = func(_ context.Context, _ *Page, c *pageContext) (pageUpdate, error) {
			if c.Gone() {
				if ending == "panics" {
					panic("boo")
				}
				runtime.Goexit()
			}
			return pageUpdate{}, nil
		}
		inVirtualTime(t, d, pageOptions{AllEvents: true, Retry: everySecond, MaxInterval: scheduler.NoMaxInterval}, func(v *virtual) {
			v.createPage("p", "a")
			v.pass(time.Second)
			v.delete("p")
			v.createPage("p", "b")
			v.pass(24 * time.Hour)
			t.Logf("%s: %q", ending, d.since())
			v.touch("p", "c")
			v.pass(24 * time.Hour)
			if seen := d.since(); len(seen) != 1 || seen[0] != "c" {
				t.Errorf("the last run %s: the new page is changed, and within a day the runs are %q; %d final runs, %d keys",
					ending, seen, framework.FinalRuns(v.op), framework.PendingKeys(v.op, "webpage"))
			}
		})
	}
}

// A page is deleted and made anew more often during its run than last runs are kept.
func TestG16UnresolvedWritesOfADroppedFinalRunAreForgotten(t *testing.T) {
	r := &pages{}
	r.reconcile = func(ctx context.Context, p *Page, c *pageContext) (pageUpdate, error) {
		if p.Spec.HTML != "first" || c.Gone() {
			return pageUpdate{}, nil
		}
		_, err := framework.Create(ctx, c, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}})
		return pageUpdate{}, err
	}
	options := withConfigMaps(r, pageOptions{AllEvents: true, RunTimeout: 30 * time.Second, Retry: retry.Policy{Initial: time.Second, Factor: 1, MaxAttempts: 2}})
	inVirtualTime(t, r, options, func(v *virtual) {
		v.disturb(unanswered(apimodel.Fault{Lose: true}, "create", "configmaps", true))
		v.createPage("p", "first")
		v.pass(time.Second)
		for i := range 17 {
			v.delete("p")
			v.createPage("p", fmt.Sprint(i))
			v.pass(10 * time.Millisecond)
		}
		v.delete("p")
		v.pass(time.Minute)
		v.disturb(nil)
		v.pass(24 * time.Hour)
		v.drained()
		if n := framework.Unresolved(v.op); n != 0 {
			t.Errorf("%d unresolved writes of primaries that are gone", n)
		}
	})
}
