package framework_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/retry"
	"github.com/evenkeel/evenkeel/timeline"
)

// adding is a reconciler that adds its ConfigMaps in every run that wants them, and reads them.
type adding struct {
	pages
	mu   sync.Mutex // guards below
	saw  []string   // what each run read: the number of ConfigMaps, or what kept it from that
	then func(ctx context.Context, page *Page, c *pageContext) error
}

func newAdding() *adding {
	a := &adding{}
	a.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
		if page.Spec.HTML == "without" {
			return pageUpdate{}, c.RemoveSource("configmap")
		}
		if err := c.AddSecondary(&a.configMaps); err != nil {
			return pageUpdate{}, err
		}
		found, err := a.configMaps.List(c)
		a.mu.Lock()
		defer a.mu.Unlock()
		if err != nil {
			a.saw = append(a.saw, "nothing yet")
			return pageUpdate{}, err
		}
		a.saw = append(a.saw, fmt.Sprint(len(found)))
		if a.then != nil {
			return pageUpdate{}, a.then(ctx, page, c)
		}
		return pageUpdate{}, nil
	}
	return a
}

func (a *adding) expect(t *testing.T, want ...string) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if got := strings.Join(a.saw, ", "); got != strings.Join(want, ", ") {
		t.Errorf("runs saw %q, want %q", got, want)
	}
	a.saw = nil
}

// holdsNothing checks that all that is left is what there was in the beginning.
func (v *virtual) holdsNothing(caches, goroutines int) {
	v.t.Helper()
	now := v.op.Occupancy()
	if now.DynamicSources != 0 || len(now.Caches) != caches || now.DecodedAnswers != 0 {
		v.t.Errorf("%d sources are there, %d caches, want %d, and %d echoes are expected", now.DynamicSources, len(now.Caches), caches, now.DecodedAnswers)
	}
	if n := bubbled(); n > goroutines {
		stacks := make([]byte, 1<<20)
		v.t.Errorf("%d goroutines, there were %d:\n%s", n, goroutines, stacks[:runtime.Stack(stacks, true)])
	}
}

// bubbled is the number of goroutines in the bubble of this one: others come and go as they like.
func bubbled() int {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	header, _, _ := strings.Cut(string(stacks), "\n") // of this one, as in "goroutine 7 [running, synctest bubble 3]:"
	_, bubble, _ := strings.Cut(header, "synctest bubble ")
	return strings.Count(string(stacks), "synctest bubble "+bubble)
}

func TestC98SecondariesThatARunAddsTriggerAndLeaveNothingBehind(t *testing.T) {
	a := newAdding()
	inVirtualTime(t, a, pageOptions{}, func(v *virtual) {
		v.model.Intercept(func(r apimodel.Request) apimodel.Fault { // or it might be filled during the first run
			if r.Resource == "configmaps" && (r.Verb == "list" || r.Verb == "watch") {
				return apimodel.Fault{Delay: time.Second}
			}
			return apimodel.Fault{}
		})
		v.createPage("q", "without")
		v.pass(time.Minute)
		goroutines := bubbled()
		v.createPage("p", "a")
		v.pass(time.Minute)
		a.expect(t, "nothing yet", "0")
		for _, record := range v.op.Records("webpage") {
			if record.Outcome != timeline.Succeeded || record.Attempt != 0 {
				t.Errorf("a run that had to wait: %v, attempt %d", record.Outcome, record.Attempt)
			}
		}
		a.then = func(ctx context.Context, page *Page, c *pageContext) error { // a write of its own
			_, err := framework.Apply(ctx, c, configMapOf(page, page.Spec.HTML), framework.OwnedByPrimary())
			return err
		}
		v.patch(newPage("default", "p"), `{"spec":{"html":"b"}}`)
		v.pass(time.Minute)
		a.expect(t, "0")
		a.then = nil
		v.patch(configMapOf(newPage("default", "p"), ""), `{"data":{"other":"x"}}`)
		v.pass(time.Minute)
		a.expect(t, "1")
		noError(t, v.op.Ready())
		if now := v.op.Occupancy(); now.DynamicSources != 1 || len(now.Caches) != 2 {
			t.Errorf("%d sources were added, %d caches", now.DynamicSources, len(now.Caches))
		}
		v.patch(newPage("default", "p"), `{"spec":{"html":"without"}}`)
		v.pass(time.Minute)
		v.patch(configMapOf(newPage("default", "p"), ""), `{"data":{"other":"y"}}`)
		v.pass(time.Minute)
		a.expect(t)
		v.holdsNothing(1, goroutines)
		v.patch(newPage("default", "p"), `{"spec":{"html":"c"}}`) // and again
		v.pass(time.Minute)
		a.expect(t, "nothing yet", "1")
	})
}

