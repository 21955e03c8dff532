package framework

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/framework/internal/lease"
	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/internal/author"
	"github.com/evenkeel/evenkeel/trc"
)

// cluster is one API server: its resources, and the stores over them, which all controllers share.
type cluster struct {
	config *rest.Config
	http   *http.Client
	scheme *runtime.Scheme
	codecs serializer.CodecFactory
	disco  *discovery.DiscoveryClient
	logger logr.Logger
	calls  *author.Callbacks
	at     string // where it is, empty for the operator's own
	event  reporter
	// others are all clusters of the operator, if there is more than one.
	others func() []*cluster
	// flying are the writes of all runs, and office tells whether they may be sent: both of the operator, for all its clusters.
	inflight *lease.Inflight
	fence    *lease.Fence
	ledger   *trc.Ledger
	memo     memo
	lanes    lanes
	users    int // guarded by the operator's mutex; see clusterAt
	// left says that no secondaries are there any more. Caches that come to be later are those of another cluster, also at the same place.
	left atomic.Bool
	// staleAfter is how long a watch may be silent.
	staleAfter time.Duration

	mu        sync.Mutex // guards everything below; a leaf
	resources map[resourceKey]*client.Client
	stores    map[storeKey]*sharedStore
}

type resourceKey struct {
	gvk  schema.GroupVersionKind
	form object.Form
}

// storeKey is what two stores must have in common to be one.
type storeKey struct {
	resourceKey
	follows        *scope // whose namespaces, whatever they are
	namespaces     string // if it follows none
	labels, fields string
	keeping
}

type sharedStore struct {
	*trc.Store
	key      storeKey
	resource *client.Client
	cluster  *cluster
	feeding  sync.Once
	fed      sync.WaitGroup // what feeds it
	users    int            // who read it; guarded by the cluster's mutex

	mu         sync.Mutex // guards below; a leaf
	namespaces []string   // that are watched, "" for all
	onRewound  []func()
	onSetAside []func(*trc.Undecoded) // only where this instance may work
}

func newCluster(config *rest.Config, scheme *runtime.Scheme, logger logr.Logger) (*cluster, error) {
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("framework: %w", err)
	}
	disco, err := discovery.NewDiscoveryClientForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("framework: %w", err)
	}
	return &cluster{
		config: config, http: httpClient, scheme: scheme, logger: logger,
		inflight: &lease.Inflight{}, fence: &lease.Fence{},
		codecs:    serializer.NewCodecFactory(scheme),
		disco:     disco,
		ledger:    trc.NewLedger(0),
		resources: map[resourceKey]*client.Client{},
		stores:    map[storeKey]*sharedStore{},
	}, nil
}

// resourceOf returns the resource that serves the kind of sample. It asks the API server's discovery
// the first time.
func (c *cluster) resourceOf(ctx context.Context, sample runtime.Object, gvk schema.GroupVersionKind) (*client.Client, error) {
	return c.resourceIn(ctx, object.FormOf(sample), gvk)
}

