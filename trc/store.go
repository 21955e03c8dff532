package trc

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// Object is any API object: a typed one, unstructured or metadata-only.
type Object interface {
	metav1.Object
	runtime.Object
}

// Key names an object within its resource; Namespace is empty for cluster-scoped ones.
type Key = types.NamespacedName

// KeyOf returns the key of an object.
func KeyOf(o Object) Key { return Key{Namespace: o.GetNamespace(), Name: o.GetName()} }

// Options configure a [Store].
type Options struct {
	// Name says whose store this is in errors and logs, as in "configmaps".
	Name string
	// Visible tells whether an object lies within the selector of the store's watches. Default: all
	// do. It must be pure.
	Visible func(Object) bool
	// KeepManagedFields leaves metadata.managedFields in the cached objects. By default they are
	// dropped, as they often are half of an object's size.
	KeepManagedFields bool
}

// Transition is a step of what readers see of one object. Old is nil for an addition, New for a
// deletion; both have the same UID otherwise.
type Transition struct {
	Old, New Object
	// Initial is set for objects that were there when the subscription began or that a list found.
	Initial bool
}

// Store is the resources of one kind as readers see them. Create it with [NewStore].
type Store struct {
	options Options
	shown   cache.ThreadSafeStore // written under mu, read without

	mu           sync.Mutex // orders all changes; guards everything below
	watches      []*Watch
	ahead        map[Key]*entry
	incomparable bool
	subscribers  []*subscriber
	pending      []delivery
	delivering   bool
	synced       chan struct{}
	syncedClosed bool
}

// entry is a key whose shown state is ahead of its watch. Invariants: version is beyond the watch's
// progress, or gone is set and base still has its UID.
type entry struct {
	version uint64
	uid     types.UID // whose version that is
	object  Object    // what is shown; nil for nothing: it is gone, or outside the selector
	gone    bool      // the object with uid is known to be deleted, at a version after this one
	base    Object    // what the watch would show; nil for nothing
}

type subscriber struct {
	handle func(Transition)
	ended  atomic.Bool
}

type delivery struct {
	transition Transition
	to         *subscriber
	after      func() // instead of a transition
}

// NewStore returns an empty store without watches.
func NewStore(options Options) *Store {
	return &Store{
		options: options,
		shown:   cache.NewThreadSafeStore(cache.Indexers{}, cache.Indices{}),
		ahead:   map[Key]*entry{},
		synced:  make(chan struct{}),
	}
}

// Get returns the object as readers see it now, or nil.
func (s *Store) Get(key Key) Object {
	item, ok := s.shown.Get(key.String())
	if !ok {
		return nil
	}
	return item.(Object)
}

// List returns the objects of a namespace ("" for all) that match the selector (nil for all), in no
// order.
func (s *Store) List(namespace string, selector labels.Selector) []Object {
	var found []Object
	for _, item := range s.shown.List() {
		o := item.(Object)
		if namespace != "" && o.GetNamespace() != namespace {
			continue
		}
		if selector != nil && !selector.Matches(labels.Set(o.GetLabels())) {
			continue
		}
		found = append(found, o)
	}
	return found
}

// Len returns the number of objects shown.
func (s *Store) Len() int { return len(s.shown.ListKeys()) }

// AddIndex adds an index over what readers see; it may be called at any time. The function must be
// pure and must not read the store: it is called while that is locked. A second index of the same
// name is refused.
func (s *Store) AddIndex(name string, values func(Object) []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, taken := s.shown.GetIndexers()[name]; taken {
		return fmt.Errorf("trc: store %s: index %q exists", s.options.Name, name)
	}
	return s.shown.AddIndexers(cache.Indexers{name: func(item any) ([]string, error) {
		return values(item.(Object)), nil
	}})
}