func TestC98WhatSeveralPrimariesHoldGoesWithTheLastOfThem(t *testing.T) {
	for _, allEvents := range []bool{false, true} {
		a := newAdding()
		inVirtualTime(t, a, pageOptions{AllEvents: allEvents}, func(v *virtual) {
			v.createPage("z", "without")
			v.pass(time.Minute)
			goroutines := bubbled()
			for _, name := range []string{"p", "q", "r"} {
				v.createPage(name, "a")
			}
			v.pass(time.Minute)
			v.delete("p")
			v.patch(newPage("default", "q"), `{"spec":{"html":"without"}}`)
			v.pass(time.Minute)
			if now := v.op.Occupancy(); now.DynamicSources != 1 {
				t.Errorf("%d sources, and one primary holds its own", now.DynamicSources)
			}
			noError(t, v.op.SetNamespaces([]string{"elsewhere"}))
			v.pass(time.Minute)
			v.holdsNothing(1, goroutines)
		})
	}
}

func TestC98AKindThatIsNotServedYetIsAwaitedByWhatWasAdded(t *testing.T) {
	a := newAdding()
	inVirtualTime(t, a, pageOptions{}, func(v *virtual) {
		v.disturb(func(r apimodel.Request) apimodel.Fault {
			if r.Verb == "discovery" {
				return apimodel.Fault{Answer: &apierrors.NewNotFound(schema.GroupResource{}, "").ErrStatus}
			}
			return apimodel.Fault{}
		})
		v.createPage("p", "a")
		v.pass(time.Hour)
		a.expect(t, "nothing yet")
		expectError(t, v.op.Ready(), `"webpage"`, `"configmap"`, "CustomResourceDefinition")
		v.disturb(nil)
		v.pass(time.Minute)
		a.expect(t, "0")
		noError(t, v.op.Ready())
	})
}

// TestG18WhatIsAddedAndMayNotBeReadIsNamed: the runs wait, and say for what.
func TestG18WhatIsAddedAndMayNotBeReadIsNamed(t *testing.T) {
	a := newAdding()
	inVirtualTime(t, a, pageOptions{}, func(v *virtual) {
		v.disturb(func(r apimodel.Request) apimodel.Fault {
			if r.Resource == "configmaps" {
				return apimodel.Fault{Answer: &apierrors.NewForbidden(schema.GroupResource{Resource: r.Resource}, "", nil).ErrStatus}
			}
			return apimodel.Fault{}
		})
		v.createPage("p", "a")
		v.pass(time.Hour)
		v.patch(newPage("default", "p"), `{"spec":{"html":"b"}}`)
		v.pass(time.Minute)
		a.expect(t, "nothing yet", "nothing yet")
		expectError(t, v.op.Ready(), `"configmap"`, "forbidden")
		v.disturb(nil)
		v.pass(time.Minute)
		a.expect(t, "0")
	})
}

