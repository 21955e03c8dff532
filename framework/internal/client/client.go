package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/trc"
)

// Client is a client for one resource of one cluster, in one Go form. It has no cache.
type Client struct {
	GVK        schema.GroupVersionKind
	Form       object.Form
	Name       string // plural, as in URLs
	place      string // suffix of descriptions, for a remote cluster
	Namespaced bool
	// StatusApart is set if the status is a sub-resource: then writes of the resource do not change
	// it.
	StatusApart *atomic.Bool
	// Subresources are the sub-resources that discovery found last. OnlyCreated is set if objects can
	// only be created: the server answers them and never stores them.
	Subresources *atomic.Pointer[Subresources]
	OnlyCreated  bool
	client       rest.Interface
	root         string // URL path of the group and version
	Agent        string // the user agent
	// forUnstructured reports whether answers must come as JSON, because a cache keeps unstructured
	// objects of the kind. nil if they always come as JSON.
	forUnstructured func() bool
	NewItem         func() trc.Object
	NewList         func() runtime.Object // nil if the scheme lacks the list type
	// Writes is the client for writes and consistent reads: the same client, or for metadata-only
	// objects the one of whole objects, because an answer must serve all caches.
	Writes  *Client
	Decoded *DecodeCache
	logger  logr.Logger // for requests whose context has none
}

// HasProtobuf reports whether the kind is built-in and typed. Answers of such kinds always fit
// their Go type.
func (r *Client) HasProtobuf() bool {
	_, has := r.NewItem().(runtime.ProtobufMarshaller)
	return has && r.Form == object.Typed
}

// parameters encodes ListOptions and similar types, which have the same form for every resource.
var parameters, parametersVersion = func() (runtime.ParameterCodec, schema.GroupVersion) {
	version := schema.GroupVersion{Version: "v1"}
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, version)
	return runtime.NewParameterCodec(scheme), version
}()

var _ trc.ListerWatcher = ListWatch{}

// inForm requests only metadata if that is the client's form.
func (r *Client) inForm(request *rest.Request, suffix string) *rest.Request {
	if r.Form != object.Metadata {
		return request
	}
	as := ";as=PartialObjectMetadata" + suffix + ";g=meta.k8s.io;v=v1"
	return request.SetHeader("Accept", runtime.ContentTypeProtobuf+as+","+runtime.ContentTypeJSON+as)
}

// ErrUndecodable means that a complete answer does not fit the Go type: the request was carried
// out.
var ErrUndecodable = errors.New("framework: the answer does not fit the Go type")

// ErrUnsent means that a request could not be built.
var ErrUnsent = errors.New("framework: the request cannot be sent")

// Get reads the object from the API server, consistently. It times out like a write. Callers add
// the answer to the caches; see cluster.read. For an undecodable object it returns the metadata
// together with the error.
func (r *Client) Get(ctx context.Context, key trc.Key) (Answer, error) {
	ctx, cancel := WithRequestTimeout(ctx)
	defer cancel()
	w := r.Writes // an answer must serve all caches
	return w.do(ctx, w.client.Get().NamespaceIfScoped(key.Namespace, w.Namespaced).Resource(w.Name).Name(key.Name))
}

// Create creates an object.
func (r *Client) Create(ctx context.Context, o trc.Object, options Options) (Answer, error) {
	return r.write(ctx, trc.KeyOf(o), r.at(options.on(r.client.Post()), o.GetNamespace()).Body(o))
}

// Update updates an object, or one of its sub-resources.
func (r *Client) Update(ctx context.Context, o trc.Object, options Options) (Answer, error) {
	key := trc.KeyOf(o)
	return r.write(ctx, key, r.at(options.on(r.client.Put()), key.Namespace, options.names(key)...).Body(o))
}

// Patch patches or applies an object, or one of its sub-resources.
func (r *Client) Patch(ctx context.Context, key trc.Key, kind types.PatchType, body []byte, options Options) (Answer, error) {
	request := options.on(r.client.Patch(kind))
	if kind == types.ApplyPatchType {
		request.Param("force", strconv.FormatBool(!options.WithoutForce))
		// For an apply, the server only checks that no field occurs twice, and parses the body again for
		// that.
		request.Param("fieldValidation", metav1.FieldValidationIgnore)
	}
	return r.write(ctx, key, r.at(request, key.Namespace, options.names(key)...).Body(body))
}