// ByIndex returns the objects that the named index files under value, in no order.
func (s *Store) ByIndex(name, value string) ([]Object, error) {
	items, err := s.shown.ByIndex(name, value)
	if err != nil {
		return nil, fmt.Errorf("trc: store %s: index %q: %w", s.options.Name, name, err)
	}
	objects := make([]Object, len(items))
	for i, item := range items {
		objects[i] = item.(Object)
	}
	return objects, nil
}

// Subscribe delivers every object there is as an initial addition, and every transition from then
// on, in order and one at a time. handle must not block for long: it holds up the watch. If it
// panics, whoever delivers does, be it the watch or a writer; only that transition of that
// subscriber is lost.
//
// The returned function ends the subscription: no call begins after it has returned, except one that
// another goroutine is just about to make.
func (s *Store) Subscribe(handle func(Transition)) (unsubscribe func()) {
	sub := &subscriber{handle: handle}
	s.mu.Lock()
	for _, item := range s.shown.List() {
		s.pending = append(s.pending, delivery{transition: Transition{New: item.(Object), Initial: true}, to: sub})
	}
	s.subscribers = append(s.subscribers, sub)
	s.mu.Unlock()
	s.deliver()
	return func() {
		sub.ended.Store(true)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.subscribers = slices.DeleteFunc(s.subscribers, func(other *subscriber) bool { return other == sub })
	}
}

// After calls f once everything that was queued for the subscribers when After was called has been
// delivered, from the goroutine that delivers or from this one.
func (s *Store) After(f func()) {
	s.mu.Lock()
	s.pending = append(s.pending, delivery{after: f})
	s.mu.Unlock()
	s.deliver()
}

// Synced is closed once every watch has delivered its first list.
func (s *Store) Synced() <-chan struct{} { return s.synced }

// Comparable reports whether the overlay works: false once a resourceVersion was seen that is not an
// integer. The store then serves what its watches deliver and nothing else.
func (s *Store) Comparable() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.incomparable
}

// Ahead returns the number of keys whose shown state is ahead of their watch.
func (s *Store) Ahead() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.ahead)
}

// show changes what readers see and queues the transition. It must be called with mu held.
func (s *Store) showLocked(key Key, o Object, initial bool) {
	old := s.Get(key)
	if o == nil {
		if old != nil {
			s.shown.Delete(key.String())
			s.queueLocked(Transition{Old: old})
		}
		return
	}
	s.shown.Update(key.String(), o)
	switch {
	case old == nil:
		s.queueLocked(Transition{New: o, Initial: initial})
	case old.GetUID() != o.GetUID():
		s.queueLocked(Transition{Old: old})
		s.queueLocked(Transition{New: o, Initial: initial})
	case old.GetResourceVersion() != o.GetResourceVersion():
		s.queueLocked(Transition{Old: old, New: o, Initial: initial})
	}
}

func (s *Store) queueLocked(t Transition) {
	for _, sub := range s.subscribers {
		s.pending = append(s.pending, delivery{transition: t, to: sub})
	}
}

// deliver hands out what is pending, unless another goroutine is at it already: that one will then
// hand out ours too, in order.
func (s *Store) deliver() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.delivering {
		return
	}
	s.delivering = true
	defer func() { s.delivering = false }()
	for len(s.pending) > 0 {
		batch := s.pending
		s.pending = nil
		s.handOut(batch)
	}
}

// handOut calls the subscribers without the lock, which it must be called with. What a panic leaves
// over stays pending for the next who delivers, which is the next bookmark at the latest.
func (s *Store) handOut(batch []delivery) {
	s.mu.Unlock()
	next := 0
	defer func() {
		s.mu.Lock()
		if next < len(batch) {
			s.pending = append(batch[next:], s.pending...)
		}
	}()
	for next < len(batch) {
		d := batch[next]
		next++
		if d.after != nil {
			d.after()
		} else if !d.to.ended.Load() {
			d.to.handle(d.transition)
		}
	}
}

// transform prepares an object for the store, in place.
func (s *Store) transform(o Object) {
	if !s.options.KeepManagedFields {
		o.SetManagedFields(nil)
	}
}
