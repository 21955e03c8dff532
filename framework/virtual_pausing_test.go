package framework_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/retry"
)

// How a pause meets the rest: other controllers, filters, namespaces, final runs, failures.

func idlePages() *pages {
	return &pages{reconcile: func(context.Context, *Page, *pageContext) (pageUpdate, error) { return pageUpdate{}, nil }}
}

func pausedPage(name string) *Page {
	p := newPage("default", name)
	p.Annotations = map[string]string{framework.Paused: "true"}
	return p
}

func (v *virtual) expectPaused(what, name string, want metav1.ConditionStatus) {
	v.t.Helper()
	if got := v.pausedOf(name); got != want {
		v.t.Errorf("%s: the condition Paused is %q, want %q", what, got, want)
	}
}

// What a run has made under a drawn name is known to the next run, though a pause is in between.
func TestAPauseForgetsNoObject(t *testing.T) {
	for name, fate := range fates {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, unwatched(framework.OwnedByPrimary()), shortRuns, func(v *virtual) {
				v.disturb(unanswered(fate, "create", "configmaps", true))
				v.create(newPage("default", "p"))
				v.pass(70 * time.Second)
				v.patch(newPage("default", "p"), `{"metadata":{"annotations":{"evenkeel.dev/paused":"true"}}}`)
				v.pass(5 * time.Minute)
				v.disturb(nil)
				v.pass(10 * time.Minute)
				v.mark("p", "null")
				v.pass(20 * time.Minute)
				v.expectOneMade("p")
			})
		})
	}
}

func TestG16APauseEndsWithTheNamespace(t *testing.T) {
	inVirtualTime(t, idlePages(), pageOptions{}, func(v *virtual) {
		v.create(pausedPage("p"))
		v.pass(time.Minute)
		noError(t, v.op.SetNamespaces([]string{"elsewhere"}))
		v.pass(time.Minute)
		v.delete("p")
		noError(t, v.op.SetNamespaces([]string{"default"}))
		v.pass(time.Hour)
		if n := v.op.Occupancy().Controllers[0].PausedPrimaries; n != 0 {
			t.Errorf("%d primaries are paused, none exists", n)
		}
	})
}

// The condition shows that a pause has ended while nobody watched, whatever filters say.
func TestTheEndOfAPauseThatNobodySawIsShown(t *testing.T) {
	inVirtualTime(t, idlePages(), pageOptions{AddFilter: func(*Page) bool { return false }}, func(v *virtual) {
		v.create(pausedPage("p"))
		v.pass(time.Minute)
		v.expectPaused("paused", "p", metav1.ConditionTrue)
		noError(t, v.op.SetNamespaces([]string{"elsewhere"}))
		v.pass(time.Minute)
		v.mark("p", "null")
		noError(t, v.op.SetNamespaces([]string{"default"}))
		v.pass(time.Minute)
		v.expectPaused("watched again", "p", "")
	})
}

// The final run of the one before has its time, and then the pause is shown.
func TestAPausedSuccessorWaitsForAFinalRun(t *testing.T) {
	d := newDiary()
	d.broken.Store(true)
	slow := retry.Policy{Initial: 10 * time.Minute, Factor: 1, Jitter: retry.NoJitter}
	inVirtualTime(t, d, pageOptions{AllEvents: true, Retry: slow}, func(v *virtual) {
		v.createPage("p", "a")
		v.pass(time.Minute)
		v.delete("p")
		v.pass(time.Minute)
		d.broken.Store(false)
		v.create(pausedPage("p"))
		v.pass(24 * time.Hour)
		v.expectPaused("after the final run", "p", metav1.ConditionTrue)
		if n := framework.FinalRuns(v.op); n != 0 {
			t.Errorf("%d final runs are still to come", n)
		}
	})
}