// TestC98WhatIsAddedFromOutsideGoesFromOutside: a run that reads it without having added it is told
// that it is not there.
func TestC98WhatIsAddedFromOutsideGoesFromOutside(t *testing.T) {
	var mu sync.Mutex
	var saw []string
	r := &pages{}
	r.reconcile = func(_ context.Context, _ *Page, c *pageContext) (pageUpdate, error) {
		_, err := r.configMaps.List(c)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err == nil:
			saw = append(saw, "read")
		case errors.Is(err, framework.ErrNotSynced):
			saw = append(saw, "waits")
		default:
			saw = append(saw, err.Error())
		}
		return pageUpdate{}, err
	}
	inVirtualTime(t, r, pageOptions{Retry: retry.Policy{MaxAttempts: 1}}, func(v *virtual) {
		v.pass(time.Minute)
		goroutines := bubbled()
		v.disturb(func(q apimodel.Request) apimodel.Fault { return apimodel.Fault{Drop: q.Resource == "configmaps"} })
		noError(t, v.op.AddSecondary("webpage", &r.configMaps))
		v.createPage("p", "a")
		v.pass(time.Minute)
		noError(t, v.op.RemoveSource("webpage", "configmap")) // which is told to who waits
		v.pass(time.Hour)
		v.disturb(nil)
		noError(t, v.op.AddSecondary("webpage", &r.configMaps))
		v.pass(time.Minute)
		v.patch(newPage("default", "p"), `{"spec":{"html":"b"}}`)
		v.pass(time.Minute)
		noError(t, v.op.RemoveSource("webpage", "configmap"))
		v.pass(time.Minute)
		const not = `framework: controller "webpage" does not read this *framework.Secondary[*k8s.io/api/core/v1.ConfigMap]: it is not among ControllerOptions.Secondaries, and was not added, or was removed`
		if want := "waits, " + not + ", " + not + ", read"; strings.Join(saw, ", ") != want {
			t.Errorf("saw %q, want %q", strings.Join(saw, ", "), want)
		}
		v.holdsNothing(1, goroutines)
	})
}

func TestC98AnotherSourceUnderTheSameNameIsRefused(t *testing.T) {
	var other framework.Secondary[*corev1.Secret]
	other.Name = "configmap"
	var fixed framework.Secondary[*corev1.Secret]
	labelled := framework.Secondary[*corev1.ConfigMap]{LabelSelector: "a=b"}
	alike := framework.Secondary[*corev1.ConfigMap]{}
	a := newAdding()
	inVirtualTime(t, a, pageOptions{Secondaries: framework.Secondaries(&fixed)}, func(v *virtual) {
		noError(t, v.op.AddSecondary("webpage", &a.configMaps))
		noError(t, v.op.AddSecondary("webpage", &a.configMaps))
		noError(t, v.op.AddSecondary("webpage", &alike))
		noError(t, v.op.AddSecondary("webpage", &fixed))
		expectError(t, v.op.AddSecondary("webpage", &other), `"configmap"`, "Kind=ConfigMap", "Kind=Secret")
		expectError(t, v.op.AddSecondary("webpage", &labelled), `"configmap"`, "with a=b")
		expectError(t, v.op.AddSecondary("webpage", &framework.Secondary[*corev1.ConfigMap]{Name: "secret"}), `"secret"`, "ControllerOptions", "Kind=ConfigMap")
		expectError(t, v.op.AddSource("webpage", source("secret")), `"secret"`, "ControllerOptions")
		expectError(t, v.op.AddSource("webpage", source("configmap")), `"configmap"`, "framework_test.source")
		expectError(t, v.op.AddSource("webpage", nil), "nil")
		expectError(t, v.op.AddSecondary("webpage", nil), "nil")
		expectError(t, v.op.AddSecondary("webpage", &framework.Secondary[*corev1.ConfigMap]{LabelSelector: "a in"}), "LabelSelector")
		expectError(t, v.op.AddSecondary("nobody", &a.configMaps), `"nobody"`)
		expectError(t, v.op.RemoveSource("webpage", "secret"), `"secret"`, "ControllerOptions")
		noError(t, v.op.RemoveSource("webpage", "never"))
	})
}

