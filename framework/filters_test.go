package framework_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/retry"
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

// TestAReplacedGenerationFilterTellsWhatIsWanted: a label is, the specification is not; what is ends the back-off.
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

// TestC57AReplacedGenerationFilterDoesNotHideTheLifeOfThePrimary: a requested deletion and a missing finalizer
// are not its business.
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
