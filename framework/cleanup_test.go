package framework_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/framework"
)

func removeFinalizer(context.Context, *Page, *pageContext) (framework.DeleteControl, error) {
	return framework.RemoveFinalizer(), nil
}

// cleaningDiary is a diary whose reconciler is a Cleaner; it notes cleanups as "html cleaned".
type cleaningDiary struct {
	*diary
	control func(ctx context.Context, page *Page, c *pageContext) (framework.DeleteControl, error)
}

func (d *cleaningDiary) Cleanup(ctx context.Context, page *Page, c *pageContext) (framework.DeleteControl, error) {
	d.mu.Lock()
	d.seen = append(d.seen, page.Spec.HTML+" cleaned")
	d.mu.Unlock()
	return d.control(ctx, page, c)
}

func newCleaningDiary() *cleaningDiary { return &cleaningDiary{newDiary(), removeFinalizer} }

func TestC88APrimaryInDeletionIsLeftToThoseWhoseFinalizersItCarries(t *testing.T) {
	for name, d := range map[string]interface {
		framework.Reconciler[*Page]
		expect(t *testing.T, want ...string)
	}{"without a Cleaner": newDiary(), "when its own finalizer is off": newCleaningDiary()} {
		inVirtualTime(t, d, pageOptions{AllGenerations: true}, func(v *virtual) {
			v.createPage("p", "a")
			v.pass(time.Second)
			d.expect(t, "a")
			v.patch(newPage("default", "p"), `{"metadata":{"finalizers":["somebody.else/one","`+finalizer+`"]}}`)
			v.pass(time.Second)
			v.delete("p")
			v.pass(time.Second)
			if _, cleans := d.(*cleaningDiary); cleans {
				d.expect(t, "a", "a cleaned")
			} else {
				d.expect(t, "a")
			}
			v.patch(newPage("default", "p"), `{"metadata":{"finalizers":["somebody.else/one"],"labels":{"x":"y"}}}`)
			v.patch(newPage("default", "p"), `{"spec":{"html":"b"}}`)
			v.pass(time.Minute)
			t.Log(name)
			d.expect(t)
			v.patch(newPage("default", "p"), `{"metadata":{"finalizers":null}}`)
			v.pass(time.Minute)
			d.expect(t)
			v.drained()
		})
	}
}

// cleaningFailures fails in Cleanup.
type cleaningFailures struct {
	failingPages
	cleanups atomic.Int32
}

func (r *cleaningFailures) Cleanup(context.Context, *Page, *pageContext) (framework.DeleteControl, error) {
	if r.cleanups.Add(1) < 3 {
		return framework.DeleteControl{}, errors.New("not yet")
	}
	return framework.RemoveFinalizer(), nil
}

func TestC92TheErrorStatusIsOfReconcileAloneAndCleanupIsRetriedLikeIt(t *testing.T) {
	r := &cleaningFailures{}
	r.reconcile = func(context.Context, *Page, *pageContext) (pageUpdate, error) { return pageUpdate{}, nil }
	r.errorStatus = func(_ *Page, _ *pageContext, failure error) framework.ErrorStatusControl[*Page] {
		t.Errorf("asked about %v", failure)
		return framework.ErrorStatusControl[*Page]{}
	}
	inVirtualTime(t, r, pageOptions{Retry: everySecond}, func(v *virtual) {
		v.createPage("p", "a")
		v.pass(time.Second)
		v.delete("p")
		v.pass(1500 * time.Millisecond)
		if r.cleanups.Load() != 2 || len(v.page("p").Finalizers) != 1 {
			t.Errorf("%d cleanups", r.cleanups.Load())
		}
		v.pass(time.Minute)
		if r.cleanups.Load() != 3 {
			t.Errorf("%d cleanups", r.cleanups.Load())
		}
		v.drained()
	})
}

// TestC87APrimaryThatWasDeletedWhileTheOperatorWasDownIsCleanedUp at its start.
func TestC87APrimaryThatWasDeletedWhileTheOperatorWasDownIsCleanedUp(t *testing.T) {
	overModel(t, func(m *modelled) {
		d := newCleaningDiary()
		stop := m.operate(d, pageOptions{})
		m.createPage("p")
		m.createPage("q")
		time.Sleep(time.Minute)
		stop()
		d.since()
		noError(t, m.pages.Delete(m.Context(), "p", metav1.DeleteOptions{}))
		defer m.operate(d, pageOptions{})()
		time.Sleep(time.Minute)
		seen := d.since()
		slices.Sort(seen)
		if want := []string{"<html/>", "<html/> cleaned"}; !slices.Equal(seen, want) {
			t.Errorf("seen %q, want %q", seen, want)
		}
	})
}

// TestC94WhatCleanupDoesToItsCopyStaysThere: the finalizer goes all the same, from what the server
// has.
func TestC94WhatCleanupDoesToItsCopyStaysThere(t *testing.T) {
	d := newCleaningDiary()
	d.control = func(_ context.Context, page *Page, c *pageContext) (framework.DeleteControl, error) {
		if c.Primary() != page {
			t.Error("the context has another copy")
		}
		page.Finalizers, page.ResourceVersion, page.UID, page.Name = nil, "1", "other", "other"
		return framework.RemoveFinalizer(), nil
	}
	inVirtualTime(t, d, pageOptions{Retry: everySecond}, func(v *virtual) {
		v.createPage("p", "a")
		v.pass(time.Second)
		v.delete("p")
		v.pass(time.Minute)
		d.expect(t, "a", "a cleaned")
		v.drained()
	})
}