func TestControllersOfAKindPauseByThemselves(t *testing.T) {
	labelled := func(name string) pageOptions {
		return pageOptions{Name: name, Finalizer: "x.dev/" + name, Paused: func(p *Page) bool { return p.Labels[name] == "held" }}
	}
	inVirtualTimeOf(t, framework.OperatorOptions{}, func(op *framework.Operator) error {
		if err := framework.Register(op, idlePages(), labelled("one")); err != nil {
			return err
		}
		return framework.Register(op, idlePages(), labelled("two"))
	}, func(v *virtual) {
		change := func(what, patch string, want metav1.ConditionStatus) {
			t.Helper()
			v.patch(newPage("default", "p"), patch)
			v.pass(time.Minute)
			v.expectPaused(what, "p", want)
		}
		v.create(newPage("default", "p"))
		v.pass(time.Minute)
		change("one is held", `{"metadata":{"labels":{"one":"held"}}}`, metav1.ConditionTrue)
		change("the other has a run", `{"spec":{"html":"two"}}`, metav1.ConditionTrue)
		change("both are held", `{"metadata":{"labels":{"two":"held"}}}`, metav1.ConditionTrue)
		change("the first goes on", `{"metadata":{"labels":{"one":null}}}`, metav1.ConditionTrue)
		change("both go on", `{"metadata":{"labels":{"two":null}}}`, "")
	})
}

// That the condition cannot be written is no failure of the primary's.
func TestAPauseIsShownAsSoonAsItCan(t *testing.T) {
	inVirtualTime(t, idlePages(), pageOptions{Retry: retry.Policy{MaxAttempts: 1, Max: time.Hour}}, func(v *virtual) {
		v.create(newPage("default", "p"))
		v.pass(time.Minute)
		v.disturb(func(r apimodel.Request) apimodel.Fault {
			if r.Subresource != "status" {
				return apimodel.Fault{}
			}
			return apimodel.Fault{Answer: &metav1.Status{
				Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError, Message: "etcd is away",
			}}
		})
		v.mark("p", "true")
		v.pass(time.Hour)
		if c := v.op.Occupancy().Controllers[0]; c.Failing != 0 {
			t.Errorf("%q fail", c.FailingPrimaries)
		}
		v.disturb(nil)
		v.pass(2 * time.Minute)
		v.expectPaused("etcd is back", "p", metav1.ConditionTrue)
		if c := v.op.Occupancy().Controllers[0]; c.Keys != 0 {
			t.Errorf("%d primaries have state", c.Keys)
		}
	})
}

func TestG15AFunctionThatHangsPausesNoOtherController(t *testing.T) {
	var runs atomic.Int32
	one, two := idlePages(), idlePages()
	two.reconcile = func(context.Context, *Page, *pageContext) (pageUpdate, error) {
		runs.Add(1)
		return pageUpdate{}, nil
	}
	inVirtualTimeOf(t, framework.OperatorOptions{}, func(op *framework.Operator) error {
		err := framework.Register(op, one, pageOptions{Name: "one", Paused: func(p *Page) bool {
			if p.Name == "hang" {
				time.Sleep(20 * time.Second)
			}
			return false
		}})
		if err != nil {
			return err
		}
		return framework.Register(op, two, pageOptions{Name: "two", Finalizer: "x.dev/two"})
	}, func(v *virtual) {
		v.create(newPage("default", "hang"))
		v.create(newPage("default", "p"))
		v.pass(5 * time.Second)
		if n := runs.Load(); n != 2 {
			t.Errorf("the other controller had %d runs, want 2", n)
		}
		v.pass(10 * time.Minute)
	})
}

func TestEventsOfSecondariesRunNoPausedPrimary(t *testing.T) {
	for _, allEvents := range []bool{false, true} {
		r := idlePages()
		r.configMaps.Map = mapToPage("p")
		inVirtualTime(t, r, pageOptions{AllEvents: allEvents, Secondaries: framework.Secondaries(&r.configMaps)}, func(v *virtual) {
			p := pausedPage("p")
			v.create(p)
			v.pass(time.Minute)
			before := v.op.Occupancy().Controllers[0].Runs
			v.create(configMapOf(p, ""))
			v.pass(time.Hour)
			if after := v.op.Occupancy().Controllers[0].Runs; after != before {
				t.Errorf("AllEvents %v: %d runs of a paused primary", allEvents, after-before)
			}
		})
	}
}
