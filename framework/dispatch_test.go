package framework_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/retry"
	"github.com/evenkeel/evenkeel/scheduler"
)

// TestC59C105WithoutACleanerFinalizersAreNobodysBusiness: none is put on, and none is missed.
func TestC59C105WithoutACleanerFinalizersAreNobodysBusiness(t *testing.T) {
	d := newDiary()
	inVirtualTime(t, d, pageOptions{}, func(v *virtual) {
		v.createPage("p", "a")
		v.pass(time.Second)
		if got := v.page("p").Finalizers; len(got) > 0 {
			t.Errorf("finalizers %q", got)
		}
		v.patch(newPage("default", "p"), `{"metadata":{"finalizers":["`+finalizer+`"]}}`)
		v.patch(newPage("default", "p"), `{"metadata":{"finalizers":null}}`)
		v.pass(time.Minute)
		d.expect(t, "a")
		v.atRest()
	})
}

// TestC59WhatPutsTheFinalizerOnIsNoReasonForARun: the original needs the run that follows, ours
// goes on in the same.
func TestC59WhatPutsTheFinalizerOnIsNoReasonForARun(t *testing.T) {
	d := newCleaningDiary()
	inVirtualTime(t, d, pageOptions{AllGenerations: true}, func(v *virtual) {
		v.createPage("p", "a")
		v.pass(time.Minute)
		d.expect(t, "a")
		v.patch(newPage("default", "p"), `{"metadata":{"finalizers":null}}`)
		v.pass(time.Minute)
		d.expect(t, "a")
		if got := v.page("p").Finalizers; !slices.Equal(got, []string{finalizer}) {
			t.Errorf("finalizers %q", got)
		}
	})
}

// TestC65C73C93EventsOfPrimariesThatDoNotExistRunNothing, be it that they never did or do not any
// more.
func TestC65C73C93EventsOfPrimariesThatDoNotExistRunNothing(t *testing.T) {
	d := newDiary()
	d.configMaps.Map = mapToPage("p")
	inVirtualTime(t, d, pageOptions{Secondaries: framework.Secondaries(&d.configMaps)}, func(v *virtual) {
		v.create(configMapOf(newPage("default", "early"), "x"))
		v.pass(time.Minute)
		d.expect(t)
		v.drained()
		v.createPage("p", "a")
		v.pass(time.Minute)
		d.expect(t, "a")
		v.delete("p")
		v.pass(time.Second)
		v.create(configMapOf(newPage("default", "late"), "x"))
		v.pass(time.Minute)
		d.expect(t)
		v.drained()
		v.createPage("p", "b")
		v.pass(time.Minute)
		d.expect(t, "b")
	})
}

// TestC77TheRateLimitHoldsBackRunsOfWhatIsGoneToo, which see the last state all the same.
func TestC77TheRateLimitHoldsBackRunsOfWhatIsGoneToo(t *testing.T) {
	d := newDiary()
	options := pageOptions{AllEvents: true, RateLimit: scheduler.RateLimit{Runs: 2, Period: time.Minute}}
	inVirtualTime(t, d, options, func(v *virtual) {
		v.createPage("p", "0")
		for i := range 5 {
			v.pass(time.Second)
			v.patch(newPage("default", "p"), fmt.Sprintf(`{"spec":{"html":"%d"}}`, i+1))
		}
		v.pass(time.Second)
		d.expect(t, "0", "1")
		v.pass(time.Minute)
		d.expect(t, "5")
		v.patch(newPage("default", "p"), `{"spec":{"html":"6"}}`)
		v.pass(time.Second)
		d.expect(t, "6")
		v.delete("p")
		v.pass(40 * time.Second)
		d.expect(t)
		v.pass(time.Minute)
		d.expect(t, "6 gone")
		v.drained()
	})
}

func TestC81AFurtherEventBringsTheRetryOfADeleteRunForward(t *testing.T) {
	d := newDiary()
	d.broken.Store(true)
	d.configMaps.Map = mapToPage("p")
	options := pageOptions{
		AllEvents: true, Retry: retry.Policy{Initial: time.Minute, Jitter: retry.NoJitter}, Secondaries: framework.Secondaries(&d.configMaps),
	}
	inVirtualTime(t, d, options, func(v *virtual) {
		v.createPage("p", "a")
		v.pass(time.Second)
		v.delete("p")
		v.pass(time.Second)
		d.expect(t, "a", "a gone")
		v.create(configMapOf(newPage("default", "x"), "one"))
		v.pass(time.Second)
		d.expect(t, "a gone")
		d.broken.Store(false)
		v.pass(time.Minute)
		d.expect(t, "a gone")
		v.drained()
	})
}

