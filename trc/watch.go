package trc

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"sync/atomic"

	"k8s.io/client-go/tools/cache"
)

// Watch is the side of a [Store] that a client-go Reflector feeds. It implements
// cache.ReflectorStore, cache.ReflectorBookmarkStore and cache.TransformingStore. An item that is
// no API object, is nil, or lacks a name, resourceVersion or UID is refused with an error and
// changes nothing. A list with one such item is refused as a whole.
type Watch struct {
	store     *Store
	namespace string

	// Guarded by store.mu.
	progress uint64 // the version up to which everything is in the store
	ahead    byVersion
	listed   bool
	filled   chan struct{} // closed when the watch is listed or removed
	removed  bool
	stop     context.CancelFunc // stops the feed; nil if it is not fed by Run

	doing        doing
	err          atomic.Pointer[error] // of the last request; nil before the first
	lastActivity atomic.Int64          // time of the last sign of life, since the store was made
	begun        atomic.Int64          // time when the last watch request was answered, likewise
	bookmarked   atomic.Bool           // the server sends bookmarks
}

var (
	_ cache.ReflectorBookmarkStore = (*Watch)(nil)
	_ cache.TransformingStore      = (*Watch)(nil)
)

// AddWatch adds a watch of a namespace ("" for all) to the store, for a Reflector to feed, and
// returns it. It returns the existing watch if there is one. [Store.Run] does both. A store has
// either one watch of all namespaces or watches of single ones, not both.
func (s *Store) AddWatch(namespace string) *Watch {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addWatchLocked(namespace)
}

func (s *Store) addWatchLocked(namespace string) *Watch {
	w := s.watches[namespace]
	if w == nil {
		w = &Watch{store: s, namespace: namespace, filled: make(chan struct{})}
		s.watches[namespace] = w
	}
	return w
}

// RemoveWatch ends the watch of a namespace. If there is none it does nothing. Readers no longer
// see objects of the namespace, and answers to writes there are ignored. No transitions are
// emitted, because nothing was deleted; those queued before are still delivered. What the Watch
// receives afterwards is dropped without an error, and [Store.Run] stops feeding it. If the
// namespace is added again, its objects come as additions.
func (s *Store) RemoveWatch(namespace string) {
	s.mu.Lock()
	w := s.watches[namespace]
	if w == nil {
		s.mu.Unlock()
		return
	}
	delete(s.watches, namespace)
	w.removed = true
	w.closeFilledLocked()
	for _, key := range s.aheadOfLocked(w) {
		s.removeEntryLocked(key)
	}
	for _, o := range s.items.objects(namespace) {
		s.items.remove(KeyOf(o))
		s.dropWholeLocked(o)
	}
	maps.DeleteFunc(s.undecodable, func(key Key, _ *undecodableEntry) bool { return namespace == "" || key.Namespace == namespace })
	s.closeSyncedLocked()
	stop := w.stop
	s.unlockAndDeliver()
	if stop != nil {
		stop()
	}
}

func (s *Store) watchOfLocked(namespace string) *Watch {
	if w := s.watches[""]; w != nil {
		return w
	}
	return s.watches[namespace]
}

// aheadOfLocked returns the keys that are ahead of a watch.
func (s *Store) aheadOfLocked(w *Watch) []Key {
	var keys []Key
	for key, e := range s.ahead {
		if e.watch == w {
			keys = append(keys, key)
		}
	}
	return keys
}

// Add applies an event of the watch.
func (w *Watch) Add(item any) error { return w.observe(item, false) }

// Update applies an event of the watch.
func (w *Watch) Update(item any) error { return w.observe(item, false) }

// Delete applies a deletion event of the watch. Its object carries the version of the deletion.
func (w *Watch) Delete(item any) error { return w.observe(item, true) }

func (w *Watch) observe(item any, deleted bool) error {
	s := w.store
	var seen [1]filing
	if deleted {
		if _, err := objectOf(item); err != nil {
			return fmt.Errorf("trc: store %s: %w", s.options.Name, err)
		}
	} else {
		var err error
		if seen[0], err = s.take(item, inEvent); err != nil {
			return fmt.Errorf("trc: store %s: %w", s.options.Name, err)
		}
	}
	o := item.(Object)
	w.recordActivity(&w.doing.event)
	s.lockFiled(seen[:])
	if w.removed {
		s.dropWholeUnlessVisibleLocked(o)
		s.unlockAndDeliver()
		return nil
	}
	version, _ := s.parseLocked(o.GetResourceVersion())
	s.observeLocked(KeyOf(o), version, &seen[0], false, false)
	s.advanceLocked(w, max(version, w.progress))
	s.dropWholeUnlessVisibleLocked(o)
	s.unlockAndDeliver()
	return nil
}

