package trc

import (
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
)

// DefaultAheadLimit is how many keys may be ahead of their watch before writers are held back.
const DefaultAheadLimit = 100_000

// Options configure a [Store].
type Options struct {
	// Name says whose store this is in errors and logs, as in "configmaps".
	Name string
	// Visible tells whether an object lies within the selector of the store's watches. Default: all
	// do. It must be pure; it is called without any lock.
	Visible func(Object) bool
	// KeepManagedFields leaves metadata.managedFields in the cached objects. By default they are
	// dropped, as they often are half of an object's size.
	KeepManagedFields bool
	// Transform drops, in place, what is not needed of an object before it is kept. What the store and the life of
	// an object rest on survives whatever it does: name, namespace, UID, resourceVersion, generation, the times of
	// creation and deletion, owner references, finalizers. It is applied once to everything that enters, answers to own
	// writes too, so indexes, subscribers and readers see what it leaves; Visible sees the whole object. It must be
	// pure, and may be called for several objects at once, without any lock. If it panics, the object is kept as
	// far as it got. Default: nothing is dropped.
	Transform func(Object)
	// KeepWhole is how many objects are kept whole beside what Transform leaves of all of them, for [Store.Whole]:
	// those that were read or written last, and others while there is room. Default: none.
	KeepWhole int
	// AheadLimit is the number of keys ahead of their watch from which on [Store.Room] holds writers
	// back. Default: [DefaultAheadLimit]. Too low, and writers wait whenever the watch is a little
	// late; too high, and a watch that stalls costs memory: some 300 bytes a key beside the objects.
	AheadLimit int
	// StaleAfter is how long nothing may be heard on a watch; see [Store.Stale]. Default: [DefaultStaleAfter].
	// Under 2 minutes it is shorter than what lies between two bookmarks.
	StaleAfter time.Duration
	// OnIncomparable is called once, when a resourceVersion turns out to be no integer: see
	// [Store.Comparable]. It is called as a subscriber is: in order, without any lock, before the
	// transitions that follow from it.
	OnIncomparable func(version string)
	// OnRewound is called whenever a list is older than what its watch had delivered, which means that
	// the API server went back in time: etcd was restored from a backup. The overlay of that watch has
	// been dropped, and every listed object is told as changed, though its version be the same. What the
	// owner remembers of versions (a ledger, a memo) is void. It is called as OnIncomparable is.
	OnRewound func(progress, listed string)
	// OnSetAside is called when an object is set aside, and again when what does not fit is another. It is
	// called as OnIncomparable is. See [Store.SetAside].
	OnSetAside func(*Undecoded)
}

// Store is the resources of one kind as readers see them. Create it with [NewStore].
type Store struct {
	options   Options
	born      time.Time
	detector  cache.MutationDetector
	detecting sync.Once
	indexes   atomic.Pointer[[]*index] // changed under mu
	whole     *shelf                   // nil unless KeepWhole
	sharing   *sharing

	mu           sync.RWMutex // a leaf; guards everything below and what the indexes and watches hold
	items        items
	watches      map[string]*Watch // by namespace
	ahead        map[Key]*entry
	aside        map[Key]*setAside
	room         chan struct{} // closed when the overlay is no longer full; nil if nobody waits
	incomparable bool
	deleted      recentlyDeleted // while incomparable
	subscribers  []*subscriber
	pending      []delivery
	delivering   bool
	synced       chan struct{}
	syncedClosed bool
}

// NewStore returns an empty store without watches.
func NewStore(options Options) *Store {
	if options.AheadLimit <= 0 {
		options.AheadLimit = DefaultAheadLimit
	}
	if options.StaleAfter <= 0 {
		options.StaleAfter = DefaultStaleAfter
	}
	return &Store{
		options:  options,
		whole:    newShelf(options.KeepWhole),
		sharing:  newSharing(),
		born:     time.Now(),
		detector: cache.NewCacheMutationDetector(options.Name),
		items:    newItems(),
		watches:  map[string]*Watch{},
		ahead:    map[Key]*entry{},
		aside:    map[Key]*setAside{},
		synced:   make(chan struct{}),
	}
}

// Get returns the object as readers see it now, or nil.
func (s *Store) Get(key Key) Object {
	s.mu.RLock()
	it := s.items.find(key)
	if it == nil {
		s.mu.RUnlock()
		return nil
	}
	o := it.object
	s.mu.RUnlock()
	return o
}

// List returns the objects of a namespace ("" for all) that match the selector (nil for all), in no
// order.
func (s *Store) List(namespace string, selector labels.Selector) []Object {
	s.mu.RLock()
	objects := s.items.objects(namespace)
	s.mu.RUnlock()
	if selector == nil || selector.Empty() {
		return objects
	}
	matching := objects[:0]
	for _, o := range objects {
		if selector.Matches(labels.Set(o.GetLabels())) {
			matching = append(matching, o)
		}
	}
	clear(objects[len(matching):])
	return matching
}

// Keys returns the keys of the objects of a namespace ("" for all), in no order.
func (s *Store) Keys(namespace string) []Key {
	objects := s.List(namespace, nil)
	keys := make([]Key, len(objects))
	for i, o := range objects {
		keys[i] = KeyOf(o)
	}
	return keys
}

// Len returns the number of objects shown.
func (s *Store) Len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.items.count()
}

// Synced is closed once every watch has delivered its first list.
func (s *Store) Synced() <-chan struct{} { return s.synced }

// showLocked changes what readers see of a key to f, or to nothing if f has no object, and queues the
// transition. Renewed says that an object is another one even at the same version.
func (s *Store) showLocked(key Key, f *filing, initial, renewed bool) {
	if f.aside != nil {
		s.setAsideLocked(key, f.aside)
		return
	}
	s.fetchLocked(key, f)
	o := f.object
	if o == nil {
		if old := s.items.remove(key); old != nil {
			s.unshelveLocked(old)
			s.queueLocked(Transition{Old: old})
		}
		return
	}
	old := s.items.put(key, f)
	switch {
	case old == nil:
		s.queueLocked(Transition{New: o, Initial: initial})
	case old.GetUID() != o.GetUID():
		s.queueLocked(Transition{Old: old})
		s.queueLocked(Transition{New: o, Initial: initial})
	case renewed || old.GetResourceVersion() != o.GetResourceVersion():
		s.queueLocked(Transition{Old: old, New: o, Initial: initial})
	}
}