// TestC91WhatARunAsksForInTimeComesExactlyThen, whichever way it ended.
func TestC91WhatARunAsksForInTimeComesExactlyThen(t *testing.T) {
	failing := &failingPages{}
	failing.reconcile = func(context.Context, *Page, *pageContext) (pageUpdate, error) {
		return pageUpdate{}, errors.New("no luck")
	}
	failing.errorStatus = func(*Page, *pageContext, error) framework.ErrorStatusControl[*Page] {
		return framework.ErrorStatusControl[*Page]{}.RescheduleAfter(time.Minute)
	}
	updating := newDiary()
	updating.after = func(_ context.Context, page *Page, _ *pageContext) (pageUpdate, error) {
		page.Status.URL = "http://here"
		return framework.PatchStatus(page).RescheduleAfter(time.Minute), nil
	}
	keeping := newCleaningDiary()
	keeping.control = func(context.Context, *Page, *pageContext) (framework.DeleteControl, error) {
		return framework.KeepFinalizerFor(time.Minute), nil
	}
	for name, r := range map[string]framework.Reconciler[*Page]{"failed": failing, "wrote": updating, "keeps": keeping} {
		inVirtualTime(t, r, pageOptions{}, func(v *virtual) {
			v.createPage("p", "a")
			v.pass(time.Second)
			if name == "keeps" {
				v.delete("p")
				v.pass(time.Second)
			}
			began := v.op.Records("webpage")[len(v.op.Records("webpage"))-1].Started
			v.pass(150 * time.Second)
			var after []string
			for _, r := range v.op.Records("webpage") {
				if d := r.Started.Sub(began); d > 0 {
					after = append(after, fmt.Sprint(d, " ", r.Causes, " ", r.Attempt))
				}
			}
			want := []string{"1m0s [rescheduled after 1m0s] 0", "2m0s [rescheduled after 1m0s] 0"}
			if !slices.Equal(after, want) {
				t.Errorf("%s: further runs %q, want %q", name, after, want)
			}
		})
	}
}

func TestC92AHandledFailureWithAStatusIsASuccess(t *testing.T) {
	r, runs := &failingPages{}, 0
	r.reconcile = func(context.Context, *Page, *pageContext) (pageUpdate, error) {
		runs++
		return pageUpdate{}, errors.New("no luck")
	}
	r.errorStatus = func(page *Page, c *pageContext, failure error) framework.ErrorStatusControl[*Page] {
		page.Status.URL = fmt.Sprint(failure, " ", c.Retry().Attempt)
		if runs == 1 {
			return framework.PatchErrorStatus(page)
		}
		return framework.PatchErrorStatus(page).WithoutRetry()
	}
	inVirtualTime(t, r, pageOptions{Retry: everySecond}, func(v *virtual) {
		v.createPage("p", "a")
		v.pass(500 * time.Millisecond)
		if got := v.page("p").Status.URL; got != "no luck 0" {
			t.Errorf("the status is %q", got)
		}
		v.pass(time.Hour)
		if got := v.page("p").Status.URL; got != "no luck 1" || runs != 2 {
			t.Errorf("the status is %q after %d runs", got, runs)
		}
		if r := v.op.Records("webpage")[1]; r.Err != "" {
			t.Errorf("the record says %q", r.Err)
		}
		if told := v.events(); len(told) != 0 {
			t.Errorf("told: %v", told)
		}
	})
}

// TestTheNextRunIsImminentOnlyIfItComes: the echo of an own write may be there before its answer.
func TestTheNextRunIsImminentOnlyIfItComes(t *testing.T) {
	d := newDiary()
	var said []bool
	var v *virtual
	d.after = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
		if len(said) > 0 {
			return pageUpdate{}, nil
		}
		if _, err := framework.Create(ctx, c, configMapOf(page, "x"), framework.OwnedByPrimary()); err != nil {
			return pageUpdate{}, err
		}
		said = append(said, c.NextRunImminent())
		v.patch(configMapOf(page, ""), `{"data":{"data":"changed"}}`)
		v.pass(time.Second)
		said = append(said, c.NextRunImminent())
		return pageUpdate{}, nil
	}
	inVirtualTime(t, d, pageOptions{Secondaries: framework.Secondaries(&d.configMaps)}, func(now *virtual) {
		v = now
		v.disturb(func(r apimodel.Request) apimodel.Fault {
			if r.Resource == "configmaps" && r.Verb == "create" {
				return apimodel.Fault{Linger: time.Second}
			}
			return apimodel.Fault{}
		})
		v.createPage("p", "a")
		v.pass(time.Minute)
		if !slices.Equal(said, []bool{false, true}) {
			t.Errorf("said %v", said)
		}
		d.expect(t, "a", "a")
	})
}

