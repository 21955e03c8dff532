package framework

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured/unstructuredscheme"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/evenkeel/evenkeel/trc"
)

// cluster is one API server: its resources, and the stores over them, which all controllers share.
type cluster struct {
	config *rest.Config
	http   *http.Client
	scheme *runtime.Scheme
	codecs serializer.CodecFactory
	mapper *restmapper.DeferredDiscoveryRESTMapper
	flying flight // the writes of all runs
	ledger *trc.Ledger
	memo   memo
	lanes  lanes

	mu        sync.Mutex // guards everything below; a leaf
	resources map[resourceKey]*resource
	stores    map[storeKey]*sharedStore
}

type resourceKey struct {
	gvk  schema.GroupVersionKind
	form form
}

// storeKey is what two stores must have in common to be one.
type storeKey struct {
	resourceKey
	namespaces     string
	labels, fields string
}

type sharedStore struct {
	*trc.Store
	key     storeKey
	watched []trc.Watched
}

func newCluster(config *rest.Config, scheme *runtime.Scheme) (*cluster, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("framework: %w", err)
	}
	disco, err := discovery.NewDiscoveryClientForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("framework: %w", err)
	}
	return &cluster{
		config: config, http: client, scheme: scheme,
		codecs:    serializer.NewCodecFactory(scheme),
		mapper:    restmapper.NewDeferredDiscoveryRESTMapperWithContext(memory.NewMemCacheClientWithContext(disco)),
		ledger:    trc.NewLedger(0),
		resources: map[resourceKey]*resource{},
		stores:    map[storeKey]*sharedStore{},
	}, nil
}

// resourceOf returns the resource that serves the kind of sample. It asks the API server's discovery
// the first time.
func (c *cluster) resourceOf(ctx context.Context, sample runtime.Object, gvk schema.GroupVersionKind) (*resource, error) {
	return c.resourceIn(ctx, formOf(sample), gvk)
}