// TestC98WhatIsRemovedIsReadToTheEndByTheRunsThatHaveBegunTo: nothing disappears under them, and
// others are refused.
func TestC98WhatIsRemovedIsReadToTheEndByTheRunsThatHaveBegunTo(t *testing.T) {
	a := newAdding()
	a.then = func(_ context.Context, _ *Page, c *pageContext) error {
		informer := func() error { _, err := a.configMaps.GetNamed(c, "default", "m"); return err }
		noError(t, informer())
		stale := framework.StillReads(c, &a.configMaps)
		noError(t, c.RemoveSource("configmap"))
		time.Sleep(time.Hour)
		if err := informer(); err == nil || errors.Is(err, framework.ErrNotSynced) {
			t.Errorf("what was removed is read: %v", err)
		}
		if n := stale(); n != 1 {
			t.Errorf("%d ConfigMaps are left under a run that reads them", n)
		}
		return nil
	}
	inVirtualTime(t, a, pageOptions{RunTimeout: 3 * time.Hour}, func(v *virtual) {
		v.create(configMapOf(newPage("default", "m"), "x"))
		v.pass(time.Minute)
		goroutines := bubbled()
		v.createPage("p", "a")
		v.pass(30 * time.Minute)
		if now := v.op.Occupancy(); now.DynamicSources != 1 || len(now.Caches) != 2 {
			t.Errorf("%d sources, %d caches, and a run reads one that was removed", now.DynamicSources, len(now.Caches))
		}
		v.pass(2 * time.Hour)
		v.holdsNothing(1, goroutines)
	})
}

// TestG19AnOperatorStopsWhileWhatWasAddedIsStillToCome: whatever that waits for.
func TestG19AnOperatorStopsWhileWhatWasAddedIsStillToCome(t *testing.T) {
	for _, resource := range []string{"", "configmaps"} {
		a := newAdding()
		inVirtualTime(t, a, pageOptions{}, func(v *virtual) {
			v.disturb(func(r apimodel.Request) apimodel.Fault {
				return apimodel.Fault{Drop: r.Resource == resource}
			})
			v.createPage("p", "a")
			v.pass(time.Minute)
			a.expect(t, "nothing yet")
		})
	}
}

func TestC98ReferredSecondariesAreAddedAndRemoved(t *testing.T) {
	var shared framework.Secondary[*corev1.ConfigMap]
	refers := func(page *Page) []types.NamespacedName { return []types.NamespacedName{{Name: page.Spec.HTML}} }
	var mu sync.Mutex
	var saw []string
	r := &pages{reconcile: func(_ context.Context, page *Page, c *pageContext) (pageUpdate, error) {
		if err := c.AddSecondary(framework.Referred(&shared, refers)); err != nil {
			return pageUpdate{}, err
		}
		m, err := shared.Get(c)
		if err == nil && m != nil {
			mu.Lock()
			saw = append(saw, page.Name+" "+m.Data["data"])
			mu.Unlock()
		}
		return pageUpdate{}, err
	}}
	inVirtualTime(t, r, pageOptions{}, func(v *virtual) {
		v.pass(time.Minute)
		goroutines := bubbled()
		v.create(configMapOf(newPage("default", "m"), "x"))
		v.createPage("p", "m")
		v.pass(time.Minute)
		const index = "webpage/configmap#1/referred"
		if !framework.HasIndex(v.op, schema.GroupVersionKind{Group: "samples.evenkeel.dev", Version: "v1", Kind: "WebPage"}, index) {
			t.Error("no index of what primaries refer to")
		}
		v.patch(configMapOf(newPage("default", "m"), ""), `{"data":{"data":"y"}}`)
		v.pass(time.Minute)
		if got := strings.Join(saw, ", "); got != "p x, p y" {
			t.Errorf("saw %q", got)
		}
		v.delete("p")
		v.pass(time.Minute)
		v.holdsNothing(1, goroutines)
		if framework.HasIndex(v.op, schema.GroupVersionKind{Group: "samples.evenkeel.dev", Version: "v1", Kind: "WebPage"}, index) {
			t.Error("the index of what primaries refer to is left")
		}
	})
}
