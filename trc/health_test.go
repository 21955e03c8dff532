package trc_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/evenkeel/evenkeel/trc"
)

// Each of them begins well, so that no request fails.
func TestG18WatchesThatEndAsSoonAsTheyBeganAreAFailure(t *testing.T) {
	overHalfOpen(t, func(t *testing.T, store *trc.Store, server halfOpen) {
		for i := range 5 {
			w := <-server.begun
			synctest.Wait()
			if err := store.Err(); (err != nil) != (i >= 3) {
				t.Errorf("after %d: %v", i, err)
			}
			w.Stop()
			synctest.Wait()
		}
		h := store.Watches()[0]
		if h.FailuresInRow < 3 || h.State != trc.Waiting || h.LastFailure.IsZero() || !strings.Contains(h.Error, "ended as soon as they had begun") {
			t.Errorf("%+v", h)
		}
		w := <-server.begun
		time.Sleep(time.Second)
		synctest.Wait()
		if err := store.Err(); err != nil {
			t.Errorf("one that goes on: %v", err)
		}
		w.Action(watch.Bookmark, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "2"}})
		synctest.Wait()
		if h := store.Watches()[0]; h.Err != nil || h.FailuresInRow != 0 || h.State != trc.Watching || h.Progress != "2" {
			t.Errorf("healed: %+v", h)
		}
	})
}

// The limit before the first bookmark differs from the limit after it.
func TestG18AWatchThatFallsSilentAfterItsFirstBookmarkIsBegunAnew(t *testing.T) {
	overHalfOpen(t, func(t *testing.T, store *trc.Store, server halfOpen) {
		w := <-server.begun
		time.Sleep(trc.DefaultStaleAfter + time.Minute)
		w.Action(watch.Bookmark, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "2"}})
		time.Sleep(trc.DefaultStaleAfter - time.Second)
		synctest.Wait()
		if w.IsStopped() {
			t.Error("it is given up too early")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if !w.IsStopped() {
			t.Error("it is not given up")
		}
	})
}

// One that ends in its time is none, though nothing came.
func TestG18QuietWatchesAreNoFailure(t *testing.T) {
	overHalfOpen(t, func(t *testing.T, store *trc.Store, server halfOpen) {
		for range 5 {
			w := <-server.begun
			time.Sleep(5 * time.Minute)
			w.Stop()
			synctest.Wait()
		}
		<-server.begun
		if h := store.Watches()[0]; h.Err != nil || h.Failures > 1 { // the streamed list is refused
			t.Errorf("%+v", h)
		}
	})
}