// Replace applies a list, which may skip events. A list older than the progress of its watch means
// that the server went back in time (etcd was restored from a backup): writes that were
// acknowledged before no longer exist, and their overlay entries are dropped. See
// [Options].OnRewound.
func (w *Watch) Replace(items []any, resourceVersion string) error {
	s := w.store
	objects := make([]filing, len(items))
	keys := make([]Key, len(items))
	listed := make(map[Key]struct{}, len(items))
	for i, item := range items {
		if _, err := objectOf(item); err != nil { // check all before any is prepared
			return fmt.Errorf("trc: store %s: list: item %d: %w", s.options.Name, i, err)
		}
	}
	for i, item := range items {
		objects[i], _ = s.take(item, inList)
		keys[i] = KeyOf(item.(Object))
		listed[keys[i]] = struct{}{}
	}
	w.recordActivity(&w.doing.list)
	s.lockFiled(objects)
	defer s.unlockAndDeliver()
	defer s.dropAllWholeUnlessVisibleLocked(objects)
	if w.removed {
		return nil
	}
	version, ok := s.parseLocked(resourceVersion)
	rewound := ok && version < w.progress
	if rewound {
		s.rewindLocked(w, resourceVersion)
	}
	for i := range objects {
		s.observeLocked(keys[i], version, &objects[i], !w.listed, rewound)
	}
	for _, key := range s.unlistedLocked(w, listed) {
		s.observeLocked(key, version, &filing{}, false, false)
	}
	s.advanceLocked(w, version)
	w.listed = true
	w.closeFilledLocked()
	s.closeSyncedLocked()
	return nil
}

// unlistedLocked returns the keys of the watch that are visible, undecodable or ahead, and not
// listed.
func (s *Store) unlistedLocked(w *Watch, listed map[Key]struct{}) []Key {
	var keys []Key
	for _, o := range s.items.objects(w.namespace) {
		if key := KeyOf(o); s.watchOfLocked(key.Namespace) == w {
			if _, ok := listed[key]; !ok {
				keys = append(keys, key)
			}
		}
	}
	for key := range s.undecodable {
		if _, ok := listed[key]; !ok && s.watchOfLocked(key.Namespace) == w {
			keys = append(keys, key)
		}
	}
	for _, key := range s.aheadOfLocked(w) {
		if _, ok := listed[key]; !ok && s.ahead[key].result.object == nil {
			keys = append(keys, key)
		}
	}
	return keys
}

// rewindLocked drops the overlay of a watch whose server has gone back in time. The list that
// revealed it then emits one step, from the visible state to the listed one.
func (s *Store) rewindLocked(w *Watch, listed string) {
	if hook, progress := s.options.OnRewound, strconv.FormatUint(w.progress, 10); hook != nil {
		s.pending = append(s.pending, delivery{call: func() { hook(progress, listed) }})
	}
	for _, key := range s.aheadOfLocked(w) {
		s.removeEntryLocked(key)
	}
	s.whole.clear() // the server may give the same versions to other states
}

func (w *Watch) closeFilledLocked() {
	select {
	case <-w.filled:
	default:
		close(w.filled)
	}
}

// Filled returns a channel that is closed once the present watch of a namespace has delivered its
// first list, or is removed. If there is no such watch, the channel is closed already.
func (s *Store) Filled(namespace string) <-chan struct{} {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if w := s.watches[namespace]; w != nil {
		return w.filled
	}
	none := make(chan struct{})
	close(none)
	return none
}

// Covers reports whether the objects of a namespace are watched and have been listed.
func (s *Store) Covers(namespace string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	w := s.watchOfLocked(namespace)
	return w != nil && w.listed
}

// IsWatched reports whether the objects of a namespace are watched, listed or not.
func (s *Store) IsWatched(namespace string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.watchOfLocked(namespace) != nil
}

// Listed reports whether every present watch has delivered its first list.
func (s *Store) Listed() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, w := range s.watches {
		if !w.listed {
			return false
		}
	}
	return true
}

func (s *Store) closeSyncedLocked() {
	if s.syncedClosed || len(s.watches) == 0 {
		return
	}
	for _, w := range s.watches {
		if !w.listed {
			return
		}
	}
	s.syncedClosed = true
	close(s.synced)
}

// Bookmark advances the progress of the watch without an event.
func (w *Watch) Bookmark(resourceVersion string) error {
	s := w.store
	w.bookmarked.Store(true)
	w.recordActivity(&w.doing.bookmark)
	s.mu.Lock()
	if version, ok := s.parseLocked(resourceVersion); ok && !w.removed {
		s.advanceLocked(w, max(version, w.progress))
	}
	s.unlockAndDeliver()
	return nil
}

// Resync does nothing. The scheduler's max interval takes its place.
func (w *Watch) Resync() error { return nil }

// Transformer prepares objects for the store while the first list streams in.
func (w *Watch) Transformer() cache.TransformFunc {
	return func(item any) (any, error) {
		o, err := objectOf(item)
		_, isUndecoded := item.(*Undecodable)
		_, isPrepared := item.(*prepared)
		if err != nil || isUndecoded || isPrepared {
			return item, nil
		}
		f := w.store.prepare(o, inList)
		if f.undecodable != nil {
			return f.undecodable, nil
		}
		return &prepared{f.object, f.last}, nil
	}
}
