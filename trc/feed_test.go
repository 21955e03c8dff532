package trc_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/evenkeel/evenkeel/trc"
)

// fakeServer returns lists that the test sets, and gives the test the watches that it opened.
type fakeServer struct {
	streams bool // whether it can stream its lists

	mu        sync.Mutex
	err       error // of every request
	version   string
	items     []*corev1.ConfigMap
	watch     *watch.FakeWatcher // the last one
	watchedAt string             // the version that it asked for
}

func (f *fakeServer) set(err error, version string, items ...*corev1.ConfigMap) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err, f.version, f.items = err, version, items
}

func (f *fakeServer) List(context.Context, metav1.ListOptions) (runtime.Object, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return nil, f.err
	}
	list := &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: f.version}}
	for _, item := range f.items {
		list.Items = append(list.Items, *item)
	}
	return list, nil
}

func (f *fakeServer) Watch(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return nil, f.err
	}
	streamed := o.SendInitialEvents != nil && *o.SendInitialEvents
	if streamed && !f.streams {
		return nil, errors.New("sendInitialEvents is not supported")
	}
	f.watch = watch.NewFakeWithChanSize(len(f.items)+10, false)
	f.watchedAt = o.ResourceVersion
	if streamed {
		for _, item := range f.items {
			f.watch.Add(item)
		}
		end := bookmarkAt(f.version)
		end.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
		f.watch.Action(watch.Bookmark, end)
	}
	return f.watch, nil
}

func bookmarkAt(version string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ResourceVersion: version}}
}

// silenceErrors keeps apimachinery from slowing down the errors it logs: it remembers the time of
// the last one across tests, which under synctest lies in another time.
func silenceErrors(t *testing.T) {
	handlers := utilruntime.ErrorHandlers
	utilruntime.ErrorHandlers = nil
	t.Cleanup(func() { utilruntime.ErrorHandlers = handlers })
}

// pass lets virtual time pass.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestRunFeedsTheStoreThroughFailures(t *testing.T) {
	silenceErrors(t)
	for name, streams := range map[string]bool{"streamed lists": true, "paged lists": false} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { runThroughFailures(t, streams) }) })
	}
}

func runThroughFailures(t *testing.T, streams bool) {
	r := newRigWithoutWatch(t)
	server := &fakeServer{streams: streams}
	server.set(nil, "10", object("a", "u1@5"))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		r.Run(ctx, trc.Watched{From: server, Expected: &corev1.ConfigMap{}})
		close(ended)
	}()

	<-r.Synced()
	synctest.Wait()
	r.tells("add a u1@5 initially")
	server.watch.Modify(object("a", "u1@11"))
	server.watch.Modify(&corev1.Pod{}) // refused, not fatal
	synctest.Wait()
	r.sees("a", "u1@11")
	r.acknowledge(object("b", "u2@12"))
	server.watch.Action(watch.Bookmark, bookmarkAt("12"))
	synctest.Wait()
	r.sees("b", "absent")

	first := server.watch
	first.Stop() // cut
	pass(time.Minute)
	if server.watch == first || server.watchedAt != "12" {
		t.Errorf("watched again: %v, at %q; want at 12", server.watch != first, server.watchedAt)
	}
	server.watch.Add(object("c", "u3@13"))
	synctest.Wait()
	r.sees("c", "u3@13")
	if err := r.Err(); err != nil {
		t.Errorf("error while all is well: %v", err)
	}

	forbidden := apierrors.NewForbidden(corev1.Resource("configmaps"), "", errors.New("no such right"))
	server.set(forbidden, "")
	server.watch.Error(&apierrors.NewResourceExpired("too old").ErrStatus)
	pass(time.Minute)
	if err := r.Err(); !errors.Is(err, forbidden) {
		t.Errorf("error %v, want %v", err, forbidden)
	}
	r.sees("c", "u3@13") // the store keeps what it has
	r.told = nil
	server.set(nil, "20", object("a", "u1@11"), object("d", "u4@17"))
	pass(2 * time.Minute)
	if err := r.Err(); err != nil {
		t.Errorf("error after it is well again: %v", err)
	}
	r.tells("add d u4@17", "delete c u3@13")

	cancel()
	<-ended
}

func TestErrIsThatOfAnyWatch(t *testing.T) {
	silenceErrors(t)
	synctest.Test(t, func(t *testing.T) {
		well, ill := &fakeServer{}, &fakeServer{}
		well.set(nil, "10")
		ill.set(errors.New("broken"), "")
		s := trc.NewStore(trc.Options{Name: "configmaps"})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			s.Run(ctx, trc.Watched{Namespace: "one", From: well}, trc.Watched{Namespace: "two", From: ill})
			close(ended)
		}()
		pass(time.Minute)
		if err := s.Err(); err == nil || err.Error() != "broken" {
			t.Errorf("error %v", err)
		}
		select {
		case <-s.Synced():
			t.Error("synced without one of the lists")
		default:
		}
		ill.set(nil, "10")
		<-s.Synced()
		synctest.Wait()
		if err := s.Err(); err != nil {
			t.Errorf("error %v", err)
		}
		cancel()
		<-ended
	})
}
