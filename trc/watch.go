package trc

import (
	"context"
	"fmt"
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

// Watched is one watch of a store.
type Watched struct {
	// Namespace is what the watch covers, "" for all namespaces or a cluster-scoped resource.
	Namespace string
	// From is where lists and watches come from.
	From ListerWatcher
	// Expected is an object of the type the watch delivers; others are refused with a log line.
	Expected Object
}

// Watch is the side of a [Store] that a client-go Reflector feeds. Its methods are those of
// cache.ReflectorStore, cache.ReflectorBookmarkStore and cache.TransformingStore.
type Watch struct {
	store     *Store
	namespace string

	// Guarded by store.mu.
	progress uint64
	listed   bool

	errMu sync.Mutex // guards err; a leaf
	err   error
}

var (
	_ cache.ReflectorBookmarkStore = (*Watch)(nil)
	_ cache.TransformingStore      = (*Watch)(nil)
)

// AddWatch adds a watch of a namespace to the store, for a Reflector to feed. [Store.Run] does both.
func (s *Store) AddWatch(namespace string) *Watch {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &Watch{store: s, namespace: namespace}
	s.watches = append(s.watches, w)
	return w
}

// Run feeds the store from the given watches until ctx ends; it may be called once. Lists and
// watches that fail are repeated with the Reflector's back-off (0.8 s to 30 s); [Store.Err] tells of
// the last failure.
func (s *Store) Run(ctx context.Context, watched ...Watched) {
	var reflectors sync.WaitGroup
	watches := make([]*Watch, len(watched))
	for i, from := range watched {
		watches[i] = s.AddWatch(from.Namespace)
	}
	for i, from := range watched {
		reflectors.Go(func() { watches[i].run(ctx, s.options.Name, from) })
	}
	reflectors.Wait()
}

func (w *Watch) run(ctx context.Context, name string, from Watched) {
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := from.From.List(ctx, options)
			w.setErr(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			events, err := from.From.Watch(ctx, options)
			w.setErr(err)
			return events, err
		},
	}
	var expected any
	if from.Expected != nil {
		expected = from.Expected
	}
	cache.NewReflectorWithOptions(lw, expected, w, cache.ReflectorOptions{
		Name: name, TypeDescription: name, MinWatchTimeout: 5 * time.Minute,
	}).RunWithContext(ctx)
}

// Err returns the failure of the last list or watch request of any watch, nil if the last ones
// succeeded.
func (s *Store) Err() error {
	s.mu.Lock()
	watches := s.watches
	s.mu.Unlock()
	for _, w := range watches {
		w.errMu.Lock()
		err := w.err
		w.errMu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *Watch) setErr(err error) {
	w.errMu.Lock()
	defer w.errMu.Unlock()
	w.err = err
}

// Add takes in an event of the watch.
func (w *Watch) Add(item any) error { return w.observe(item, false) }

// Update takes in an event of the watch.
func (w *Watch) Update(item any) error { return w.observe(item, false) }

// Delete takes in an event of the watch. Its object carries the version of the deletion.
func (w *Watch) Delete(item any) error { return w.observe(item, true) }

// objectOf returns what a watch delivered, prepared for the store.
func (s *Store) objectOf(item any) (Object, error) {
	o, ok := item.(Object)
	if !ok {
		return nil, fmt.Errorf("trc: store %s: %T is no API object", s.options.Name, item)
	}
	s.transform(o)
	return o, nil
}

func (w *Watch) observe(item any, deleted bool) error {
	s := w.store
	o, err := s.objectOf(item)
	if err != nil {
		return err
	}
	s.mu.Lock()
	version, _ := s.parseLocked(o.GetResourceVersion())
	seen := o
	if deleted {
		seen = nil
	}
	s.observeLocked(KeyOf(o), version, seen, false)
	s.passLocked(w, version)
	s.mu.Unlock()
	s.deliver()
	return nil
}

// Replace takes in a list, which may step over events. A list older than the progress of its watch
// means that the server went back in time (etcd restored from a backup): what was acknowledged
// before never happened, and is dropped.
func (w *Watch) Replace(items []any, resourceVersion string) error {
	s := w.store
	objects := make([]Object, len(items))
	for i, item := range items {
		var err error
		if objects[i], err = s.objectOf(item); err != nil {
			return err
		}
	}
	s.mu.Lock()
	version, _ := s.parseLocked(resourceVersion)
	listed := make(map[Key]struct{}, len(objects))
	if version < w.progress {
		s.forgetAheadLocked(w)
	}
	for _, o := range objects {
		listed[KeyOf(o)] = struct{}{}
		s.observeLocked(KeyOf(o), version, o, !w.listed)
	}
	for _, key := range s.coveredLocked(w) {
		if _, ok := listed[key]; !ok {
			s.observeLocked(key, version, nil, false)
		}
	}
	s.passLocked(w, version)
	w.listed = true
	s.closeSyncedLocked()
	s.mu.Unlock()
	s.deliver()
	return nil
}

// coveredLocked returns the keys that the watch covers and that are shown or ahead.
func (s *Store) coveredLocked(w *Watch) []Key {
	var keys []Key
	for _, item := range s.shown.List() {
		if key := KeyOf(item.(Object)); s.watchOfLocked(key.Namespace) == w {
			keys = append(keys, key)
		}
	}
	for key, e := range s.ahead {
		if e.object == nil && s.watchOfLocked(key.Namespace) == w {
			keys = append(keys, key)
		}
	}
	return keys
}

func (s *Store) forgetAheadLocked(w *Watch) {
	for key, e := range s.ahead {
		if s.watchOfLocked(key.Namespace) == w {
			delete(s.ahead, key)
			s.showLocked(key, e.base, false)
		}
	}
}

func (s *Store) closeSyncedLocked() {
	for _, w := range s.watches {
		if !w.listed {
			return
		}
	}
	if !s.syncedClosed {
		s.syncedClosed = true
		close(s.synced)
	}
}

// Bookmark moves the progress of the watch without an event.
func (w *Watch) Bookmark(resourceVersion string) error {
	s := w.store
	s.mu.Lock()
	if version, ok := s.parseLocked(resourceVersion); ok {
		s.passLocked(w, version)
	}
	s.mu.Unlock()
	s.deliver()
	return nil
}

// Resync does nothing: a resync is a matter of the scheduler's max interval.
func (w *Watch) Resync() error { return nil }

// Transformer drops managedFields already while the first list streams in.
func (w *Watch) Transformer() cache.TransformFunc {
	return func(item any) (any, error) {
		if o, ok := item.(Object); ok {
			w.store.transform(o)
		}
		return item, nil
	}
}
