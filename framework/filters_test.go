package framework_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/retry"
	"github.com/evenkeel/evenkeel/trc"
)

// asked notes what filters are asked about, and answers by what verdict says.
type asked struct {
	mu      sync.Mutex // guards below
	lines   []string
	refuses string
}

func (a *asked) about(filter string, old, new *Page) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	line := filter + ":"
	for _, p := range []*Page{old, new} {
		if p == nil {
			line += " -"
		} else {
			line += " " + p.Spec.HTML
		}
	}
	a.lines = append(a.lines, line)
	return a.refuses != filter
}

func (a *asked) since() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	lines := a.lines
	a.lines = nil
	return lines
}

func (a *asked) refuse(filter string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refuses = filter
}

// filters are one of each kind.
func (a *asked) filters() pageOptions {
	return pageOptions{
		AllEvents:    true,
		AddFilter:    func(added *Page) bool { return a.about("add", nil, added) },
		UpdateFilter: func(old, new *Page) bool { return a.about("update", old, new) },
		DeleteFilter: func(last *Page) bool { return a.about("delete", last, nil) },
		Filter:       func(old, new *Page) bool { return a.about("every", old, new) },
	}
}

func TestC61EachFilterIsAskedAboutItsChangesAndTheGenericOneAboutAll(t *testing.T) {
	d, a := newDiary(), &asked{}
	inVirtualTime(t, d, a.filters(), func(v *virtual) {
		v.createPage("p", "a")
		v.pass(time.Second)
		v.patch(newPage("default", "p"), `{"metadata":{"labels":{"x":"y"}}}`) // no new generation: not asked
		v.pass(time.Second)
		v.patch(newPage("default", "p"), `{"spec":{"html":"b"}}`)
		v.pass(time.Second)
		v.delete("p")
		v.pass(time.Second)
		want := []string{"add: - a", "every: - a", "update: a b", "every: a b", "delete: b -", "every: b -"}
		if got := a.since(); !slices.Equal(got, want) {
			t.Errorf("asked %q, want %q", got, want)
		}
		d.expect(t, "a", "b", "b gone")
	})
}

func TestC61WhatAFilterRejectsMakesNoRun(t *testing.T) {
	for refused, want := range map[string][]string{
		"add": {"b", "b gone"}, "update": {"a", "b gone"}, "delete": {"a", "b"}, "every": nil,
	} {
		d, a := newDiary(), &asked{}
		a.refuse(refused)
		inVirtualTime(t, d, a.filters(), func(v *virtual) {
			v.createPage("p", "a")
			v.pass(time.Second)
			v.patch(newPage("default", "p"), `{"spec":{"html":"b"}}`)
			v.pass(time.Second)
			v.delete("p")
			v.pass(time.Second)
			t.Log(refused)
			d.expect(t, want...)
			v.drained()
		})
	}
}

// TestC56AReplacedPrimaryIsNoUpdate: the one that takes its place is of the same generation.
func TestC56AReplacedPrimaryIsNoUpdate(t *testing.T) {
	for _, unseen := range []bool{false, true} {
		d, a := newDiary(), &asked{}
		options := a.filters()
		options.AllEvents, options.DeleteFilter = false, nil
		inVirtualTime(t, d, options, func(v *virtual) {
			v.createPage("p", "a")
			v.pass(time.Second)
			if unseen {
				v.model.Stall("webpages")
			}
			v.delete("p")
			v.createPage("p", "b")
			if unseen {
				v.model.Expire("webpages")
				v.model.Release("webpages")
			}
			v.pass(time.Minute)
			d.expect(t, "a", "b")
			want := []string{"add: - a", "every: - a", "add: - b", "every: - b"}
			if got := a.since(); !slices.Equal(got, want) {
				t.Errorf("asked %q, want %q", got, want)
			}
		})
	}
}

