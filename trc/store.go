package trc

import (
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
)

// DefaultAheadLimit is the default of [Options].AheadLimit: the number of keys that may be ahead of
// their watch before writers are held back.
const DefaultAheadLimit = 100_000

// Options configure a [Store].
type Options struct {
	// Name identifies the store in errors and logs, as in "configmaps".
	Name string
	// Visible reports whether an object matches the selector of the store's watches. Default: all
	// objects match. It must be pure. It is called without any lock.
	Visible func(Object) bool
	// KeepManagedFields keeps metadata.managedFields in the cached objects. Default: they are dropped,
	// because they are often half of an object's size.
	KeepManagedFields bool
	// Transform removes, in place, the parts of an object that are not needed, before the store keeps
	// it. Default: nothing is removed.
	//
	// It is applied once to everything that enters the store, including answers to own writes.
	// Indexes, subscribers and readers see its result; Visible sees the whole object. Name, namespace,
	// UID, resourceVersion, generation, the times of creation and deletion, owner references and
	// finalizers survive whatever it does.
	//
	// It must be pure. It may be called for several objects at once, without any lock. If it panics,
	// the object is kept as far as it got.
	Transform func(Object)
	// KeepWhole is the number of objects that are also kept as they were before Transform, for
	// [Store.Whole]. Default: none. The store keeps those that were read or written last, and others
	// while there is room.
	KeepWhole int
	// AheadLimit is the number of keys ahead of their watch from which [Store.Room] holds writers
	// back. Default: [DefaultAheadLimit]. If it is too low, writers wait whenever the watch is a
	// little late. If it is too high, a stalled watch costs memory: some 300 bytes a key beside the
	// objects.
	AheadLimit int
	// StaleAfter is how long a watch may be silent; see [Store.Stale]. Default: [DefaultStaleAfter]. A
	// value under 2 minutes is shorter than the time between two bookmarks.
	StaleAfter time.Duration
	// OnIncomparable is called once, when a resourceVersion is not an integer: see [Store.Comparable].
	// It is called like a subscriber: in order, without any lock, before the transitions that follow
	// from it.
	OnIncomparable func(version string)
	// OnRewound is called whenever a list is older than what its watch had delivered. That means that
	// the API server went back in time: etcd was restored from a backup. The overlay of that watch has
	// been dropped, and a transition is emitted for every listed object, even if its version is the
	// same. The owner must drop everything it remembers about versions, such as a ledger. It is called
	// like OnIncomparable.
	OnRewound func(progress, listed string)
	// OnUndecodable is called when an object becomes undecodable, and again when its error changes. It
	// is called like OnIncomparable. See [Store.Undecodable].
	OnUndecodable func(*Undecodable)
}

// Store holds the resources of one kind as readers see them. Create it with [NewStore].
type Store struct {
	options   Options
	born      time.Time
	detector  cache.MutationDetector
	detecting sync.Once
	indexes   atomic.Pointer[[]*index] // changed under mu
	whole     *wholeCache              // nil unless KeepWhole
	sharing   *sharing

	mu           sync.RWMutex // a leaf; guards the fields below and the indexes and watches
	items        items
	watches      map[string]*Watch // by namespace
	ahead        map[Key]*overlayEntry
	undecodable  map[Key]*undecodableEntry
	room         chan struct{} // closed when the overlay is no longer full; nil if nobody waits
	incomparable bool
	deleted      recentlyDeleted // used while incomparable
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
		options:     options,
		whole:       newWholeCache(options.KeepWhole),
		sharing:     newSharing(),
		born:        time.Now(),
		detector:    cache.NewCacheMutationDetector(options.Name),
		items:       newItems(),
		watches:     map[string]*Watch{},
		ahead:       map[Key]*overlayEntry{},
		undecodable: map[Key]*undecodableEntry{},
		synced:      make(chan struct{}),
	}
}

// Get returns the object that readers see now, or nil. It is shared and must not be changed.
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
// order. The objects are shared, the slice is the caller's.
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

// Len returns the number of visible objects.
func (s *Store) Len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.items.count()
}

// Synced is closed once every watch has delivered its first list.
func (s *Store) Synced() <-chan struct{} { return s.synced }

// setVisibleLocked makes f the state that readers see of a key, or nothing if f has no object. It
// queues the transition. renewed emits a transition even if the version is the same.
func (s *Store) setVisibleLocked(key Key, f *filing, initial, renewed bool) {
	if f.undecodable != nil {
		s.markUndecodableLocked(key, f.undecodable)
		return
	}
	s.clearUndecodableLocked(key, f)
	o := f.object
	if o == nil {
		if old := s.items.remove(key); old != nil {
			s.dropWholeLocked(old)
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
