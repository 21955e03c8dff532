package framework_test

import (
	"context"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
	"github.com/evenkeel/evenkeel/trc"
)

// TestG15NoCodeOfTheAuthorIsCalledUnderALock: it may call the operator, or wait for who does.
func TestG15NoCodeOfTheAuthorIsCalledUnderALock(t *testing.T) {
	var op *framework.Operator
	var called atomic.Int32
	free := func(where string) {
		called.Add(1)
		// Another goroutine may hold it for a moment. Who is called under it waits for ever.
		for range 1_000_000 {
			if !framework.IsChanging(op) {
				return
			}
			runtime.Gosched()
		}
		t.Errorf("%s is called under the lock that guards namespaces and sources", where)
	}
	var armed atomic.Bool
	r := &reporting{rowdy{source: "rowdy"}, func() {
		if armed.Load() {
			free("Health")
		}
	}}
	r.err = func() error {
		if armed.Load() {
			free("Err")
		}
		return nil
	}
	r.changed = func(_, new trc.Object) {
		if armed.Load() && new == nil {
			free("PrimaryChanged")
		}
	}
	added := &reporting{rowdy{source: "added", err: r.err, changed: r.changed}, r.health}
	logger := funcr.New(func(_, args string) {
		if strings.Contains(args, "namespaces changed") {
			free("the log's sink")
		}
	}, funcr.Options{})
	inVirtualTimeWith(t, framework.OperatorOptions{Logger: logger}, &pages{}, pageOptions{Sources: []eventsource.Source{r}}, func(v *virtual) {
		op = v.op
		noError(t, op.AddSource("webpage", added))
		v.createPage("p", "a")
		v.pass(time.Minute)
		armed.Store(true)
		op.Health()
		noError(t, op.SetNamespaces([]string{"elsewhere"}))
		v.pass(time.Minute)
		if n := called.Load(); n < 7 {
			t.Errorf("called %d times", n)
		}
		armed.Store(false)
	})
}

// reporting is a source that reports its health.
type reporting struct {
	rowdy
	health func()
}

func (r *reporting) Health() eventsource.Health { r.health(); return eventsource.Health{} }

// TestG16ASuccessorHoldsNothingOfThePrimaryBeforeIt: that is gone, with all that it held.
func TestG16ASuccessorHoldsNothingOfThePrimaryBeforeIt(t *testing.T) {
	for _, allEvents := range []bool{false, true} {
		a := newAdding()
		a.reconcile = withoutRemoving(a.reconcile)
		inVirtualTime(t, a, pageOptions{AllEvents: allEvents}, func(v *virtual) {
			v.createPage("q", "none")
			v.pass(time.Minute)
			goroutines := bubbled()
			v.createPage("p", "a")
			v.pass(time.Minute)
			a.then = func(_ context.Context, _ *Page, c *pageContext) error {
				time.Sleep(time.Minute)
				return nil
			}
			v.patch(newPage("default", "p"), `{"spec":{"html":"b"}}`)
			v.pass(time.Second)
			v.delete("p") // in the midst of a run
			v.createPage("p", "none")
			v.pass(time.Hour)
			v.holdsNothing(1, goroutines)
		})
	}
}

// withoutRemoving lets runs that want nothing do nothing.
func withoutRemoving(reconcile func(context.Context, *Page, *pageContext) (pageUpdate, error)) func(context.Context, *Page, *pageContext) (pageUpdate, error) {
	return func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
		if page.Spec.HTML == "none" {
			return pageUpdate{}, nil
		}
		return reconcile(ctx, page, c)
	}
}

// TestG16AnOldRunAddsNothingForItsSuccessor: it may add what it needs after its primary was
// replaced.
func TestG16AnOldRunAddsNothingForItsSuccessor(t *testing.T) {
	a := newAdding()
	a.reconcile = withoutRemoving(a.reconcile)
	add := a.reconcile
	a.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
		if page.Spec.HTML == "late" {
			time.Sleep(time.Minute)
		}
		return add(ctx, page, c)
	}
	inVirtualTime(t, a, pageOptions{}, func(v *virtual) {
		v.createPage("q", "none")
		v.pass(time.Minute)
		goroutines := bubbled()
		v.createPage("p", "late")
		v.pass(time.Second)
		v.delete("p")
		v.createPage("p", "none")
		v.pass(time.Hour)
		v.holdsNothing(1, goroutines)
	})
}

// TestG15ASourceWhoseSyncedHangsIsNamedAndTheNextStarts: it is as one whose Start does.
func TestG15ASourceWhoseSyncedHangsIsNamedAndTheNextStarts(t *testing.T) {
	var released chan struct{}
	r := &rowdy{source: "rowdy", synced: func() <-chan struct{} { <-released; return released }}
	r.start = func(eventsource.Sink) (func(), error) { released = make(chan struct{}); return nil, nil }
	hosting(t, r, func(v *virtual, runs *atomic.Int32, polite eventsource.Sink) {
		if polite == nil {
			t.Error("the other source was not started")
		}
		expectError(t, v.op.Ready(), `source "rowdy" fails: start, attempt 1: it has not returned after 10s`)
		close(released)
		v.pass(time.Second)
		if noError(t, v.op.Ready()); runs.Load() != 1 {
			t.Errorf("%d runs", runs.Load())
		}
	})
}

