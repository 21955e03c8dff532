package cache

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// Cluster is one API server: the clients of its resources, and the caches over them. All
// controllers share it. All exported fields are set before the first cache is made.
type Cluster struct {
	Forms  // of its objects
	Stores // its caches

	Config *rest.Config // of all connections
	HTTP   *http.Client // shared by all requests
	codecs serializer.CodecFactory
	disco  *discovery.DiscoveryClient
	Logger logr.Logger       // of the operator
	Calls  *author.Callbacks // guards the author's functions
	At     string            // the place of a remote cluster; empty for the local one
	Ledger *trc.Ledger       // the proven writes
	Fence  *lease.Fence      // whether this instance may write
	Hooks  Hooks             // what others do when caches change
	// Abandoned says that no secondaries are read in the cluster. It stays abandoned: a new secondary
	// in the same place gets a new Cluster.
	Abandoned atomic.Bool
	// StaleAfter is how long a watch may be silent before its cache counts as stale.
	StaleAfter time.Duration

	mu        sync.Mutex // guards the field below; a leaf
	resources map[clientKey]*client.Client
}

// clientKey identifies a client of a cluster.
type clientKey struct {
	GVK  schema.GroupVersionKind // the kind, in a version
	Form object.Form             // the form of objects
}

// Hooks are functions that are called when caches change. All are set before the first store is
// made. They may be called at the same time.
type Hooks struct {
	// Dropped is called when a cache no longer has an object.
	Dropped func(schema.GroupVersionKind, trc.Key)
	// Rewound is called when the API server went back in time.
	Rewound func()
	// Undecodable is called with an undecodable object, whether or not this instance leads.
	Undecodable func(schema.GroupVersionKind, *trc.Undecodable)
}

// NewCluster returns a cluster without caches. It sends no request. The caller sets Calls, Hooks
// and StaleAfter.
func NewCluster(config *rest.Config, scheme *runtime.Scheme, logger logr.Logger) (*Cluster, error) {
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("framework: %w", err)
	}
	disco, err := discovery.NewDiscoveryClientForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("framework: %w", err)
	}
	return &Cluster{
		Forms: Forms{scheme}, Stores: Stores{byKey: map[StoreKey]*Store{}}, Config: config, HTTP: httpClient, Logger: logger,
		Fence:     &lease.Fence{},
		codecs:    serializer.NewCodecFactory(scheme),
		disco:     disco,
		Ledger:    trc.NewLedger(0),
		resources: map[clientKey]*client.Client{},
	}, nil
}

// ClientOf returns the client for the kind and the form of sample. It asks the API server's
// discovery the first time.
func (c *Cluster) ClientOf(ctx context.Context, sample runtime.Object, gvk schema.GroupVersionKind) (*client.Client, error) {
	return c.ClientIn(ctx, object.FormOf(sample), gvk)
}

// ClientIn returns the client for a kind in a form. It asks the API server's discovery the first
// time.
func (c *Cluster) ClientIn(ctx context.Context, form object.Form, gvk schema.GroupVersionKind) (*client.Client, error) {
	key := clientKey{GVK: gvk, Form: form}
	c.mu.Lock()
	known := c.resources[key]
	c.mu.Unlock()
	if known != nil {
		return known, nil
	}
	// Discovery is a request: never under the lock. Two callers may both send it; the first result is
	// kept.
	served, parts, err := c.Served(ctx, gvk)
	if err != nil {
		hint := ""
		if IsMissing(err) && client.AsSubresource(gvk) == nil {
			hint = "; is its CustomResourceDefinition installed?"
		}
		return nil, fmt.Errorf("framework: %s%s: %w%s", gvk, c.Place(), err, hint)
	}
	r, err := client.New(client.Config{
		Rest: c.Config, HTTP: c.HTTP, Scheme: c.Scheme, Codecs: c.codecs, Place: c.Place(), Logger: c.Logger, KeepsUnstructured: c.keepsUnstructured,
	}, gvk, form, served, parts)
	if err != nil {
		return nil, err
	}
	if form == object.Metadata {
		if r.Writes, err = c.ClientIn(ctx, object.Unstructured, gvk); err != nil {
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

// Served returns the resource of a kind and its sub-resources, from discovery. It asks for the
// group and version only, as the discovery document of a whole cluster is large.
func (c *Cluster) Served(ctx context.Context, gvk schema.GroupVersionKind) (served metav1.APIResource, parts client.Subresources, err error) {
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

// Rewound drops all proofs after the API server went back in time, and calls the functions for
// that.
func (c *Cluster) Rewound(s *Store, progress, listed string) {
	c.Ledger.Forget()
	c.Hooks.Rewound()
	c.Logger.Info("the API server went back in time, for example because etcd was restored from a backup: the later writes no longer exist and are dropped from the caches",
		"cache", s.Describe(), "progress", progress, "listed", listed)
	s.mu.Lock()
	callbacks := slices.Clone(s.onRewound)
	s.mu.Unlock()
	for _, call := range callbacks {
		call()
	}
}

// DecodedAnswers returns the number of objects in the decode caches of all kinds.
func (c *Cluster) DecodedAnswers() (n int) {
	c.mu.Lock()
	all := slices.Collect(maps.Values(c.resources))
	c.mu.Unlock()
	for _, r := range all {
		n += r.Decoded.Len()
	}
	return n
}

// Place returns " at" and the place of a remote cluster, for descriptions. It is empty for the
// local one.
func (c *Cluster) Place() string {
	if c.At == "" {
		return ""
	}
	return " at " + c.At
}

// ErrMisuse is an error that no retry can remove.
var ErrMisuse = errors.New("framework: the scheme does not fit")

// IsMissing reports whether the API server said that it does not serve a kind. It returns false if
// the server did not answer.
func IsMissing(err error) bool {
	return apierrors.IsNotFound(err) || meta.IsNoMatchError(err)
}

// Subresource returns a sub-resource of a resource, and whether it exists. It asks discovery again
// for an unknown one: the definition of a custom kind may have changed.
func (c *Cluster) Subresource(ctx context.Context, r *client.Client, name string) (metav1.APIResource, bool, error) {
	if sub, known := (*r.Subresources.Load())[name]; known {
		return sub, true, nil
	}
	_, now, err := c.Served(ctx, r.GVK)
	if err != nil {
		return metav1.APIResource{}, false, err
	}
	r.Subresources.Store(&now)
	sub, known := now[name]
	return sub, known, nil
}

// Watchable returns the client for the kind of sample, or an error if the kind cannot be listed and
// watched.
func (c *Cluster) Watchable(ctx context.Context, sample runtime.Object, gvk schema.GroupVersionKind) (*client.Client, error) {
	r, err := c.ClientOf(ctx, sample, gvk)
	switch {
	case err != nil:
		return nil, err
	case r.OnlyCreated:
		return nil, fmt.Errorf("%w: objects of %s are never stored, they cannot be watched", ErrMisuse, gvk)
	case r.NewList == nil:
		return nil, fmt.Errorf("%w: the list type of %s is not registered in it", ErrMisuse, gvk)
	}
	return r, nil
}