// TestC60WithoutTheGenerationFilterOnlyTheAuthorsDecides about changes of metadata too.
func TestC60WithoutTheGenerationFilterOnlyTheAuthorsDecides(t *testing.T) {
	d := newDiary()
	options := pageOptions{AllGenerations: true, UpdateFilter: func(old, new *Page) bool { return old.Labels["x"] != new.Labels["x"] }}
	inVirtualTime(t, d, options, func(v *virtual) {
		v.createPage("p", "a")
		v.pass(time.Second)
		v.patch(newPage("default", "p"), `{"metadata":{"labels":{"x":"y"}}}`)
		v.pass(time.Second)
		d.expect(t, "a", "a")
		v.patch(newPage("default", "p"), `{"metadata":{"labels":{"z":"y"}}}`)
		v.patch(newPage("default", "p"), `{"spec":{"html":"b"}}`)
		v.pass(time.Second)
		d.expect(t)
	})
}

// TestAReplacedGenerationFilterTellsWhatIsWanted: a label is, the specification is not; what is
// ends the back-off.
func TestAReplacedGenerationFilterTellsWhatIsWanted(t *testing.T) {
	d := newDiary()
	d.after = func(context.Context, *Page, *pageContext) (pageUpdate, error) {
		return pageUpdate{}, errors.New("never")
	}
	options := pageOptions{
		Retry:            retry.Policy{Initial: time.Hour, Jitter: retry.NoJitter},
		GenerationFilter: func(old, new *Page) bool { return old.Labels["x"] != new.Labels["x"] },
	}
	inVirtualTime(t, d, options, func(v *virtual) {
		v.createPage("p", "a")
		v.pass(time.Second)
		v.patch(newPage("default", "p"), `{"spec":{"html":"b"}}`)
		v.pass(time.Second)
		d.expect(t, "a")
		for _, x := range []string{"1", "2", "3"} {
			v.patch(newPage("default", "p"), `{"metadata":{"labels":{"x":"`+x+`"}}}`)
			v.pass(time.Second)
		}
		d.expect(t, "b", "b", "b")
		if attempt := v.op.Records("webpage")[3].Attempt; attempt != 0 {
			t.Errorf("attempt %d, want a fresh start", attempt)
		}
	})
}

// TestC57AReplacedGenerationFilterDoesNotHideTheLifeOfThePrimary: a requested deletion and a
// missing finalizer are not its business.
func TestC57AReplacedGenerationFilterDoesNotHideTheLifeOfThePrimary(t *testing.T) {
	cleanups := 0
	r := &cleaningPages{cleanup: func(context.Context, *Page, *pageContext) (framework.DeleteControl, error) {
		cleanups++
		return framework.RemoveFinalizer(), nil
	}}
	runs := r.inFirstRun(func(context.Context, *Page, *pageContext) (pageUpdate, error) { return pageUpdate{}, nil })
	options := pageOptions{GenerationFilter: func(_, _ *Page) bool { return false }}
	inVirtualTime(t, r, options, func(v *virtual) {
		v.createPage("p", "a")
		v.pass(time.Second)
		v.patch(newPage("default", "p"), `{"metadata":{"finalizers":null}}`)
		v.pass(time.Second)
		if got := v.page("p").Finalizers; !slices.Equal(got, []string{finalizer}) || runs.Load() != 2 {
			t.Errorf("finalizers %q after %d runs", got, runs.Load())
		}
		v.delete("p")
		v.pass(time.Second)
		if cleanups != 1 {
			t.Errorf("%d cleanups", cleanups)
		}
		v.drained()
	})
}

func TestANewIncarnationThatTheRunItselfCreatedIsRun(t *testing.T) {
	d := newDiary()
	d.after = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
		if page.Spec.HTML != "a" {
			return pageUpdate{}, nil
		}
		next := newPage(page.Namespace, page.Name)
		next.Spec.HTML = "b"
		if err := framework.Delete(ctx, c, page); err != nil {
			return pageUpdate{}, err
		}
		_, err := framework.Create(ctx, c, next)
		return pageUpdate{}, err
	}
	inVirtualTime(t, d, pageOptions{}, func(v *virtual) {
		v.createPage("p", "a")
		v.pass(time.Minute)
		d.expect(t, "a", "b")
	})
}

// watching is a source that notes what it is told of primaries.
type watching struct {
	source
	asked
}