// TestC97ASourceThatWasRemovedIsNotStarted: it may have waited to be.
func TestC97ASourceThatWasRemovedIsNotStarted(t *testing.T) {
	var starts, now, most, primaries atomic.Int32
	r := &rowdy{source: "rowdy", start: func(eventsource.Sink) (func(), error) {
		starts.Add(1)
		most.Store(max(most.Load(), now.Add(1)))
		return func() { time.Sleep(time.Minute); now.Add(-1) }, nil // longer than is waited for
	}}
	r.changed = func(old, _ trc.Object) {
		if old == nil {
			primaries.Add(1)
		}
	}
	inVirtualTime(t, &pages{}, pageOptions{}, func(v *virtual) {
		add := func() { noError(t, v.op.AddSource("webpage", r)) }
		remove := func() { noError(t, v.op.RemoveSource("webpage", "rowdy")) }
		v.createPage("p", "a")
		v.pass(time.Second)
		add()
		v.pass(time.Second)
		remove()
		add() // which waits for the first
		remove()
		v.pass(20 * time.Second)
		add()
		v.pass(2 * time.Minute)
		if starts.Load() != 2 || most.Load() != 1 {
			t.Errorf("started %d times, %d at once, want 2 times, one after the other", starts.Load(), most.Load())
		}
		if primaries.Load() != 2 {
			t.Errorf("heard %d times of the page, want once for each start", primaries.Load())
		}
		remove()
		v.pass(time.Hour)
	})
}

// TestG01AWriterOfAClusterThatWasLeftWritesNothing: no cache would show it.
func TestG01AWriterOfAClusterThatWasLeftWritesNothing(t *testing.T) {
	a := newAdding()
	inVirtualTime(t, a, pageOptions{}, func(v *virtual) {
		far := newModel(t)
		there, err := client.New(far.Config(), scheme)
		noError(t, err)
		copies := framework.Secondary[*corev1.ConfigMap]{Cluster: far.Config(), Map: func(m *corev1.ConfigMap) []types.NamespacedName { return nil }}
		noError(t, v.op.AddSecondary("webpage", &copies))
		writer := v.op.WriterAt(copies.Cluster, "me")
		_, err = framework.Apply(v.t.Context(), writer, configMapOf(newPage("default", "m"), "1"))
		noError(t, err)
		noError(t, v.op.RemoveSource("webpage", "configmap"))
		v.pass(time.Minute)
		noError(t, v.op.AddSecondary("webpage", &copies))
		v.pass(time.Minute)
		if _, err = framework.Apply(v.t.Context(), writer, configMapOf(newPage("default", "m"), "2")); err == nil {
			t.Error("a cluster that was left is written to, past the caches of who has come to it since")
		}
		_, err = framework.Apply(v.t.Context(), v.op.WriterAt(copies.Cluster, "me"), configMapOf(newPage("default", "m"), "3"))
		noError(t, err)
		var m corev1.ConfigMap
		noError(t, there.Get(v.t.Context(), client.ObjectKey{Namespace: "default", Name: "m"}, &m))
		if m.Data["data"] != "3" {
			t.Errorf("there is %v", m.Data)
		}
	})
}

// TestG07WhatBecameOfAWriteToAClusterThatWasLeftIsNotAwaited: the cluster is gone for good, and its
// source was removed for that.
func TestG07WhatBecameOfAWriteToAClusterThatWasLeftIsNotAwaited(t *testing.T) {
	var copies framework.Secondary[*corev1.ConfigMap]
	var runs atomic.Int32
	r := &pages{reconcile: func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
		runs.Add(1)
		if page.Spec.HTML != "a" {
			return pageUpdate{}, nil
		}
		_, err := framework.Create(ctx, copies.In(c), configMapOf(page, "x"))
		return pageUpdate{}, err
	}}
	inVirtualTime(t, r, pageOptions{}, func(v *virtual) {
		far := newModel(t)
		copies.Cluster, copies.Map = far.Config(), mapToPage("p")
		noError(t, v.op.AddSecondary("webpage", &copies))
		v.pass(time.Minute)
		far.Intercept(func(apimodel.Request) apimodel.Fault { return apimodel.Fault{Drop: true} })
		v.createPage("p", "a")
		v.pass(10 * time.Minute)
		noError(t, v.op.RemoveSource("webpage", "configmap"))
		v.pass(10 * time.Minute)
		before := runs.Load()
		v.patch(newPage("default", "p"), `{"spec":{"html":"b"}}`)
		v.pass(time.Hour)
		if n := runs.Load() - before; n == 0 {
			t.Error("the page has no run any more: it waits for a cluster that nobody reads")
		}
		if n := framework.Unresolved(v.op); n != 0 {
			t.Errorf("%d writes are unresolved", n)
		}
	})
}