// TestWhatNoLongerMatchesTheSelectorHasNoRuns, until it matches again.
func TestWhatNoLongerMatchesTheSelectorHasNoRuns(t *testing.T) {
	d := newDiary()
	d.after = func(context.Context, *Page, *pageContext) (pageUpdate, error) {
		return pageUpdate{}, errors.New("again")
	}
	options := pageOptions{LabelSelector: "on", FieldSelector: "metadata.name!=q", Retry: retry.Policy{Initial: time.Second, Factor: 1, Jitter: retry.NoJitter}}
	inVirtualTime(t, d, options, func(v *virtual) {
		for _, name := range []string{"p", "q"} {
			v.createPage(name, name)
			v.patch(newPage("default", name), `{"metadata":{"labels":{"on":""}}}`)
		}
		v.pass(1500 * time.Millisecond)
		d.expect(t, "p", "p")
		v.patch(newPage("default", "p"), `{"metadata":{"labels":{"on":null}}}`)
		v.pass(time.Hour)
		d.expect(t)
		v.drained()
		v.patch(newPage("default", "p"), `{"metadata":{"labels":{"on":""}}}`)
		v.pass(500 * time.Millisecond)
		d.expect(t, "p")
	})
}

func TestTheConcurrencyOfAControllerIsInForce(t *testing.T) {
	d := newDiary()
	d.after = func(context.Context, *Page, *pageContext) (pageUpdate, error) {
		time.Sleep(time.Minute)
		return pageUpdate{}, nil
	}
	inVirtualTime(t, d, pageOptions{Concurrency: 3}, func(v *virtual) {
		for i := range 7 {
			v.createPage(fmt.Sprint("p", i), "a")
		}
		for _, want := range []int{3, 3, 1} {
			v.pass(30 * time.Second)
			if seen := d.since(); len(seen) != want {
				t.Errorf("%d runs began, want %d", len(seen), want)
			}
			v.pass(30 * time.Second)
		}
	})
}

// TestManySourcesEachMakeTheirPrimaryDue, and their own secondaries are told apart.
func TestManySourcesEachMakeTheirPrimaryDue(t *testing.T) {
	d := newDiary()
	d.configMaps.LabelSelector, d.configMaps.Map = "!other", mapToPage("p")
	others := framework.Secondary[*corev1.ConfigMap]{Name: "others", LabelSelector: "other", Map: mapToPage("p")}
	var found []string
	d.after = func(_ context.Context, _ *Page, c *pageContext) (pageUpdate, error) {
		one, err := d.configMaps.List(c)
		two, failed := others.List(c)
		var causes []string
		for _, cause := range c.Causes() {
			causes = append(causes, cause.String())
		}
		found = append(found, fmt.Sprint(len(one), len(two), " ", strings.Join(causes, ", ")))
		return pageUpdate{}, errors.Join(err, failed)
	}
	options := pageOptions{Secondaries: framework.Secondaries(&d.configMaps, &others)}
	inVirtualTime(t, d, options, func(v *virtual) {
		v.createPage("p", "a")
		v.pass(time.Second)
		v.create(configMapOf(newPage("default", "one"), "x"))
		v.pass(time.Second)
		m := configMapOf(newPage("default", "two"), "x")
		m.Labels = map[string]string{"other": ""}
		v.create(m)
		v.pass(time.Second)
		for i, want := range []string{"0 0 ", "1 0 ", "1 1 "} {
			if i >= len(found) || !strings.HasPrefix(found[i], want) {
				t.Fatalf("found %q", found)
			}
		}
		if len(found) != 3 || !strings.Contains(found[1], "one") || !strings.Contains(found[2], "two") {
			t.Errorf("found %q", found)
		}
	})
}