func (w *watching) Synced() <-chan struct{} {
	synced := make(chan struct{})
	close(synced)
	return synced
}

func (w *watching) PrimaryChanged(old, new trc.Object) {
	before, _ := old.(*Page)
	after, _ := new.(*Page)
	if w.about("told", before, after); after != nil && after.Labels["boom"] != "" {
		panic("boom")
	}
}

func TestC62SourcesAreToldOfWhatFiltersHide(t *testing.T) {
	d, w := newDiary(), &watching{source: "watching"}
	options := pageOptions{Filter: func(_, _ *Page) bool { return false }, Sources: []eventsource.Source{w}}
	inVirtualTime(t, d, options, func(v *virtual) {
		v.createPage("p", "a")
		v.pass(time.Second)
		v.patch(newPage("default", "p"), `{"metadata":{"labels":{"boom":"y"}}}`)
		v.pass(time.Second)
		v.delete("p")
		v.pass(time.Second)
		if got := w.since(); !slices.Equal(got, []string{"told: - a", "told: a a", "told: a -"}) {
			t.Errorf("told %q", got)
		}
		d.expect(t)
	})
}

func TestC90ARunWithoutRetriesIsTheLastAttemptAtOnce(t *testing.T) {
	for _, policy := range []retry.Policy{retry.Never(), {Initial: time.Second, MaxAttempts: 1}} {
		d := newDiary()
		var infos []framework.RetryInfo
		d.after = func(_ context.Context, _ *Page, c *pageContext) (pageUpdate, error) {
			infos = append(infos, c.Retry())
			return pageUpdate{}, errors.New("never")
		}
		inVirtualTime(t, d, pageOptions{Retry: policy}, func(v *virtual) {
			v.createPage("p", "a")
			v.pass(time.Minute)
			want := []framework.RetryInfo{{Attempt: 0, LastAttempt: true}}
			if policy.MaxAttempts == 1 {
				want = []framework.RetryInfo{{}, {Attempt: 1, LastAttempt: true}}
			}
			if !slices.Equal(infos, want) {
				t.Errorf("told %v, want %v", infos, want)
			}
		})
	}
}

func TestC95AnAuthorIsToldWhatIsLeftOfTheBackOff(t *testing.T) {
	d := newDiary()
	var infos []framework.RetryInfo
	d.after = func(_ context.Context, _ *Page, c *pageContext) (pageUpdate, error) {
		infos = append(infos, c.Retry())
		return pageUpdate{}, errors.New("not yet")
	}
	policy := retry.Policy{Initial: 10 * time.Second, Jitter: retry.NoJitter}
	inVirtualTime(t, d, pageOptions{Retry: policy, Secondaries: framework.Secondaries(&d.configMaps)}, func(v *virtual) {
		v.createPage("p", "a")
		v.pass(4 * time.Second)
		page := v.page("p")
		by := configMapOf(page, "by another") // an event that is none of the primary's
		by.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(page, pageKind)}
		v.create(by)
		v.pass(8 * time.Second)
		want := []framework.RetryInfo{{}, {Attempt: 1, BackOffLeft: 6 * time.Second}, {Attempt: 1}}
		if !slices.Equal(infos, want) {
			t.Errorf("told %+v, want %+v", infos, want)
		}
	})
}

func TestC71ARunAtOnceLeavesTheLaterOneThatWasAskedForWithIt(t *testing.T) {
	d, first := newDiary(), true
	d.after = func(context.Context, *Page, *pageContext) (pageUpdate, error) {
		if !first {
			return framework.NoUpdate[*Page](), nil
		}
		first = false
		return framework.NoUpdate[*Page]().Reschedule().RescheduleAfter(time.Hour), nil
	}
	inVirtualTime(t, d, pageOptions{}, func(v *virtual) {
		v.createPage("p", "a")
		for _, runs := range []int{2, 2, 3, 3} {
			v.pass(59 * time.Minute / 2)
			if n := len(v.op.Records("webpage")); n != runs {
				t.Errorf("%d runs, want %d", n, runs)
			}
		}
	})
}
