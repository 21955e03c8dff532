package client

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// Object is what can be read and written.
type Object interface {
	metav1.Object
	runtime.Object
}

// ObjectList is what can be listed.
type ObjectList interface {
	metav1.ListInterface
	runtime.Object
}

// ObjectKey is the name of an object. The namespace is ignored for objects of cluster scope.
type ObjectKey = types.NamespacedName

// ObjectKeyFromObject returns the name of an object.
func ObjectKeyFromObject(o Object) ObjectKey {
	return ObjectKey{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// IgnoreNotFound returns nil for an answer that there is no such object.
func IgnoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// IgnoreAlreadyExists returns nil for an answer that there is such an object.
func IgnoreAlreadyExists(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// Client reads and writes objects of one API server. Its zero value is not usable.
type Client struct {
	server    rest.Interface
	scheme    *runtime.Scheme
	resources sync.Map // schema.GroupVersionKind to resource
}

// New returns a client that finds the kinds of typed objects in the scheme. It changes neither.
func New(config *rest.Config, types *runtime.Scheme) (*Client, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1 // tests wait for the API server, never for their own client
	config.ContentType = runtime.ContentTypeJSON
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion() // for answers of the kind Status
	if config.UserAgent == "" {
		config.UserAgent = rest.DefaultKubernetesUserAgent() // and so the field manager
	}
	if config.WarningHandler == nil && config.WarningHandlerWithContext == nil {
		config.WarningHandlerWithContext = rest.NoWarnings{}
	}
	server, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return nil, err
	}
	return &Client{server: server, scheme: types}, nil
}

// Scheme returns the scheme that was given to New.
func (c *Client) Scheme() *runtime.Scheme { return c.scheme }

// Get reads an object as it is now.
func (c *Client) Get(ctx context.Context, key ObjectKey, into Object) error {
	return c.request(ctx, http.MethodGet, into, key, "").do(ctx, into)
}

// List reads the objects of a kind as they are now.
func (c *Client) List(ctx context.Context, into ObjectList, options ...ListOption) error {
	var list listOptions
	for _, o := range options {
		o.applyToList(&list)
	}
	r := c.request(ctx, http.MethodGet, into, ObjectKey{Namespace: list.namespace}, "")
	return r.with(&metav1.ListOptions{LabelSelector: list.selector()}).do(ctx, into)
}

// Create creates an object, which becomes what the server answers.
func (c *Client) Create(ctx context.Context, o Object, options ...WriteOption) error {
	r := c.request(ctx, http.MethodPost, o, ObjectKey{Namespace: o.GetNamespace()}, "")
	return r.withObject(o).with(writeOptions(options)).do(ctx, o)
}

// Update replaces an object, which becomes what the server answers.
func (c *Client) Update(ctx context.Context, o Object, options ...WriteOption) error {
	return c.update(ctx, o, "", options)
}

// Patch sends a patch of an object, which becomes what the server answers.
func (c *Client) Patch(ctx context.Context, o Object, patch Patch, options ...WriteOption) error {
	return c.patch(ctx, o, "", patch, options)
}

// Delete deletes the object of this name. The object stays as it is.
func (c *Client) Delete(ctx context.Context, o Object, options ...DeleteOption) error {
	sent := metav1.DeleteOptions{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"}}
	for _, option := range options {
		option.applyToDelete(&sent)
	}
	return c.request(ctx, http.MethodDelete, o, ObjectKeyFromObject(o), "").withBody(runtime.ContentTypeJSON, sent).do(ctx, nil)
}

// Status returns the sub-resource "status".
func (c *Client) Status() Subresource { return c.SubResource("status") }

// SubResource returns a sub-resource whose content has the kind of the object itself.
func (c *Client) SubResource(name string) Subresource { return Subresource{c, name} }

// Subresource reads and writes one sub-resource.
type Subresource struct {
	client *Client
	name   string
}

// Get reads the sub-resource of an object.
func (s Subresource) Get(ctx context.Context, of, into Object) error {
	return s.client.request(ctx, http.MethodGet, of, ObjectKeyFromObject(of), s.name).do(ctx, into)
}

// Update is [Client.Update] of the sub-resource.
func (s Subresource) Update(ctx context.Context, o Object, options ...WriteOption) error {
	return s.client.update(ctx, o, s.name, options)
}

// Patch is [Client.Patch] of the sub-resource.
func (s Subresource) Patch(ctx context.Context, o Object, patch Patch, options ...WriteOption) error {
	return s.client.patch(ctx, o, s.name, patch, options)
}

func (c *Client) update(ctx context.Context, o Object, subresource string, options []WriteOption) error {
	r := c.request(ctx, http.MethodPut, o, ObjectKeyFromObject(o), subresource)
	return r.withObject(o).with(writeOptions(options)).do(ctx, o)
}

func (c *Client) patch(ctx context.Context, o Object, subresource string, patch Patch, options []WriteOption) error {
	r := c.request(ctx, http.MethodPatch, o, ObjectKeyFromObject(o), subresource)
	return r.withBody(string(patch.kind), patch.data).with(writeOptions(options)).do(ctx, o)
}

// request is one that is being made. After an error, its methods do nothing.
type request struct {
	*rest.Request
	kind schema.GroupVersionKind // of the object, or of the items of the list
	err  error
}

func (c *Client) request(ctx context.Context, verb string, about runtime.Object, key ObjectKey, subresource string) *request {
	kind, err := c.kindOf(about)
	if err != nil {
		return &request{err: err}
	}
	of, err := c.resourceOf(ctx, kind)
	if err != nil {
		return &request{err: err}
	}
	path := []string{of.path}
	if of.namespaced && key.Namespace != "" {
		path = append(path, "namespaces", key.Namespace)
	}
	path = append(path, of.name)
	if _, isObject := about.(Object); isObject && verb != http.MethodPost {
		if key.Name == "" {
			return &request{err: fmt.Errorf("client: %s %s: an object without a name", verb, kind)}
		}
		path = append(path, key.Name)
	}
	if subresource != "" {
		path = append(path, subresource)
	}
	return &request{Request: c.server.Verb(verb).AbsPath(path...), kind: kind}
}

// with adds parameters.
func (r *request) with(options runtime.Object) *request {
	if r.err == nil {
		r.SpecificallyVersionedParams(options, scheme.ParameterCodec, corev1.SchemeGroupVersion)
	}
	return r
}

// withObject adds the object as body, with its kind.
func (r *request) withObject(o Object) *request {
	if r.err != nil {
		return r
	}
	sent := o.DeepCopyObject()
	sent.GetObjectKind().SetGroupVersionKind(r.kind)
	return r.withBody(runtime.ContentTypeJSON, sent)
}

// withBody adds a body: bytes as they are, anything else as JSON.
func (r *request) withBody(contentType string, body any) *request {
	if r.err != nil {
		return r
	}
	data, is := body.([]byte)
	if !is {
		data, r.err = json.Marshal(body)
	}
	r.SetHeader("Content-Type", contentType).Body(data)
	return r
}

// do sends the request, and replaces the content of what is not nil by the answer.
func (r *request) do(ctx context.Context, into runtime.Object) error {
	if r.err != nil {
		return r.err
	}
	result := r.Do(logr.NewContext(ctx, logr.Discard())) // klog would mix it with what tests look at
	if err := result.Error(); err != nil || into == nil {
		return err
	}
	answer, err := result.Raw()
	if err != nil {
		return err
	}
	before := into.GetObjectKind().GroupVersionKind()
	reflect.ValueOf(into).Elem().SetZero()
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("client: decode %s: %w", r.kind, err)
	}
	if _, is := into.(runtime.Unstructured); !is {
		into.GetObjectKind().SetGroupVersionKind(before)
	}
	return nil
}

// GroupVersionKindFor returns the kind of an object, or of the items of a list, as the requests of
// the client have it.
func (c *Client) GroupVersionKindFor(o runtime.Object) (schema.GroupVersionKind, error) {
	return c.kindOf(o)
}

// kindOf returns the kind of an object, or of the items of a list.
func (c *Client) kindOf(o runtime.Object) (schema.GroupVersionKind, error) {
	kind := o.GetObjectKind().GroupVersionKind()
	switch o.(type) {
	case runtime.Unstructured, *metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList:
	default:
		kinds, _, err := c.scheme.ObjectKinds(o)
		if err != nil {
			return kind, err
		}
		if len(kinds) != 1 {
			return kind, fmt.Errorf("client: %T has several kinds: %v", o, kinds)
		}
		kind = kinds[0]
	}
	if _, isObject := o.(Object); !isObject {
		kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	}
	return kind, nil
}

// resource is where the objects of a kind are.
type resource struct {
	path       string // of the group and version
	name       string
	namespaced bool
}

// resourceOf asks the server once for the resource of a kind. It asks again about a kind that the
// server did not serve.
func (c *Client) resourceOf(ctx context.Context, kind schema.GroupVersionKind) (resource, error) {
	if known, is := c.resources.Load(kind); is {
		return known.(resource), nil
	}
	path := "/apis/" + kind.GroupVersion().String()
	if kind.Group == "" {
		path = "/api/" + kind.Version
	}
	var served metav1.APIResourceList
	asked := &request{Request: c.server.Get().AbsPath(path), kind: served.GroupVersionKind()}
	noMatch := &meta.NoKindMatchError{GroupKind: kind.GroupKind(), SearchedVersions: []string{kind.Version}}
	if err := asked.do(ctx, &served); apierrors.IsNotFound(err) {
		return resource{}, noMatch
	} else if err != nil {
		return resource{}, err
	}
	for _, r := range served.APIResources {
		if r.Kind == kind.Kind && !strings.Contains(r.Name, "/") {
			of := resource{path, r.Name, r.Namespaced}
			c.resources.Store(kind, of)
			return of, nil
		}
	}
	return resource{}, noMatch
}

// IsNamespaced reports whether the objects of a kind have a namespace; also of a kind that the
// server does not serve.
func (c *Client) IsNamespaced(ctx context.Context, o Object) bool {
	kind, err := c.kindOf(o)
	if err != nil {
		return true
	}
	of, err := c.resourceOf(ctx, kind)
	return err != nil || of.namespaced
}
