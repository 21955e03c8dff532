package framework_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/scheduler"
)

// keeper is a Cleaner that gives every page a ConfigMap with its content, and a status.
func keeper() *cleaningPages {
	r := &cleaningPages{}
	r.reconcile = func(ctx context.Context, p *Page, c *pageContext) (pageUpdate, error) {
		if _, err := framework.Apply(ctx, c, configMapOf(p, p.Spec.HTML), framework.OwnedByPrimary()); err != nil {
			return pageUpdate{}, err
		}
		p.Status.ObservedGeneration = p.Generation
		return framework.PatchStatus(p), nil
	}
	r.cleanup = func(context.Context, *Page, *pageContext) (framework.DeleteControl, error) {
		return framework.RemoveFinalizer(), nil
	}
	return r
}

// TestG05OneRunThreeRequestsThoughWatchesLagAMinute: own writes make no run, and what has been
// written is known however late the watches are.
func TestG05OneRunThreeRequestsThoughWatchesLagAMinute(t *testing.T) {
	r := keeper()
	inVirtualTime(t, r, withConfigMaps(&r.pages, pageOptions{MaxInterval: scheduler.NoMaxInterval}), func(v *virtual) {
		v.model.Lag("webpages", time.Minute)
		v.model.Lag("configmaps", time.Minute)
		expect := func(what string, page *Page, runs, writes int) {
			t.Helper()
			if n := len(records(v.op, page)); n != runs {
				t.Errorf("%s: %d runs of %s, want %d: %+v", what, n, page.Name, runs, records(v.op, page))
			}
			if sent := v.writes(); len(sent) != writes {
				t.Errorf("%s: %d writes, want %d: %q", what, len(sent), writes, sent)
			}
		}
		var all []*Page
		for i := range 5 {
			all = append(all, newPage("default", fmt.Sprintf("page-%d", i)))
			v.create(all[i])
			v.pass(10 * time.Minute)
			expect("created", all[i], 1, 3)
		}
		for _, page := range all {
			v.patch(page, `{"spec":{"html":"changed"}}`)
			v.pass(10 * time.Minute)
			expect("changed", page, 2, 2)
		}
		v.pass(24 * time.Hour)
		for _, page := range all {
			expect("at rest", page, 2, 0)
		}
		v.atRest()
		if err := v.admin.Delete(t.Context(), all[0]); err != nil {
			t.Fatal(err)
		}
		v.pass(10 * time.Minute)
		expect("deleted", all[0], 3, 1)
	})
}

// TestAConflictStormIsMetWithBoundedRequests: somebody changes the page before each write of it
// arrives, so that none ever can succeed.
func TestAConflictStormIsMetWithBoundedRequests(t *testing.T) {
	r := keeper()
	inVirtualTime(t, r, withConfigMaps(&r.pages, pageOptions{}), func(v *virtual) {
		page := newPage("default", "p")
		changes := 0
		v.disturb(func(r apimodel.Request) apimodel.Fault {
			if r.Verb == "patch" && r.Resource == "webpages" {
				changes++
				v.patch(newPage("default", "p"), fmt.Sprintf(`{"metadata":{"annotations":{"change":"%d"}}}`, changes))
			}
			return apimodel.Fault{Linger: 5 * time.Millisecond}
		})
		v.create(page)
		const storm = time.Minute
		v.pass(storm)
		// Runs come at most once a second, and each tries the finalizer five times.
		if sent := len(v.writes()); sent > 5*(int(storm/time.Second)+10) || sent < 100 {
			t.Errorf("%d writes in %v", sent, storm)
		}
		v.disturb(nil)
		v.pass(time.Minute)
		if now := v.page("p"); len(now.Finalizers) != 1 || now.Status.ObservedGeneration != now.Generation || now.Annotations["change"] != fmt.Sprint(changes) {
			t.Errorf("after the storm: %+v", now)
		}
		v.atRest()
	})
}

// TestAForeignWriterThatNeverStopsDoesNotKeepPagesFromConverging: it changes the page ten times a
// second.
func TestAForeignWriterThatNeverStopsDoesNotKeepPagesFromConverging(t *testing.T) {
	r := keeper()
	inVirtualTime(t, r, withConfigMaps(&r.pages, pageOptions{}), func(v *virtual) {
		v.disturb(func(apimodel.Request) apimodel.Fault {
			return apimodel.Fault{Delay: 20 * time.Millisecond, Linger: 20 * time.Millisecond}
		})
		page := newPage("default", "p")
		v.create(page)
		for i := range 600 {
			v.patch(page, fmt.Sprintf(`{"metadata":{"annotations":{"change":"%d"}}}`, i))
			v.pass(100 * time.Millisecond)
		}
		if now := v.page("p"); len(now.Finalizers) != 1 || now.Status.ObservedGeneration != now.Generation {
			t.Errorf("after a minute: %+v", now)
		}
		if sent := v.writes(); len(sent) > 20 {
			t.Errorf("%d writes for 3: %q", len(sent), sent)
		}
		v.atRest()
	})
}

// TestG05AForeignChangeAndTheAnswerAfterItMakeOneRun, also if whoever tells of the change is slow:
// the run's answer then waits behind it.
func TestG05AForeignChangeAndTheAnswerAfterItMakeOneRun(t *testing.T) {
	d := newDiary()
	var v *virtual
	d.configMaps.Filter = func(_, _ *corev1.ConfigMap) bool { time.Sleep(10 * time.Millisecond); return true }
	runs := 0
	d.after = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
		if runs++; runs > 1 {
			return pageUpdate{}, nil
		}
		if _, err := framework.Apply(ctx, c, configMapOf(page, "one"), framework.OwnedByPrimary()); err != nil {
			return pageUpdate{}, err
		}
		v.patch(configMapOf(page, ""), `{"data":{"theirs":"!"}}`)
		time.Sleep(time.Millisecond) // the watch brings it, and is at telling of it when the second answer comes
		_, err := framework.Apply(ctx, c, configMapOf(page, "two"), framework.OwnedByPrimary(), framework.Unconditional())
		return pageUpdate{}, err
	}
	inVirtualTime(t, d, pageOptions{Secondaries: framework.Secondaries(&d.configMaps)}, func(started *virtual) {
		v = started
		v.createPage("p", "a")
		v.pass(time.Minute)
		if runs != 2 {
			t.Errorf("%d runs", runs)
		}
	})
}