// Formed returns the object of an answer in the form of the client.
func (r *Client) Formed(found Answer) trc.Object {
	if r.Form == object.Metadata {
		return object.MetadataOf(found.Object, r.GVK)
	}
	return found.Object
}

// at sets the URL of a request; names follow the name of the resource. It joins the path once.
// client-go joins the path segment by segment each of the five times that it needs the URL of a
// request, which was a tenth of all allocations of a write.
func (r *Client) at(request *rest.Request, namespace string, names ...string) *rest.Request {
	if r.Agent != "" {
		request.SetHeader("User-Agent", r.Agent) // otherwise a transport copies the request to set it
	}
	path := []string{r.root}
	if r.Namespaced {
		path = append(path, "namespaces", namespace)
	}
	path = append(append(path, r.Name), names...)
	for _, segment := range path[1:] {
		if segment == "" || content.IsPathSegmentName(segment) != nil { // client-go returns the error
			return addressed(request.NamespaceIfScoped(namespace, r.Namespaced).Resource(r.Name), names)
		}
	}
	return request.AbsPath(path...)
}

func addressed(request *rest.Request, names []string) *rest.Request {
	if len(names) == 0 {
		return request
	}
	return request.Name(names[0]).SubResource(names[1:]...)
}

// Delete deletes an object. It returns the object if the server answered with one. A Status as
// answer means that the object is gone already: then it returns none.
func (r *Client) Delete(ctx context.Context, key trc.Key, options metav1.DeleteOptions) (Answer, error) {
	body, err := json.Marshal(&options) // as JSON, which clients of all forms can send
	if err != nil {
		return Answer{}, errors.Join(ErrUnsent, err)
	}
	// Request the answer as JSON, too: whether it is an object or a Status must be clear before it is
	// decoded.
	request := r.client.Delete().NamespaceIfScoped(key.Namespace, r.Namespaced).Resource(r.Name).Name(key.Name).
		SetHeader("Content-Type", runtime.ContentTypeJSON).SetHeader("Accept", runtime.ContentTypeJSON).Body(body)
	if err := request.Error(); err != nil {
		return Answer{}, errors.Join(ErrUnsent, err)
	}
	result := atOnce(request).Do(r.Discreet(ctx))
	if err := result.Error(); err != nil {
		return Answer{}, DiscreetError(r.GVK, err)
	}
	raw, err := result.Raw()
	if err != nil {
		return Answer{}, err
	}
	var kind metav1.TypeMeta
	if err := json.Unmarshal(raw, &kind); err != nil {
		return Answer{}, errors.Join(ErrUndecodable, UndecodedError(r.GVK, err))
	}
	if kind.Kind == "Status" && kind.APIVersion == "v1" {
		return Answer{}, nil
	}
	o := r.NewItem()
	if err := DecodeInto(raw, o); err != nil {
		return r.undecodable(raw, UndecodedError(r.GVK, err))
	}
	return Answer{Object: o, Text: raw}, nil
}

// undecodable returns an answer that does not fit the Go type, as far as it can be decoded.
func (r *Client) undecodable(raw []byte, err error) (Answer, error) {
	why := errors.Join(ErrUndecodable, err)
	var metadata metav1.PartialObjectMetadata
	if json.Unmarshal(raw, &metadata) != nil || metadata.GroupVersionKind() != r.GVK || metadata.UID == "" || metadata.ResourceVersion == "" {
		return Answer{}, why // the object is unknown
	}
	o := r.NewItem()
	if u, is := GuardedUndecoded(raw, r.NewItem(), err).(*trc.Undecodable); is {
		o = u.Object
	} else {
		SetMetadata(o, &metadata)
	}
	return Answer{Object: o, Text: raw, Undecodable: err}, why
}

// write sends a request that changes the object with that key.
func (r *Client) write(ctx context.Context, key trc.Key, request *rest.Request) (Answer, error) {
	r.Decoded.begin(key)
	defer r.Decoded.end(key)
	return r.do(ctx, request)
}

// atOnce keeps the client from retrying by itself when the server sends Retry-After. That would
// block a worker and use up the time of the request. Instead the run ends, and the scheduler starts
// another one later.
func atOnce(request *rest.Request) *rest.Request { return request.MaxRetries(0) }

