package framework_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/conditions"
	"github.com/evenkeel/evenkeel/retry"
	"github.com/evenkeel/evenkeel/trc"
)

// mark sets the annotation of a pause, nil to remove it.
func (v *virtual) mark(name, value string) {
	v.t.Helper()
	if value != "null" {
		value = fmt.Sprintf("%q", value)
	}
	v.patch(newPage("default", name), fmt.Sprintf(`{"metadata":{"annotations":{"evenkeel.dev/paused":%s}}}`, value))
	v.pass(time.Minute)
}

// pausedOf returns the status of the condition, empty if there is none.
func (v *virtual) pausedOf(name string) metav1.ConditionStatus {
	v.t.Helper()
	if c := meta.FindStatusCondition(v.page(name).Status.Conditions, conditions.Paused); c != nil {
		return c.Status
	}
	return ""
}

func TestAPauseHoldsEverythingUntilItEnds(t *testing.T) {
	r := keeper()
	inVirtualTime(t, r, withConfigMaps(&r.pages, pageOptions{}), func(v *virtual) {
		page := newPage("default", "p")
		page.Spec.HTML = "one"
		v.create(page)
		v.pass(time.Minute)
		runs := len(records(v.op, page))
		v.writes()
		expect := func(what string, more int, paused metav1.ConditionStatus, writes ...string) {
			t.Helper()
			if got := len(records(v.op, page)); got != runs+more {
				t.Errorf("%s: %d runs more, want %d: %q", what, got-runs, more, v.causesOf(page, runs))
			}
			runs = len(records(v.op, page))
			if got := v.pausedOf("p"); got != paused {
				t.Errorf("%s: the condition is %q, want %q", what, got, paused)
			}
			if got := strings.Join(v.writes(), ", "); got != strings.Join(writes, ", ") {
				t.Errorf("%s: writes %s", what, got)
			}
		}
		v.mark("p", "true")
		expect("paused", 1, metav1.ConditionTrue, "patch webpages/status p") // its run shows that
		if n := v.op.Occupancy().Controllers[0].PausedPrimaries; n != 1 {
			t.Errorf("%d primaries are paused", n)
		}
		v.patch(newPage("default", "p"), `{"spec":{"html":"two"}}`)
		noError(t, v.admin.Delete(t.Context(), configMapOf(page, "")))
		v.pass(24 * time.Hour)
		expect("changed while paused", 0, metav1.ConditionTrue)
		expectError(t, v.op.Trigger("webpage", trc.KeyOf(page), "me"), "the WebPage is paused")
		v.mark("p", "null")
		expect("resumed", 1, "", "patch webpages/status p", "apply configmaps p", "patch webpages/status p")
		if got := v.page("p").Status.ObservedGeneration; got != 2 {
			t.Errorf("generation %d was observed", got)
		}
		v.mark("p", "true")
		v.delete("p")
		v.pass(24 * time.Hour)
		if p := v.page("p"); len(p.Finalizers) != 1 {
			t.Errorf("it was cleaned up while it was paused: its finalizers are %v", p.Finalizers)
		}
		v.mark("p", "except-deletion")
		if n := v.op.Occupancy().Controllers[0].PausedPrimaries; n != 0 || len(v.model.Objects("webpages")) != 0 {
			t.Errorf("%d primaries are paused, %d exist", n, len(v.model.Objects("webpages")))
		}
	})
}

func TestAPauseDropsRetries(t *testing.T) {
	runs := 0
	r := &pages{reconcile: func(context.Context, *Page, *pageContext) (pageUpdate, error) {
		runs++
		return pageUpdate{}, errors.New("no")
	}}
	inVirtualTime(t, r, pageOptions{Retry: retry.Policy{MaxAttempts: 1, Max: time.Hour}}, func(v *virtual) {
		v.create(newPage("default", "p"))
		v.pass(time.Minute)
		v.mark("p", "true")
		if got := v.pausedOf("p"); got != metav1.ConditionTrue {
			t.Errorf("no retry is left, and the condition is %q", got)
		}
		before := runs
		v.pass(24 * time.Hour)
		if c := v.op.Occupancy().Controllers[0]; runs != before || c.Keys != 0 || c.Failing != 0 {
			t.Errorf("%d runs while paused; %+v", runs-before, c)
		}
		v.mark("p", "off")
		if runs == before {
			t.Error("no run after the pause")
		}
	})
}

