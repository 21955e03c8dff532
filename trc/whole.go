package trc

import (
	"context"
	"fmt"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/evenkeel/evenkeel/internal/author"
)

// wholeTries bounds how often one read fetches anew because the object has changed meanwhile.
const wholeTries = 10

// Fetch reads an object from the server, consistently, and has what it found acknowledged in the store before it
// returns: the object, or with [Store.AcknowledgeGone] that there is none, for which it returns nil.
type Fetch func(ctx context.Context, key Key) (Object, error)

// Whole returns the object under a key as it was before [Options].Transform, or nil if there is none. It is the one
// read that may block, and only it may fail: if the object is not kept whole in the very version that readers see, it
// is fetched.
//
// What it returns is what readers see, and never older: a fetch that brings an older version than was
// acknowledged meanwhile is repeated. One that brings a newer version shows it to all readers, as an answer to
// an own write does, and is no progress of a watch. What it returns is shared.
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
		return nil, nil // gone with the last fetch
	}
	return nil, fmt.Errorf("trc: store %s: fetch %s: it was another version each of %d times than what is known of it (%s)",
		s.options.Name, key, wholeTries, shown.GetResourceVersion())
}

// WholeKept returns how many objects are kept whole beside what Transform leaves of them.
func (s *Store) WholeKept() int { return s.whole.len() }

func isSame(a, b Object) bool {
	return a.GetUID() == b.GetUID() && a.GetResourceVersion() == b.GetResourceVersion()
}

// shelf keeps some objects whole. Which version of one is of use only who reads it knows: what is shown decides.
// A nil shelf keeps none.
type shelf struct {
	limit int

	mu      sync.Mutex // guards what is below; a leaf
	objects *simplelru.LRU[Key, *shelved]
}

type shelved struct{ object Object }

func newShelf(limit int) *shelf {
	if limit <= 0 {
		return nil
	}
	objects, err := simplelru.NewLRU[Key, *shelved](limit, nil)
	if err != nil {
		panic(err) // it only refuses limits that are not positive
	}
	return &shelf{limit: limit, objects: objects}
}

// keep takes an object in, and returns one that may be pruned: a copy if it did. What nobody has asked for
// takes nobody's place.
func (s *shelf) keep(o Object, wanted bool) Object {
	if s == nil {
		return o
	}
	key := KeyOf(o)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch before, known := s.objects.Peek(key); {
	case known && !isNewer(before.object, o):
		before.object = o // it counts as used no later for that
		if wanted {
			s.objects.Get(key)
		}
	case known:
		return o
	case wanted || s.objects.Len() < s.limit:
		s.objects.Add(key, &shelved{o})
	default:
		return o
	}
	var copied Object
	if author.Try(func() { copied = o.DeepCopyObject().(Object) }) != nil { // it is an author's type
		s.objects.Remove(key)
		return o
	}
	return copied
}

// isNewer reports whether a is known to be newer than b.
func isNewer(a, b Object) bool {
	order, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
	return err == nil && order > 0
}

// take returns the object in the version that is shown, or nil.
func (s *shelf) take(key Key, shown Object) Object {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if found, ok := s.objects.Get(key); ok && isSame(found.object, shown) {
		return found.object
	}
	return nil
}

// drop lets go of an object that is gone, unless another one has taken its place.
func (s *shelf) drop(gone Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found, ok := s.objects.Peek(KeyOf(gone)); ok && found.object.GetUID() == gone.GetUID() {
		s.objects.Remove(KeyOf(gone))
	}
}

// clear lets go of all.
func (s *shelf) clear() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects.Purge()
}

func (s *shelf) len() int {
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects.Len()
}

// unshelveLocked lets go of what is no longer shown, once the lock is free.
func (s *Store) unshelveLocked(gone Object) {
	if s.whole != nil {
		s.pending = append(s.pending, delivery{call: func() { s.whole.drop(gone) }})
	}
}

// tidyLocked lets go of an object that has come in, if it is not shown.
func (s *Store) tidyLocked(o Object) {
	if s.whole != nil && s.items.find(KeyOf(o)) == nil {
		s.unshelveLocked(o)
	}
}

func (s *Store) tidyAllLocked(filings []filing) {
	if s.whole == nil {
		return
	}
	for i := range filings {
		if o := filings[i].object; o != nil {
			s.tidyLocked(o)
		}
	}
}