func (r *Client) do(ctx context.Context, request *rest.Request) (Answer, error) {
	if err := request.Error(); err != nil {
		return Answer{}, errors.Join(ErrUnsent, err)
	}
	if r.forUnstructured != nil && r.forUnstructured() {
		// From protobuf, a cache gets no more than the Go type holds.
		request.SetHeader("Accept", runtime.ContentTypeJSON)
	}
	var code int
	result := atOnce(request).Do(r.Discreet(ctx)).StatusCode(&code)
	if err := result.Error(); err != nil {
		return Answer{}, DiscreetError(r.GVK, err)
	}
	o, raw := r.NewItem(), jsonOf(result)
	if err := decodedInto(result, o); err != nil {
		return r.undecodable(raw, UndecodedError(r.GVK, err))
	}
	// client-go leaves the object empty if the answer is of another kind.
	if r.Form == object.Typed && o.GetName() == "" && raw != nil {
		var kind metav1.TypeMeta
		if json.Unmarshal(raw, &kind) == nil && kind.GroupVersionKind() != r.GVK {
			return Answer{}, fmt.Errorf("%w: it is a %s, not a %s", ErrUndecodable, kind.Kind, r.GVK.Kind)
		}
	}
	// Unstructured objects accept any kind, a Scale for instance.
	if kind := o.GetObjectKind().GroupVersionKind(); r.Form == object.Unstructured && kind != r.GVK {
		return Answer{}, fmt.Errorf("%w: it is a %s, not a %s", ErrUndecodable, kind.Kind, r.GVK.Kind)
	}
	return Answer{Object: o, Text: raw, Created: code == http.StatusCreated}, nil
}

// jsonOf returns the body of an answer if it is JSON.
func jsonOf(result rest.Result) []byte {
	raw, err := result.Raw()
	if err != nil || !bytes.HasPrefix(raw, []byte("{")) {
		return nil
	}
	return raw
}

// GroupResource returns the group and the plural name of the resource.
func (r *Client) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: r.GVK.Group, Resource: r.Name}
}

// Describe returns the name of an object for errors and records.
func (r *Client) Describe(key trc.Key) string {
	if key.Namespace == "" {
		return r.GVK.Kind + " " + key.Name + r.place
	}
	return r.GVK.Kind + " " + key.String() + r.place
}

// CheckScope returns an error if the key has no name, or its namespace does not fit the scope of
// the resource.
func (r *Client) CheckScope(key trc.Key) error {
	switch {
	case key.Name == "":
		return fmt.Errorf("framework: %s: no name", r.Describe(key))
	case r.Namespaced && key.Namespace == "":
		return fmt.Errorf("framework: %s: no namespace, and %s is namespaced", r.Describe(key), r.GVK.Kind)
	case !r.Namespaced && key.Namespace != "":
		return fmt.Errorf("framework: %s: namespace %q, and %s is cluster-scoped", r.Describe(key), key.Namespace, r.GVK.Kind)
	}
	return nil
}

// GVKOf returns the kind of an object: from the scheme for typed objects, from the object
// otherwise.
func GVKOf(scheme *runtime.Scheme, o runtime.Object) (schema.GroupVersionKind, error) {
	switch o := o.(type) {
	case nil:
		return schema.GroupVersionKind{}, errors.New("framework: the object is nil")
	case *unstructured.Unstructured:
		gvk := o.GroupVersionKind()
		if gvk.Kind == "" || gvk.Version == "" {
			return gvk, fmt.Errorf("framework: unstructured object: apiVersion %q, kind %q: neither may be empty", o.GetAPIVersion(), o.GetKind())
		}
		return gvk, nil
	case *metav1.PartialObjectMetadata:
		gvk := o.GroupVersionKind()
		if gvk.Kind == "" || gvk.Version == "" {
			return gvk, fmt.Errorf("framework: metadata-only object: apiVersion %q, kind %q: neither may be empty", o.APIVersion, o.Kind)
		}
		return gvk, nil
	}
	gvks, _, err := scheme.ObjectKinds(o)
	if err != nil {
		return schema.GroupVersionKind{}, fmt.Errorf("framework: %T: %w; is its AddToScheme called on OperatorOptions.Scheme?", o, err)
	}
	return gvks[0], nil
}