func (c *cluster) resourceIn(ctx context.Context, form object.Form, gvk schema.GroupVersionKind) (*client.Client, error) {
	key := resourceKey{gvk: gvk, form: form}
	c.mu.Lock()
	known := c.resources[key]
	c.mu.Unlock()
	if known != nil {
		return known, nil
	}
	// Discovery is a request: never under the lock. Two callers may both make it; the first result serves.
	served, parts, err := c.served(ctx, gvk)
	if err != nil {
		hint := ""
		if isMissing(err) && client.AsSubresource(gvk) == nil {
			hint = "; is its CustomResourceDefinition installed?"
		}
		return nil, fmt.Errorf("framework: %s%s: %w%s", gvk, c.place(), err, hint)
	}
	r, err := client.New(client.Config{
		Rest: c.config, HTTP: c.http, Scheme: c.scheme, Codecs: c.codecs, Place: c.place(), Logger: c.logger, KeepsUnstructured: c.keepsUnstructured,
	}, gvk, form, served, parts)
	if err != nil {
		return nil, err
	}
	if form == object.Metadata {
		if r.Writes, err = c.resourceIn(ctx, object.Unstructured, gvk); err != nil {
			return nil, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if other := c.resources[key]; other != nil {
		return other, nil
	}
	c.resources[key] = r
	return r, nil
}

// served asks for the resource of a kind and its sub-resources. It asks about the group and version alone: all of a cluster's
// discovery is a large document.
func (c *cluster) served(ctx context.Context, gvk schema.GroupVersionKind) (served metav1.APIResource, parts client.Subresources, err error) {
	if err := client.AsSubresource(gvk); err != nil {
		return metav1.APIResource{}, nil, err
	}
	list, err := c.disco.ServerResourcesForGroupVersionWithContext(ctx, gvk.GroupVersion().String())
	if err != nil {
		return metav1.APIResource{}, nil, err
	}
	for _, r := range list.APIResources {
		if isSubresource := strings.Contains(r.Name, "/"); r.Kind == gvk.Kind && !isSubresource {
			return r, client.SubresourcesOf(r.Name, list.APIResources), nil
		}
	}
	return metav1.APIResource{}, nil, &meta.NoKindMatchError{GroupKind: gvk.GroupKind(), SearchedVersions: []string{gvk.Version}}
}

// watching is what a store watches of a resource.
type watching struct {
	namespaces     []string // empty for all
	follows        *scope   // that they are of, and change with; nil if they are fixed
	labels, fields string
	keeping
}

// storeOf returns the store that watches the resource so, which is shared by all who ask alike. Each of them
// releases it when it reads no more.
func (c *cluster) storeOf(r *client.Client, w watching) (*sharedStore, error) {
	selector, err := labels.Parse(w.labels)
	if err != nil {
		return nil, fmt.Errorf("framework: label selector %q: %w", w.labels, err)
	}
	field, err := fields.ParseSelector(w.fields)
	if err != nil {
		return nil, fmt.Errorf("framework: field selector %q: %w", w.fields, err)
	}
	shard, err := client.ParseShard(w.shard)
	if err != nil {
		return nil, fmt.Errorf("framework: %w", err)
	}
	namespaces := namespaceList(w.namespaces)
	if !r.Namespaced {
		namespaces, w.follows = []string{""}, nil
	}
	key := storeKey{
		resourceKey: resourceKey{gvk: r.GVK, form: r.Form}, follows: w.follows, labels: selector.String(), fields: w.fields,
		keeping: w.keeping,
	}
	if w.follows == nil {
		key.namespaces = strings.Join(namespaces, ",")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if shared := c.stores[key]; shared != nil {
		shared.users++
		return shared, nil
	}
	shared := &sharedStore{key: key, resource: r, cluster: c, users: 1, namespaces: namespaces}
	shared.Store = trc.NewStore(trc.Options{
		Name: r.Name, Visible: client.InShard(shard, selects(selector, field)), StaleAfter: c.staleAfter,
		Transform: c.guardedPrune(w.prune), KeepWhole: w.whole,
		OnIncomparable: func(version string) { c.incomparable(shared, version) },
		OnRewound:      func(progress, listed string) { c.rewound(shared, progress, listed) },
		OnSetAside:     func(u *trc.Undecoded) { c.setAside(shared, u) },
	})
	shared.Subscribe(func(t trc.Transition) {
		if t.New == nil {
			c.memo.drop(r.GVK, trc.KeyOf(t.Old))
		}
	})
	c.stores[key] = shared
	return shared, nil
}

// incomparable says that the versions of a resource prove nothing.
func (c *cluster) incomparable(s *sharedStore, version string) {
	c.logger.Info("resourceVersions are no integers: own writes are not filtered, and kept only over the very version they were made on",
		"cache", s.describe(), "resourceVersion", version)
}

// rewound drops what was proven before the API server went back in time.
func (c *cluster) rewound(s *sharedStore, progress, listed string) {
	c.ledger.Forget()
	c.memo.forget()
	c.logger.Info("the API server went back in time, as after a restore of etcd: what was written since is forgotten",
		"cache", s.describe(), "progress", progress, "listed", listed)
	s.mu.Lock()
	told := slices.Clone(s.onRewound)
	s.mu.Unlock()
	for _, tell := range told {
		tell()
	}
}

// room waits until the caches of a kind have room for what a request will be answered with.
func (c *cluster) room(ctx context.Context, gvk schema.GroupVersionKind) error {
	for _, s := range c.storesOfKind(gvk.GroupKind()) {
		if err := s.Room(ctx); err != nil {
			return err
		}
	}
	return nil
}

// allStores returns the stores in a stable order.
func (c *cluster) allStores() []*sharedStore {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]*sharedStore, 0, len(c.stores))
	for _, s := range c.stores {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *sharedStore) int {
		return strings.Compare(a.describe(), b.describe())
	})
	return all
}

func (s *sharedStore) describe() string {
	return s.what() + s.cluster.place()
}

// what is describe without the cluster.
func (s *sharedStore) what() string {
	d := s.key.gvk.String()
	if namespaces := strings.Join(s.watching(), ","); namespaces != "" {
		d += " in " + namespaces
	}
	if s.key.labels != "" {
		d += " with " + s.key.labels
	}
	if s.key.fields != "" {
		d += " where " + s.key.fields
	}
	d += s.key.keeping.describe()
	return d
}