// A run in flight ends as usual. That its status is refused, as the primary has changed meanwhile,
// makes no other run, nor does the time that it asked for.
func TestAPauseDuringARun(t *testing.T) {
	begun := 0
	r := &pages{reconcile: func(ctx context.Context, p *Page, _ *pageContext) (pageUpdate, error) {
		begun++
		time.Sleep(10 * time.Minute)
		p.Status.ObservedGeneration = p.Generation
		return framework.PatchStatus(p).RescheduleAfter(time.Minute), nil
	}}
	inVirtualTime(t, r, pageOptions{RunTimeout: time.Hour}, func(v *virtual) {
		v.create(newPage("default", "p"))
		v.pass(5 * time.Minute)
		v.mark("p", "true")
		v.pass(24 * time.Hour)
		if begun != 1 || v.pausedOf("p") != metav1.ConditionTrue {
			t.Errorf("%d runs began; status %+v", begun, v.page("p").Status)
		}
	})
}

func TestAuthorsDecideWhatIsPaused(t *testing.T) {
	var mu sync.Mutex // guards all
	all := map[string]int{}
	r := &pages{reconcile: func(_ context.Context, p *Page, _ *pageContext) (pageUpdate, error) {
		mu.Lock()
		defer mu.Unlock()
		all[p.Name]++
		return pageUpdate{}, nil
	}}
	now := func() map[string]int {
		mu.Lock()
		defer mu.Unlock()
		return maps.Clone(all)
	}
	options := pageOptions{Paused: func(p *Page) bool {
		if p.Name == "panics" {
			panic("no")
		}
		return p.Labels["hold"] == "yes"
	}}
	inVirtualTime(t, r, options, func(v *virtual) {
		for _, name := range []string{"held", "panics", "marked"} {
			p := newPage("default", name)
			p.Labels = map[string]string{"hold": map[string]string{"held": "yes"}[name]}
			v.create(p)
		}
		v.pass(time.Minute)
		v.mark("marked", "true")
		if runs := now(); runs["held"] != 0 || runs["panics"] != 1 || runs["marked"] != 1 {
			t.Errorf("runs: %v", runs)
		}
		v.patch(newPage("default", "held"), `{"metadata":{"labels":{"hold":null}}}`)
		v.pass(time.Minute)
		if runs := now(); runs["held"] != 1 {
			t.Errorf("runs after the pause: %v", runs)
		}
	})
}

// A condition of the author's with the same name is the author's.
func TestAPauseLeavesAuthorsConditions(t *testing.T) {
	runs := 0
	r := &pages{reconcile: func(_ context.Context, p *Page, _ *pageContext) (pageUpdate, error) {
		if runs++; runs > 1 {
			return pageUpdate{}, nil
		}
		meta.SetStatusCondition(&p.Status.Conditions, metav1.Condition{Type: conditions.Paused, Status: metav1.ConditionFalse, Reason: "Mine"})
		return framework.PatchStatus(p), nil
	}}
	inVirtualTime(t, r, pageOptions{}, func(v *virtual) {
		v.create(newPage("default", "p"))
		v.pass(time.Minute)
		v.mark("p", "true")
		v.mark("p", "null")
		if got := v.pausedOf("p"); got != metav1.ConditionFalse {
			t.Errorf("the condition is %q", got)
		}
	})
}

func TestPausedPrimariesThatAreGoneAreForgotten(t *testing.T) {
	inVirtualTime(t, idlePages(), pageOptions{}, func(v *virtual) {
		v.create(pausedPage("p"))
		v.pass(time.Minute)
		before := v.op.Occupancy().Controllers[0].PausedPrimaries
		v.delete("p")
		v.pass(time.Minute)
		if after := v.op.Occupancy().Controllers[0].PausedPrimaries; before != 1 || after != 0 {
			t.Errorf("%d primaries are paused, and %d after the deletion", before, after)
		}
	})
}
