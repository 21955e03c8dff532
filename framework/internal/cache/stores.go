package cache

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/framework/internal/planning"
	"github.com/evenkeel/evenkeel/trc"
)

// Stores are the stores of a cluster that are in use. Callers of [Cluster.Open] with equal keys
// share a store.
type Stores struct {
	mu    sync.Mutex // guards the field below and the users of each store; a leaf
	byKey map[StoreKey]*Store
}

// share adds a user to the store of a key and returns the store. If there is none, the store is
// made. It returns nil if made is nil, too.
func (s *Stores) share(key StoreKey, made *Store) *Store {
	s.mu.Lock()
	defer s.mu.Unlock()
	shared := s.byKey[key]
	if shared == nil {
		if shared = made; made == nil {
			return nil
		}
		s.byKey[key] = made
	}
	shared.users++
	return shared
}

// Release ends the use of a store by one caller of Open. It reports whether that was the last one:
// then Open no longer returns the store.
func (s *Stores) Release(store *Store) (last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if store.users--; store.users > 0 {
		return false
	}
	delete(s.byKey, store.Key)
	return true
}

// AllStores returns the stores in a stable order.
func (s *Stores) AllStores() []*Store {
	all := s.storesWhere(func(schema.GroupVersionKind) bool { return true })
	slices.SortFunc(all, func(a, b *Store) int { return strings.Compare(a.Describe(), b.Describe()) })
	return all
}

// StoresOf returns the stores of one version of a kind.
func (s *Stores) StoresOf(gvk schema.GroupVersionKind) []*Store {
	return s.storesWhere(func(key schema.GroupVersionKind) bool { return key == gvk })
}

// Showing returns a store of a version of a kind that shows an object of that key, and the object.
// It prefers stores that hold more than metadata. The store is nil if there is none.
func (s *Stores) Showing(gvk schema.GroupVersionKind, key trc.Key) (store *Store, shown trc.Object) {
	var some [4]*Store
	found := some[:0] // without an allocation: this is done for each write
	s.mu.Lock()
	for kept, store := range s.byKey {
		if kept.GVK == gvk {
			found = append(found, store)
		}
	}
	s.mu.Unlock()
	for _, other := range found {
		if store != nil && other.Key.Form == object.Metadata {
			continue
		}
		if o := other.Get(key); o != nil {
			store, shown = other, o
		}
	}
	return store, shown
}

// StoresOfKind returns the stores of all versions of a kind.
func (s *Stores) StoresOfKind(kind schema.GroupKind) []*Store {
	return s.storesWhere(func(key schema.GroupVersionKind) bool { return key.GroupKind() == kind })
}

// storesWhere returns the stores of the kinds that is accepts.
func (s *Stores) storesWhere(is func(schema.GroupVersionKind) bool) []*Store {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []*Store
	for key, store := range s.byKey {
		if is(key.GVK) {
			found = append(found, store)
		}
	}
	return found
}

// isWatched reports whether a store watches a resource.
func (s *Stores) isWatched(r *client.Client) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, store := range s.byKey {
		if store.Resource == r {
			return true
		}
	}
	return false
}

// ForgetDecoded clears the decode cache of a resource that no store watches.
func (s *Stores) ForgetDecoded(r *client.Client) {
	if s.isWatched(r) {
		return
	}
	r.Decoded.Rest()
	if s.isWatched(r) { // it is watched again; Open may have set it before
		r.Decoded.Watched.Store(true)
	}
}

// keepsUnstructured reports whether a cache keeps unstructured objects of a version of a kind.
func (s *Stores) keepsUnstructured(gvk schema.GroupVersionKind) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.byKey {
		if key.GVK == gvk && key.Form == object.Unstructured {
			return true
		}
	}
	return false
}

// inOtherVersions returns the clients of the kind that caches use in other versions of its group.
func (s *Stores) inOtherVersions(gvk schema.GroupVersionKind) []*client.Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found map[schema.GroupVersionKind]*client.Client // usually there is none
	for key, store := range s.byKey {
		if key.GVK != gvk && key.GVK.GroupKind() == gvk.GroupKind() {
			if found == nil {
				found = map[schema.GroupVersionKind]*client.Client{}
			}
			found[key.GVK] = store.Resource.Writes
		}
	}
	return slices.Collect(maps.Values(found))
}

// Comparable reports whether the versions of a kind can be compared. Only then do they prove
// anything.
func (s *Stores) Comparable(gvk schema.GroupVersionKind) bool {
	return !slices.ContainsFunc(s.StoresOfKind(gvk.GroupKind()), func(store *Store) bool { return !store.Comparable() })
}

// AwaitRoom waits until the caches of a kind have room for the answer to a request. In a plan there
// is always room: the watch never delivers what is not written.
func (s *Stores) AwaitRoom(ctx context.Context, gvk schema.GroupVersionKind) error {
	if planning.Of(ctx) != nil {
		return nil
	}
	for _, store := range s.StoresOfKind(gvk.GroupKind()) {
		if err := store.Room(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Pruned returns the keys of the stores of a kind that have a transform.
//
// Objects that were read from a cache that keeps a part of them must not be written back as if they
// were whole. A partial copy looks like a whole one. Therefore a write compares with the server's
// object whether it would change a part that some cache of the kind drops. It compares with the
// version that the write is for, as the server refuses the write for any other.
func (s *Stores) Pruned(r *client.Client) []StoreKey {
	var found []StoreKey
	for _, store := range s.StoresOf(r.GVK) {
		if store.Key.Prune != nil {
			found = append(found, store.Key)
		}
	}
	return found
}

// Shows reports whether a cache has that very object.
func (s *Stores) Shows(gvk schema.GroupVersionKind, key trc.Key, uid types.UID) bool {
	return slices.ContainsFunc(s.StoresOf(gvk), func(store *Store) bool {
		o := store.Get(key)
		return o != nil && o.GetUID() == uid
	})
}