func (c *cluster) resourceIn(ctx context.Context, form form, gvk schema.GroupVersionKind) (*resource, error) {
	key := resourceKey{gvk: gvk, form: form}
	c.mu.Lock()
	known := c.resources[key]
	c.mu.Unlock()
	if known != nil {
		return known, nil
	}
	// Discovery is a request: never under the lock. Two callers may both make it; either result serves.
	mapping, err := c.mapper.RESTMappingWithContext(ctx, gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, fmt.Errorf("framework: %s: %w; is its CustomResourceDefinition installed?", gvk, err)
	}
	r := &resource{gvk: gvk, form: form, name: mapping.Resource.Resource, namespaced: mapping.Scope.Name() == meta.RESTScopeNameNamespace}
	if err := c.constructors(r); err != nil {
		return nil, err
	}
	if r.client, err = c.clientFor(r); err != nil {
		return nil, err
	}
	if r.writes = r; form == metadataForm {
		if r.writes, err = c.resourceIn(ctx, unstructuredForm, gvk); err != nil {
			return nil, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.resources[key] = r
	return r, nil
}

func (c *cluster) constructors(r *resource) error {
	switch r.form {
	case unstructuredForm:
		r.newItem = func() Object { return &unstructured.Unstructured{} }
		r.newList = func() runtime.Object { return &unstructured.UnstructuredList{} }
		return nil
	case metadataForm:
		r.newItem = func() Object { return &metav1.PartialObjectMetadata{} }
		r.newList = func() runtime.Object { return &metav1.PartialObjectMetadataList{} }
		return nil
	}
	listKind := r.gvk.GroupVersion().WithKind(r.gvk.Kind + "List")
	if _, err := c.scheme.New(listKind); err != nil {
		return fmt.Errorf("framework: the list type of %s: %w", r.gvk, err)
	}
	r.newItem = func() Object { o, _ := c.scheme.New(r.gvk); return o.(Object) }
	r.newList = func() runtime.Object { o, _ := c.scheme.New(listKind); return o }
	return nil
}

func (c *cluster) clientFor(r *resource) (rest.Interface, error) {
	config := rest.CopyConfig(c.config)
	gv := r.gvk.GroupVersion()
	config.GroupVersion = &gv
	config.APIPath = "/apis"
	if gv.Group == "" {
		config.APIPath = "/api"
	}
	switch r.form {
	case unstructuredForm:
		config.NegotiatedSerializer = unstructuredscheme.NewUnstructuredNegotiatedSerializer()
	case metadataForm:
		config = metadata.ConfigFor(config)
	default:
		config.NegotiatedSerializer = c.codecs.WithoutConversion()
	}
	// Built-in kinds have a protobuf form, which is cheaper for both sides.
	if _, hasProtobuf := r.newItem().(runtime.ProtobufMarshaller); hasProtobuf && config.ContentType == "" {
		config.ContentType = runtime.ContentTypeProtobuf
		config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	}
	client, err := rest.RESTClientForConfigAndClient(config, c.http)
	if err != nil {
		return nil, fmt.Errorf("framework: client for %s: %w", r.gvk, err)
	}
	return client, nil
}

// watching is what a store watches of a resource.
type watching struct {
	namespaces     []string // empty for all
	labels, fields string
}

// storeOf returns the store that watches the resource so, which is shared by all who ask alike.
func (c *cluster) storeOf(r *resource, w watching) (*sharedStore, error) {
	selector, err := labels.Parse(w.labels)
	if err != nil {
		return nil, fmt.Errorf("framework: label selector %q: %w", w.labels, err)
	}
	field, err := fields.ParseSelector(w.fields)
	if err != nil {
		return nil, fmt.Errorf("framework: field selector %q: %w", w.fields, err)
	}
	namespaces := slices.Compact(slices.Sorted(slices.Values(w.namespaces)))
	if len(namespaces) == 0 || !r.namespaced {
		namespaces = []string{""}
	}
	key := storeKey{
		resourceKey: resourceKey{gvk: r.gvk, form: r.form},
		namespaces:  strings.Join(namespaces, ","), labels: selector.String(), fields: w.fields,
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if shared := c.stores[key]; shared != nil {
		return shared, nil
	}
	shared := &sharedStore{key: key, Store: trc.NewStore(trc.Options{
		Name:    r.name,
		Visible: selects(selector, field),
	})}
	for _, namespace := range namespaces {
		watched := trc.Watched{
			Namespace: namespace,
			From:      listWatch{resource: r, namespace: namespace, labels: key.labels, fields: w.fields},
		}
		if r.form == typedForm {
			watched.Expected = r.newItem()
		}
		shared.watched = append(shared.watched, watched)
	}
	shared.Subscribe(func(t trc.Transition) {
		if t.New == nil {
			c.memo.drop(r.gvk, trc.KeyOf(t.Old))
		}
	})
	c.stores[key] = shared
	return shared, nil
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
	d := s.key.gvk.String()
	if s.key.namespaces != "" {
		d += " in " + s.key.namespaces
	}
	if s.key.labels != "" {
		d += " with " + s.key.labels
	}
	return d
}

// acknowledge lays the answer to a write over every store of its kind, typed or not, before the
// write returns.
func (c *cluster) acknowledge(gvk schema.GroupVersionKind, o Object, proof trc.Proof) error {
	for _, s := range c.storesOf(gvk) {
		own, err := c.convert(o, s.key.form, gvk)
		if err != nil {
			return err
		}
		if err := s.Acknowledge(own, proof); err != nil {
			return err
		}
	}
	return nil
}

func (c *cluster) acknowledgeGone(gvk schema.GroupVersionKind, o Object) {
	for _, s := range c.storesOf(gvk) {
		s.AcknowledgeGone(trc.KeyOf(o), o.GetUID(), o.GetResourceVersion())
	}
}

// sighting is an object that a cache showed.
type sighting struct {
	store  *sharedStore
	object trc.Object
}

// sightings are what the caches show of a name at the moment.
func (c *cluster) sightings(gvk schema.GroupVersionKind, key trc.Key) []sighting {
	var all []sighting
	for _, s := range c.storesOf(gvk) {
		if shown := s.Get(key); shown != nil {
			all = append(all, sighting{s, shown})
		}
	}
	return all
}

// acknowledgeNone takes in that no object had a name after those sightings of it. What has come to be since
// then is another object.
func (c *cluster) acknowledgeNone(sightings []sighting) {
	for _, s := range sightings {
		s.store.AcknowledgeGone(trc.KeyOf(s.object), s.object.GetUID(), s.object.GetResourceVersion())
	}
}

func (c *cluster) storesOf(gvk schema.GroupVersionKind) []*sharedStore {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []*sharedStore
	for key, s := range c.stores {
		if key.gvk == gvk {
			found = append(found, s)
		}
	}
	return found
}

// comparable reports whether the versions of a kind are: only then do they prove anything.
func (c *cluster) comparable(gvk schema.GroupVersionKind) bool {
	return !slices.ContainsFunc(c.storesOf(gvk), func(s *sharedStore) bool { return !s.Comparable() })
}

// shown returns the newest of what the caches show of an object, in the form of the resource, or nil. It
// may be shared.
func (c *cluster) shown(r *resource, key trc.Key) Object {
	var newest Object
	var in storeKey
	for _, s := range c.storesOf(r.gvk) {
		o := s.Get(key)
		if o == nil || (s.key.form == metadataForm && r.form != metadataForm) {
			continue
		}
		if newest == nil || newer(o, newest) || (in.form != r.form && s.key.form == r.form && !newer(newest, o)) {
			newest, in = o, s.key
		}
	}
	if newest == nil || in.form == r.form {
		return newest
	}
	converted, err := c.convert(newest, r.form, r.gvk)
	if err != nil {
		return nil
	}
	return converted
}

// newer reports whether a is known to be newer than b.
func newer(a, b Object) bool {
	order, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
	return err == nil && order > 0
}

// current returns a private copy of the object from a cache if one shows it, and from the API server
// otherwise.
func (c *cluster) current(ctx context.Context, r *resource, key trc.Key) (Object, error) {
	if o := c.shown(r, key); o != nil {
		return o.DeepCopyObject().(Object), nil
	}
	return r.get(ctx, key)
}

// convert returns a private copy of o in another form.
func (c *cluster) convert(o Object, form form, gvk schema.GroupVersionKind) (Object, error) {
	if formOf(o) == form {
		return o.DeepCopyObject().(Object), nil
	}
	if form == metadataForm {
		return metadataOf(o, gvk), nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, fmt.Errorf("framework: %s %s: %w", gvk.Kind, trc.KeyOf(o), err)
	}
	if form == unstructuredForm {
		u := &unstructured.Unstructured{Object: content}
		u.SetGroupVersionKind(gvk)
		return u, nil
	}
	typed, err := c.scheme.New(gvk)
	if err != nil {
		return nil, fmt.Errorf("framework: %s: %w", gvk, err)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, typed); err != nil {
		return nil, fmt.Errorf("framework: %s %s: %w", gvk.Kind, trc.KeyOf(o), err)
	}
	return typed.(Object), nil
}

// metadataOf returns the metadata of an object as a metadata-only one.
func metadataOf(o Object, gvk schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	only := meta.AsPartialObjectMetadata(o).DeepCopy()
	only.SetGroupVersionKind(gvk)
	return only
}

// runStores feeds all stores until ctx ends.
func (c *cluster) runStores(ctx context.Context) {
	var stores sync.WaitGroup
	for _, s := range c.allStores() {
		stores.Go(func() { s.Run(ctx, s.watched...) })
	}
	stores.Wait()
}
