package framework_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/retry"
	"github.com/evenkeel/evenkeel/scheduler"
)

// neverForA is a diary of which the last run of page "a" always fails so.
func neverForA(failure error) *diary {
	d := newDiary()
	d.after = func(_ context.Context, page *Page, c *pageContext) (pageUpdate, error) {
		if c.Gone() && page.Spec.HTML == "a" {
			return pageUpdate{}, failure
		}
		return pageUpdate{}, nil
	}
	return d
}

// Whoever comes after the retries of the one before are exhausted has nothing to wait for.
func TestG07APrimaryThatComesAfterADeleteRunHasFailedForGoodIsRun(t *testing.T) {
	never := errors.New("never")
	elapsed := retry.Policy{Initial: time.Second, Factor: 1, MaxElapsed: 3500 * time.Millisecond, Jitter: retry.NoJitter}
	for name, history := range map[string]struct {
		failure error
		policy  retry.Policy
	}{
		"attempts": {never, everySecond},
		"time":     {never, elapsed},
		"final":    {retry.Final(never), everySecond},
		"none":     {never, retry.Never()},
	} {
		for _, early := range []bool{true, false} {
			t.Run(name+map[bool]string{true: " while they go on"}[early], func(t *testing.T) {
				d := neverForA(history.failure)
				inVirtualTime(t, d, pageOptions{AllEvents: true, Retry: history.policy, MaxInterval: scheduler.NoMaxInterval}, func(v *virtual) {
					v.createPage("p", "a")
					v.pass(time.Minute)
					v.delete("p")
					if !early {
						v.pass(time.Minute)
					}
					v.createPage("p", "b")
					v.pass(time.Minute)
					seen := d.since()
					if last := seen[len(seen)-1]; last != "b" {
						t.Errorf("seen %q, and not the page that there is", seen)
					}
					v.delete("p")
					v.pass(time.Minute)
					d.expect(t, "b gone")
					v.drained()
				})
			})
		}
	}
}

// TestG04WhatHappensToASuccessorIsNotTakenForTheLastRun: the addition of the next incarnation does
// not trigger, a change of it does, while the last run of the one before is still to succeed.
func TestG04WhatHappensToASuccessorIsNotTakenForTheLastRun(t *testing.T) {
	for what, happens := range map[string]func(*virtual){
		"an update":               func(v *virtual) { v.patch(newPage("default", "p"), `{"spec":{"html":"c"}}`) },
		"a change of a secondary": func(v *virtual) { v.create(configMapOf(newPage("default", "x"), "one")) },
	} {
		t.Run(what, func(t *testing.T) {
			d := newDiary()
			d.broken.Store(true)
			d.configMaps.Map = mapToPage("p")
			options := pageOptions{
				AllEvents: true, Retry: retry.Policy{Initial: time.Hour, Jitter: retry.NoJitter},
				AddFilter:   func(added *Page) bool { return added.Spec.HTML == "a" },
				Secondaries: framework.Secondaries(&d.configMaps),
			}
			inVirtualTime(t, d, options, func(v *virtual) {
				v.createPage("p", "a")
				v.pass(time.Minute)
				v.delete("p")
				v.pass(time.Minute)
				v.createPage("p", "b")
				v.pass(time.Minute)
				d.expect(t, "a", "a gone")
				d.broken.Store(false)
				happens(v)
				v.pass(2 * time.Hour)
				seen := d.since()
				if last := seen[len(seen)-1]; last != "b" && last != "c" {
					t.Errorf("seen %q: the page was never run", seen)
				}
			})
		})
	}
}

func TestO11ADeleteRunKnowsWhatBecameOfTheWritesBefore(t *testing.T) {
	d := newDiary()
	var shown []string
	d.after = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
		if !c.Gone() {
			_, err := framework.Create(ctx, c, configMapOf(page, "x"))
			return pageUpdate{}, err
		}
		m, err := d.configMaps.GetNamed(c, page.Namespace, page.Name)
		shown = append(shown, fmt.Sprint(m != nil))
		return pageUpdate{}, err
	}
	d.configMaps.Map = mapToPage("p")
	options := pageOptions{AllEvents: true, Retry: everySecond, RunTimeout: 10 * time.Second, Secondaries: framework.Secondaries(&d.configMaps)}
	inVirtualTime(t, d, options, func(v *virtual) {
		v.model.Lag("configmaps", time.Hour)
		var cut atomic.Bool
		cut.Store(true)
		v.disturb(func(r apimodel.Request) apimodel.Fault {
			return apimodel.Fault{Lose: cut.Load() && r.Resource == "configmaps" && r.Verb == "create", Drop: cut.Load() && r.Resource == "configmaps" && r.Verb == "get"}
		})
		v.createPage("p", "a")
		v.pass(5 * time.Second)
		v.delete("p")
		v.pass(5 * time.Second)
		cut.Store(false)
		v.pass(time.Minute)
		if !slices.Equal(shown, []string{"true"}) {
			t.Errorf("shown: %q, want the config map that was created by the run before", shown)
		}
		v.drained()
	})
}

// mapToPage maps everything to one page of the default namespace.
func mapToPage(name string) func(*corev1.ConfigMap) []types.NamespacedName {
	return func(*corev1.ConfigMap) []types.NamespacedName {
		return []types.NamespacedName{{Namespace: "default", Name: name}}
	}
}
