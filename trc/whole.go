package trc

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/lru"

	"github.com/evenkeel/evenkeel/internal/author"
)

// wholeTries is how often one read fetches an object that changes meanwhile.
const wholeTries = 10

// Fetch reads an object from the server, consistently. Before it returns it must acknowledge the
// result to the store: the object, or with [Store.AcknowledgeGone] its absence, for which it
// returns nil.
type Fetch func(ctx context.Context, key Key) (Object, error)

// Whole returns the object under a key as it was before [Options].Transform, or nil if there is
// none. It is the only read that may block or fail: it fetches the object if the version that
// readers see is not kept whole.
//
// The result is the version that readers see, and never older. A fetch that returns an older
// version than was acknowledged meanwhile is repeated. A fetch that returns a newer version makes
// it visible to all readers, like the answer to an own write; it does not advance a watch. The
// result is shared and must not be changed.
func (s *Store) Whole(ctx context.Context, key Key, fetch Fetch) (Object, error) {
	shown := s.Get(key)
	for range wholeTries {
		if shown == nil || s.options.Transform == nil {
			return shown, nil
		}
		if whole := s.whole.take(key, shown); whole != nil {
			return whole, nil
		}
		fetched, err := fetch(ctx, key)
		if err != nil {
			return nil, fmt.Errorf("trc: store %s: fetch %s: %w", s.options.Name, key, err)
		}
		if shown = s.Get(key); fetched != nil && shown != nil && (isSame(fetched, shown) || !s.Comparable()) {
			return fetched, nil
		}
	}
	if shown == nil {
		return nil, nil // the last fetch found it gone
	}
	return nil, fmt.Errorf("trc: store %s: fetch %s: none of %d answers was the visible version (%s)",
		s.options.Name, key, wholeTries, shown.GetResourceVersion())
}

// WholeKept returns how many objects are kept as they were before Transform.
func (s *Store) WholeKept() int { return s.whole.len() }

func isSame(a, b Object) bool {
	return a.GetUID() == b.GetUID() && a.GetResourceVersion() == b.GetResourceVersion()
}

// wholeCache keeps some objects as they were before Transform. A kept version is used only if it is
// the visible one. A nil wholeCache keeps none.
type wholeCache struct {
	limit int

	mu      sync.Mutex // guards what is below; may be taken while the mutex of the store is held
	objects map[Key]Object
	uses    *lru.Cache // the keys of objects by their last use; what it evicts leaves objects
}

func newWholeCache(limit int) *wholeCache {
	if limit <= 0 {
		return nil
	}
	objects := map[Key]Object{}
	evicted := func(key lru.Key, _ any) { delete(objects, key.(Key)) }
	return &wholeCache{limit: limit, objects: objects, uses: lru.NewWithEvictionFunc(limit, evicted)}
}

// keep stores an object and returns one that may be pruned: a copy if it was stored. An object that
// nobody has read or written does not displace another.
func (s *wholeCache) keep(o Object, wanted bool) Object {
	if s == nil || !s.wants(o, wanted) {
		return o
	}
	var copied Object
	if author.Try(func() { copied = o.DeepCopyObject().(Object) }) != nil {
		s.drop(o)
		return o
	}
	s.add(o, wanted)
	return copied
}

// wants reports whether an object is to be stored.
func (s *wholeCache) wants(o Object, wanted bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wantsLocked(o, wanted)
}

func (s *wholeCache) wantsLocked(o Object, wanted bool) bool {
	if before := s.objects[KeyOf(o)]; before != nil {
		return !isNewer(before, o)
	}
	return wanted || len(s.objects) < s.limit
}

// add stores an object, unless that is no longer wanted.
func (s *wholeCache) add(o Object, wanted bool) {
	key := KeyOf(o)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.wantsLocked(o, wanted) {
		return
	}
	before := s.objects[key]
	s.objects[key] = o
	if before == nil || wanted { // a newer version that nobody asked for does not count as a use
		s.uses.Add(key, nil)
	}
}

// isNewer reports whether a is known to be newer than b.
func isNewer(a, b Object) bool {
	order, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
	return err == nil && order > 0
}

// take returns the object if it is kept in the visible version, otherwise nil.
func (s *wholeCache) take(key Key, shown Object) Object {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.objects[key]
	if found == nil || !isSame(found, shown) {
		return nil
	}
	s.uses.Get(key)
	return found
}

// drop removes an object that is gone, unless another one has taken its name.
func (s *wholeCache) drop(gone Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found := s.objects[KeyOf(gone)]; found != nil && found.GetUID() == gone.GetUID() {
		s.uses.Remove(KeyOf(gone))
	}
}

// clear removes all objects.
func (s *wholeCache) clear() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uses.Clear()
}

func (s *wholeCache) len() int {
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.objects)
}

// dropWholeLocked removes an object that is no longer visible from the whole objects, once the lock
// is free.
func (s *Store) dropWholeLocked(gone Object) {
	if s.whole != nil {
		s.pending = append(s.pending, delivery{call: func() { s.whole.drop(gone) }})
	}
}

// dropWholeUnlessVisibleLocked does the same for an object that has just arrived, if it is not
// visible.
func (s *Store) dropWholeUnlessVisibleLocked(o Object) {
	if s.whole != nil && s.items.find(KeyOf(o)) == nil {
		s.dropWholeLocked(o)
	}
}

func (s *Store) dropAllWholeUnlessVisibleLocked(filings []filing) {
	if s.whole == nil {
		return
	}
	for i := range filings {
		if o := filings[i].object; o != nil {
			s.dropWholeUnlessVisibleLocked(o)
		}
	}
}
