package cache

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/trc"
)

// StoreKey is what two stores must have in common to be one.
type StoreKey struct {
	clientKey
	Follows        *Scope // whose namespaces, whatever they are
	namespaces     string // if it follows none
	labels, fields string
	Retention
}

type Store struct {
	*trc.Store
	Key      StoreKey
	Resource *client.Client
	Cluster  *Cluster
	feeding  sync.Once
	fed      sync.WaitGroup // what feeds it
	users    int            // who read it; guarded by the cluster's mutex

	mu         sync.Mutex // guards below; a leaf
	namespaces []string   // that are watched, "" for all
	onRewound  []func()
	onSetAside []func(*trc.Undecodable) // only where this instance may work
}

// Watch is what a store watches of a resource.
type Watch struct {
	Namespaces     []string // empty for all
	Follows        *Scope   // that they are of, and change with; nil if they are fixed
	Labels, Fields string
	Retention
}

// Open returns the store that watches the resource so, which is shared by all who ask alike. Each of them
// releases it when it reads no more.
func (c *Cluster) Open(r *client.Client, w Watch) (*Store, error) {
	selector, err := labels.Parse(w.Labels)
	if err != nil {
		return nil, fmt.Errorf("framework: label selector %q: %w", w.Labels, err)
	}
	field, err := fields.ParseSelector(w.Fields)
	if err != nil {
		return nil, fmt.Errorf("framework: field selector %q: %w", w.Fields, err)
	}
	shard, err := client.ParseShard(w.Shard)
	if err != nil {
		return nil, fmt.Errorf("framework: %w", err)
	}
	namespaces := NamespaceList(w.Namespaces)
	if !r.Namespaced {
		namespaces, w.Follows = []string{""}, nil
	}
	key := StoreKey{
		clientKey: clientKey{GVK: r.GVK, Form: r.Form}, Follows: w.Follows, labels: selector.String(), fields: w.Fields,
		Retention: w.Retention,
	}
	if w.Follows == nil {
		key.namespaces = strings.Join(namespaces, ",")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if shared := c.stores[key]; shared != nil {
		shared.users++
		return shared, nil
	}
	shared := &Store{Key: key, Resource: r, Cluster: c, users: 1, namespaces: namespaces}
	shared.Store = trc.NewStore(trc.Options{
		Name: r.Name, Visible: client.InShard(shard, selects(selector, field)), StaleAfter: c.StaleAfter,
		Transform: c.GuardedPrune(w.Prune), KeepWhole: w.Whole,
		OnIncomparable: func(version string) { c.incomparable(shared, version) },
		OnRewound:      func(progress, listed string) { c.Rewound(shared, progress, listed) },
		OnUndecodable:  func(u *trc.Undecodable) { c.undecodable(shared, u) },
	})
	shared.Subscribe(func(t trc.Transition) {
		if t.New == nil {
			c.Hooks.Dropped(r.GVK, trc.KeyOf(t.Old))
		}
	})
	c.stores[key] = shared
	return shared, nil
}

// AllStores returns the stores in a stable order.
func (c *Cluster) AllStores() []*Store {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]*Store, 0, len(c.stores))
	for _, s := range c.stores {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *Store) int {
		return strings.Compare(a.Describe(), b.Describe())
	})
	return all
}

func (s *Store) Describe() string {
	return s.name() + s.Cluster.Place()
}

// name is describe without the cluster.
func (s *Store) name() string {
	d := s.Key.GVK.String()
	if namespaces := strings.Join(s.Watching(), ","); namespaces != "" {
		d += " in " + namespaces
	}
	if s.Key.labels != "" {
		d += " with " + s.Key.labels
	}
	if s.Key.fields != "" {
		d += " where " + s.Key.fields
	}
	d += s.Key.Retention.Describe()
	return d
}

// CallBack has functions called when the API server went back in time, and with each object that is set aside while this instance may work.
func (s *Store) CallBack(rewound func(), undecodable func(*trc.Undecodable)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onRewound = append(s.onRewound, rewound)
	s.onSetAside = append(s.onSetAside, undecodable)
}

// StartOnce has start called by the first of its callers.
func (s *Store) StartOnce(start func()) { s.feeding.Do(start) }

