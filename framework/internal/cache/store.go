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

	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/trc"
)

// StoreKey identifies a store. Callers with equal keys share the store.
type StoreKey struct {
	clientKey
	Follows        *Scope // the scope that it follows, or nil
	namespaces     string // if it follows none
	labels, fields string
	Retention
}

// Store is a shared cache of one resource. It is released by [Cluster.Release].
type Store struct {
	*trc.Store
	Key      StoreKey       // what it watches and keeps
	Resource *client.Client // the client of its watches
	Cluster  *Cluster       // its API server
	started  bool           // a caller of Start feeds it; guarded by host.Host.Changing
	fed      sync.WaitGroup // counts the running feeds
	users    int            // how many callers of Open; guarded by Stores.mu

	mu            sync.Mutex               // guards the fields below; a leaf
	namespaces    []string                 // that are watched; "" for all
	onRewound     []func()                 // called when the API server went back in time
	onUndecodable []func(*trc.Undecodable) // called only while this instance may write
}

// Watch is what a store watches and keeps.
type Watch struct {
	Namespaces     []string // empty for all
	Follows        *Scope   // the scope of the namespaces, or nil if they are fixed
	Labels, Fields string   // in kubectl's syntax
	Retention
}

// Open returns the shared store for these watch options, creating it if needed. Callers must
// release it.
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
	if shared := c.share(key, nil); shared != nil {
		return shared, nil
	}
	made := &Store{Key: key, Resource: r, Cluster: c, namespaces: namespaces}
	made.Store = trc.NewStore(trc.Options{
		Name: r.Name, Visible: client.InShard(shard, selects(selector, field)), StaleAfter: c.StaleAfter,
		Transform: c.GuardedPrune(w.Prune), KeepWhole: w.Whole,
		OnIncomparable: made.reportIncomparable,
		OnRewound:      func(progress, listed string) { c.Rewound(made, progress, listed) },
		OnUndecodable:  made.reportUndecodable,
	})
	made.Subscribe(func(t trc.Transition) {
		if t.New == nil {
			c.Hooks.Dropped(r.GVK, trc.KeyOf(t.Old))
		}
	})
	return c.share(key, made), nil
}

// Describe returns what the store watches and keeps, and the cluster, for people.
func (s *Store) Describe() string {
	return s.name() + s.Cluster.Place()
}

// name is Describe without the cluster.
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

// CallBack adds functions that are called when the API server went back in time, and with each
// undecodable object while this instance may write.
func (s *Store) CallBack(rewound func(), undecodable func(*trc.Undecodable)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onRewound = append(s.onRewound, rewound)
	s.onUndecodable = append(s.onUndecodable, undecodable)
}

// reportIncomparable logs that the versions of a resource prove nothing.
func (s *Store) reportIncomparable(version string) {
	s.Cluster.Logger.Info("resourceVersions are not integers: own writes are not filtered, and are readable only while the cache holds the version that they were based on",
		"cache", s.Describe(), "resourceVersion", version)
}

// Start reports whether the caller has to feed the store, because no other caller does. The caller
// must hold host.Host.Changing.
func (s *Store) Start() bool {
	first := !s.started
	s.started = true
	return first
}

// FeedIn adds watches of namespaces. The returned function runs them until the namespaces are
// removed or ctx ends.
func (s *Store) FeedIn(ctx context.Context, namespaces []string) (run func()) {
	feed := s.Feed(ctx, s.WatchesOf(namespaces)...)
	s.fed.Add(1)
	return func() {
		defer s.fed.Done()
		feed()
	}
}

// AwaitEnd waits until all feeds have ended.
func (s *Store) AwaitEnd() { s.fed.Wait() }

// Watching returns the namespaces that are watched at the moment.
func (s *Store) Watching() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.namespaces)
}

// AwaitDelivery waits until everything that the store has now is delivered to a controller, or ctx
// ends.
func (s *Store) AwaitDelivery(ctx context.Context, controller string) {
	if done := s.DeliveredTo(controller); done != nil {
		Await(ctx, done)
	}
}

// Await waits until done is closed or ctx ends.
func Await(ctx context.Context, done <-chan struct{}) {
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// WatchesOf returns the watches of namespaces.
func (s *Store) WatchesOf(namespaces []string) []trc.Watched {
	watched := make([]trc.Watched, len(namespaces))
	for i, namespace := range namespaces {
		watched[i] = trc.Watched{
			Namespace: namespace,
			From:      client.ListWatch{Client: s.Resource, Namespace: namespace, Labels: s.Key.labels, Fields: s.Key.fields, Shard: s.Key.Shard},
			PageSize:  s.Key.Page,
		}
		if s.Resource.HasProtobuf() { // protobuf objects always decode
			watched[i].Expected = s.Resource.NewItem()
		}
	}
	return watched
}

// Unwatch ends the watches of the removed namespaces. now are the namespaces that are watched after
// that.
func (s *Store) Unwatch(removed, now []string) {
	for _, namespace := range removed {
		keys := s.Keys(namespace)
		s.RemoveWatch(namespace)
		for _, key := range keys { // no event will report these
			s.Cluster.Hooks.Dropped(s.Resource.GVK, key)
		}
	}
	s.mu.Lock()
	s.namespaces = now
	s.mu.Unlock()
}

// isPartial reports whether the store keeps only a part of objects. Writes are not computed from
// those.
func (s *Store) isPartial() bool { return s.Key.Prune != nil || s.Key.Form == object.Metadata }

// IsSynced reports whether all watches have delivered their first list.
func (s *Store) IsSynced() bool { return IsClosed(s.Synced()) }

// IsClosed reports whether done is closed. It does not wait.
func IsClosed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// ShowsAll reports whether the cache has every existing object of that name, as of its progress.
func (s *Store) ShowsAll(key trc.Key) bool {
	if s.Key.labels != "" || s.Key.fields != "" || s.Key.Shard != "" {
		return false
	}
	return s.Covers(key.Namespace)
}

// Problem returns what is wrong with a cache now, nil if nothing is.
func (s *Store) Problem() error { return errors.Join(s.Err(), s.Stale()) }
