package trc_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/evenkeel/evenkeel/trc"
)

// halfOpen is a server whose watches say nothing by themselves.
type halfOpen struct {
	begun chan *watch.FakeWatcher
}

func (h halfOpen) List(context.Context, metav1.ListOptions) (runtime.Object, error) {
	return &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}, nil
}

func (h halfOpen) Watch(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
	if options.SendInitialEvents != nil {
		return nil, errors.New("no streamed lists")
	}
	w := watch.NewFake()
	h.begun <- w
	return w, nil
}

func overHalfOpen(t *testing.T, test func(t *testing.T, store *trc.Store, server halfOpen)) {
	synctest.Test(t, func(t *testing.T) {
		server := halfOpen{begun: make(chan *watch.FakeWatcher, 100)}
		store := trc.NewStore(trc.Options{Name: "configmaps"})
		running, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			store.Run(running, trc.Watched{From: server, Expected: &corev1.ConfigMap{}})
		}()
		<-store.Synced()
		test(t, store, server)
		stop()
		<-ended
	})
}

func TestG18AWatchWhoseBookmarksStopIsStaleAndBegunAnew(t *testing.T) {
	overHalfOpen(t, func(t *testing.T, store *trc.Store, server halfOpen) {
		first := <-server.begun
		bookmark := func(w *watch.FakeWatcher) {
			w.Action(watch.Bookmark, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "2"}})
		}
		for range 10 {
			time.Sleep(time.Minute)
			bookmark(first)
		}
		synctest.Wait()
		if err := store.Stale(); err != nil || first.IsStopped() {
			t.Fatalf("with bookmarks: %v, stopped: %v", err, first.IsStopped())
		}
		time.Sleep(trc.DefaultStaleAfter + time.Second)
		second := <-server.begun
		var stale *trc.StaleError
		if err := store.Stale(); !errors.As(err, &stale) || stale.Limit != trc.DefaultStaleAfter || !first.IsStopped() {
			t.Errorf("without: %v, stopped: %v", err, first.IsStopped())
		}
		bookmark(second)
		synctest.Wait()
		if err := store.Stale(); err != nil {
			t.Errorf("with bookmarks again: %v", err)
		}
	})
}

func TestG18AWatchWithoutBookmarksMayBeQuietUntilItsRegularEnd(t *testing.T) {
	overHalfOpen(t, func(t *testing.T, store *trc.Store, server halfOpen) {
		for range 5 {
			w := <-server.begun
			time.Sleep(10 * time.Minute)
			if err := store.Stale(); err != nil || w.IsStopped() {
				t.Fatalf("%v, stopped: %v", err, w.IsStopped())
			}
			w.Stop()
		}
		w := <-server.begun
		time.Sleep(12*time.Minute + time.Second)
		synctest.Wait()
		if !w.IsStopped() {
			t.Error("a watch that did not end in time is not begun anew")
		}
	})
}
