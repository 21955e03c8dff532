package trc

import (
	"cmp"
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// ListerWatcher lists and watches one resource in one namespace or in all.
type ListerWatcher interface {
	List(ctx context.Context, options metav1.ListOptions) (runtime.Object, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// Watched configures one watch of a store.
type Watched struct {
	// Namespace is the namespace to watch. "" means all namespaces, or a cluster-scoped resource.
	Namespace string
	// From lists and watches the resource.
	From ListerWatcher
	// Expected is an object of the type that the watch delivers. Objects of other types are refused
	// and logged.
	Expected Object
	// PageSize is the number of objects that a list requests at a time. Default: lists are streamed if
	// the server supports it, and requested whole otherwise. The store reduces each page to what it
	// keeps before it requests the next. A list is consistent in either case. If it takes longer than
	// the server remembers its version, it starts again from the beginning.
	PageSize int64
}

// Run feeds the store from the given watches until ctx ends, or until all of them are removed with
// [Store.RemoveWatch]. It may be called again for namespaces that are added later. Lists and
// watches that fail are repeated with the Reflector's back-off (0.8 s to 30 s); [Store.Err] returns
// the last failure. Watches that are silent for too long are restarted; see [Store.Stale].
//
// If the environment variable KUBE_CACHE_MUTATION_DETECTOR is true, the first call compares the
// cached objects with copies every second, and panics if one was changed.
func (s *Store) Run(ctx context.Context, watched ...Watched) { s.Feed(ctx, watched...)() }

// Feed adds the given watches and returns the function that feeds them as [Store.Run] does. The
// caller must call that function. A watch that is removed before the call is not fed.
func (s *Store) Feed(ctx context.Context, watched ...Watched) (run func()) {
	// Add all before any is fed: otherwise the first could count as all of them.
	feeds := make([]func(), len(watched))
	s.mu.Lock()
	for i, from := range watched {
		w := s.addWatchLocked(from.Namespace)
		ctx, stop := context.WithCancel(ctx)
		w.stop = stop
		feeds[i] = func() {
			defer stop()
			w.run(ctx, s.options.Name, from)
		}
	}
	s.mu.Unlock()
	return func() { s.feed(ctx, feeds) }
}

func (s *Store) feed(ctx context.Context, feeds []func()) {
	var running, reflectors sync.WaitGroup
	detecting, stopDetecting := context.WithCancel(ctx)
	s.detecting.Do(func() {
		running.Go(func() { s.detector.Run(detecting.Done()) })
	})
	for _, feed := range feeds {
		reflectors.Go(feed)
	}
	reflectors.Wait()
	stopDetecting()
	running.Wait()
}

func (w *Watch) run(ctx context.Context, name string, from Watched) {
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			w.doing.begin(Listing)
			ctx, _, release := w.withAnswerTimeout(ctx)
			defer release()
			list, err := from.From.List(ctx, options)
			err = timeoutCause(ctx, err)
			w.setErr(err)
			if err == nil && from.PageSize > 0 {
				return w.keepPage(list)
			}
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			if options.SendInitialEvents != nil && *options.SendInitialEvents {
				w.doing.begin(Listing)
			}
			ctx, answered, release := w.withAnswerTimeout(ctx)
			events, err := from.From.Watch(ctx, options)
			answered()
			err = timeoutCause(ctx, err)
			w.setErr(err)
			if err != nil {
				release()
				return events, err
			}
			w.doing.begin(Watching)
			begun := time.Now()
			return w.guard(events, sync.OnceFunc(func() { release(); w.end(begun) })), nil
		},
	}
	var expected any
	if from.Expected != nil {
		expected = from.Expected
	}
	reflector := cache.NewReflectorWithOptions(from.listerWatcher(lw), expected, w, cache.ReflectorOptions{
		Name: name, TypeDescription: name, MinWatchTimeout: 5 * time.Minute,
	})
	reflector.WatchListPageSize = from.PageSize
	reflector.RunWithContext(ctx)
}

// Err returns the failure of the last list or watch request of any watch. If there is none, it
// returns an error if the overlay is full (see [Store.Room]), and nil otherwise.
func (s *Store) Err() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, w := range s.watches {
		if err := w.lastErr(); err != nil {
			return err
		}
	}
	return s.fullLocked()
}

func (w *Watch) lastErr() error {
	if err := w.err.Load(); err != nil {
		return cmp.Or(*err, w.barrenErr())
	}
	return nil
}

func (w *Watch) setErr(err error) {
	w.err.Store(&err)
	w.recordErr(err)
}