// FeedIn begins to watch namespaces, which is done by the function returned, until they are removed or ctx ends.
func (s *Store) FeedIn(ctx context.Context, namespaces []string) (run func()) {
	feed := s.Feed(ctx, s.WatchesOf(namespaces)...)
	s.fed.Add(1)
	return func() {
		defer s.fed.Done()
		feed()
	}
}

// AwaitEnd waits until nothing feeds the store any more.
func (s *Store) AwaitEnd() { s.fed.Wait() }

// Watching are the namespaces that are watched now.
func (s *Store) Watching() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.namespaces)
}

// AwaitDelivery waits until a controller has been told of what is shown by now, or ctx ends.
func (s *Store) AwaitDelivery(ctx context.Context, controller string) {
	if done := s.DeliveredTo(controller); done != nil {
		Await(ctx, done)
	}
}

func Await(ctx context.Context, done <-chan struct{}) {
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// WatchesOf are watches of namespaces.
func (s *Store) WatchesOf(namespaces []string) []trc.Watched {
	watched := make([]trc.Watched, len(namespaces))
	for i, namespace := range namespaces {
		watched[i] = trc.Watched{
			Namespace: namespace,
			From:      client.ListWatch{Client: s.Resource, Namespace: namespace, Labels: s.Key.labels, Fields: s.Key.fields, Shard: s.Key.Shard},
			PageSize:  s.Key.Page,
		}
		if s.Resource.HasProtobuf() { // those always decode
			watched[i].Expected = s.Resource.NewItem()
		}
	}
	return watched
}

// Unwatch ends the watches of namespaces. It watches what is given as now then.
func (s *Store) Unwatch(removed, now []string) {
	for _, namespace := range removed {
		keys := s.Keys(namespace)
		s.RemoveWatch(namespace)
		for _, key := range keys { // nothing else will tell
			s.Cluster.Hooks.Dropped(s.Resource.GVK, key)
		}
	}
	s.mu.Lock()
	s.namespaces = now
	s.mu.Unlock()
}

// isPartial tells stores that do not keep the whole of every object: writes are not computed from these.
func (s *Store) isPartial() bool { return s.Key.Prune != nil || s.Key.Form == object.Metadata }

func (s *Store) IsSynced() bool {
	select {
	case <-s.Synced():
		return true
	default:
		return false
	}
}

// Release takes one user off a store, and reports whether that was the last: then nobody finds it any more.
func (c *Cluster) Release(s *Store) (last bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.users--; s.users > 0 {
		return false
	}
	delete(c.stores, s.Key)
	return true
}

// ForgetEchoes forgets the answers of a resource that no watch will bring again.
func (c *Cluster) ForgetEchoes(r *client.Client) {
	if c.isWatched(r) {
		return
	}
	r.Echoes.Rest()
	if c.isWatched(r) { // again, by now; it may have said so before
		r.Echoes.Watched.Store(true)
	}
}

func (c *Cluster) isWatched(r *client.Client) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.stores {
		if s.Resource == r {
			return true
		}
	}
	return false
}

// StoresOf are the caches of one version of a kind.
func (c *Cluster) StoresOf(gvk schema.GroupVersionKind) []*Store {
	return c.storesWhere(func(key schema.GroupVersionKind) bool { return key == gvk })
}

// StoresOfKind are the caches of all versions of a kind.
func (c *Cluster) StoresOfKind(kind schema.GroupKind) []*Store {
	return c.storesWhere(func(key schema.GroupVersionKind) bool { return key.GroupKind() == kind })
}

func (c *Cluster) storesWhere(is func(schema.GroupVersionKind) bool) []*Store {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []*Store
	for key, s := range c.stores {
		if is(key.GVK) {
			found = append(found, s)
		}
	}
	return found
}

// ShowsAll reports whether the cache shows every object of that name there is, as of its progress.
func (s *Store) ShowsAll(key trc.Key) bool {
	if s.Key.labels != "" || s.Key.fields != "" || s.Key.Shard != "" {
		return false
	}
	return s.Covers(key.Namespace)
}

// Problem is what is wrong with a cache now, nil if nothing is.
func (s *Store) Problem() error { return errors.Join(s.Err(), s.Stale()) }
