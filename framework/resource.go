package framework

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
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/trc"
)

// resource is one resource of one cluster, as a client: plain requests, no cache.
type resource struct {
	gvk        schema.GroupVersionKind
	form       object.Form
	name       string // plural, as in the URL
	place      string // that descriptions add, of another cluster
	namespaced bool
	// statusApart tells that the status is a sub-resource: writes of the resource leave it as it is.
	statusApart *atomic.Bool
	// subresources are those that discovery told of last; onlyCreated says that objects are answered, never stored.
	subresources *atomic.Pointer[subresources]
	onlyCreated  bool
	client       rest.Interface
	root         string // path of the group and version
	agent        string // that requests name
	// forUnstructured reports whether answers must come as JSON, because some cache keeps unstructured objects of the kind;
	// nil if they always do.
	forUnstructured func() bool
	newItem         func() Object
	newList         func() runtime.Object // nil if the scheme lacks the type
	// writes is the resource that writes go through: itself, or of metadata-only objects the whole ones, as
	// an answer must serve all caches.
	writes *resource
	echoes *echoes
	logger logr.Logger // of requests whose context has none
}

// hasProtobuf tells built-in kinds, of which the server answers nothing that does not fit.
func (r *resource) hasProtobuf() bool {
	_, has := r.newItem().(runtime.ProtobufMarshaller)
	return has && r.form == object.Typed
}

// parameters encodes ListOptions and the like, which have the same form for every resource.
var parameters, parametersVersion = func() (runtime.ParameterCodec, schema.GroupVersion) {
	version := schema.GroupVersion{Version: "v1"}
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, version)
	return runtime.NewParameterCodec(scheme), version
}()

// listWatch is the resource as seen by a store: one namespace and selectors.
type listWatch struct {
	*resource
	namespace      string
	labels, fields string
	shard          string
}

var _ trc.ListerWatcher = listWatch{}

func (l listWatch) List(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	options.LabelSelector, options.FieldSelector, options.ShardSelector = l.labels, l.fields, l.shard
	list, err := l.list(ctx, options)
	if err == nil && l.shard != "" {
		err = l.checkShard(ctx, list)
	}
	if err != nil {
		return nil, err
	}
	return list, nil
}

func (l listWatch) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	if options.ResourceVersion == "0" {
		// "Any version" may be older than what was read or written before: the first list must not be.
		options.ResourceVersion = ""
	}
	list, ctx := l.newList(), l.discreet(ctx)
	result := l.inForm(l.client.Get(), "List").NamespaceIfScoped(l.namespace, l.namespace != "").Resource(l.name).
		SpecificallyVersionedParams(&options, parameters, parametersVersion).Do(ctx)
	err := decodedInto(result, list)
	if err == nil {
		l.echoes.passed(list.(metav1.ListInterface).GetResourceVersion())
	}
	if raw, failed := result.Raw(); err != nil && failed == nil && l.form == object.Typed {
		if found, notJSON := l.listOneByOne(raw); notJSON == nil {
			return found, nil
		}
	}
	if only, ok := list.(*metav1.PartialObjectMetadataList); ok {
		for i := range only.Items {
			only.Items[i].SetGroupVersionKind(l.gvk)
		}
	}
	return list, discreetError(l.gvk, err)
}

func (l listWatch) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	if err := l.probeShard(ctx); err != nil {
		return nil, err
	}
	options.LabelSelector, options.FieldSelector, options.ShardSelector = l.labels, l.fields, l.shard
	options.Watch = true
	l.echoes.watched.Store(true)
	// Of streamed lists the server compresses every later event by itself too: more work on both sides than it saves.
	// Kubernetes' own controllers do without compression as well. It is for the Reflector to try again: client-go would do so for
	// minutes where a connection times out, and nobody would learn of it.
	ctx = l.discreet(ctx)
	events, err := l.inForm(l.client.Get(), "").MaxRetries(0).NamespaceIfScoped(l.namespace, l.namespace != "").Resource(l.name).
		SetHeader("Accept-Encoding", "identity").SpecificallyVersionedParams(&options, parameters, parametersVersion).Watch(ctx)
	if err != nil || l.form != object.Metadata {
		return events, discreetError(l.gvk, err)
	}
	return newMetadataWatch(events, l.gvk), nil
}

// inForm asks for metadata only where that is the form.
func (r *resource) inForm(request *rest.Request, suffix string) *rest.Request {
	if r.form != object.Metadata {
		return request
	}
	as := ";as=PartialObjectMetadata" + suffix + ";g=meta.k8s.io;v=v1"
	return request.SetHeader("Accept", runtime.ContentTypeProtobuf+as+","+runtime.ContentTypeJSON+as)
}

// errUndecodable is a complete answer that the Go type cannot hold: the request was carried out.
var errUndecodable = errors.New("framework: the answer does not fit the Go type")

// errUnsent is a request that could not even be put together.
var errUnsent = errors.New("framework: the request cannot be sent")

// get reads the object from the API server, consistently, and gives up where that takes as long as a write may. Its
// callers lay what they find over the caches; see cluster.read. Of one that is undecodable there is the metadata, beside
// the error.
func (r *resource) get(ctx context.Context, key trc.Key) (answer, error) {
	ctx, cancel := withRequestTimeout(ctx)
	defer cancel()
	w := r.writes // an answer must serve all caches
	return w.do(ctx, w.client.Get().NamespaceIfScoped(key.Namespace, w.namespaced).Resource(w.name).Name(key.Name))
}

func (r *resource) create(ctx context.Context, o Object, options requestOptions) (answer, error) {
	return r.write(ctx, trc.KeyOf(o), r.at(options.on(r.client.Post()), o.GetNamespace()).Body(o))
}

func (r *resource) update(ctx context.Context, o Object, options requestOptions) (answer, error) {
	key := trc.KeyOf(o)
	return r.write(ctx, key, r.at(options.on(r.client.Put()), key.Namespace, options.names(key)...).Body(o))
}

func (r *resource) patch(ctx context.Context, key trc.Key, kind types.PatchType, body []byte, options requestOptions) (answer, error) {
	request := options.on(r.client.Patch(kind))
	if kind == types.ApplyPatchType {
		request.Param("force", strconv.FormatBool(!options.leaveToOthers))
		// Of an apply, the server validates nothing besides but that no field is there twice, and parses it again for that.
		request.Param("fieldValidation", metav1.FieldValidationIgnore)
	}
	return r.write(ctx, key, r.at(request, key.Namespace, options.names(key)...).Body(body))
}

// formed returns what get found in the form of the resource.
func (r *resource) formed(found answer) Object {
	if r.form == object.Metadata {
		return metadataOf(found.Object, r.gvk)
	}
	return found.Object
}

// at addresses a request, with the names behind the resource's. It joins the path once: client-go joins what it is given one
// by one each of the five times that it asks a request for its URL, which made a tenth of all that a write allocates.
func (r *resource) at(request *rest.Request, namespace string, names ...string) *rest.Request {
	if r.agent != "" {
		request.SetHeader("User-Agent", r.agent) // or a transport copies the request to do so
	}
	path := []string{r.root}
	if r.namespaced {
		path = append(path, "namespaces", namespace)
	}
	path = append(append(path, r.name), names...)
	for _, segment := range path[1:] {
		if segment == "" || content.IsPathSegmentName(segment) != nil { // client-go says what is wrong
			return addressed(request.NamespaceIfScoped(namespace, r.namespaced).Resource(r.name), names)
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

// delete returns the object if the server answered with one, or none if it answered with a Status: then
// the object is gone already.
func (r *resource) delete(ctx context.Context, key trc.Key, options metav1.DeleteOptions) (answer, error) {
	body, err := json.Marshal(&options) // as JSON, which clients of every form can send
	if err != nil {
		return answer{}, errors.Join(errUnsent, err)
	}
	// Answered as JSON too: what came back, an object or a Status, is to be told before it is decoded.
	request := r.client.Delete().NamespaceIfScoped(key.Namespace, r.namespaced).Resource(r.name).Name(key.Name).
		SetHeader("Content-Type", runtime.ContentTypeJSON).SetHeader("Accept", runtime.ContentTypeJSON).Body(body)
	if err := request.Error(); err != nil {
		return answer{}, errors.Join(errUnsent, err)
	}
	result := atOnce(request).Do(r.discreet(ctx))
	if err := result.Error(); err != nil {
		return answer{}, discreetError(r.gvk, err)
	}
	raw, err := result.Raw()
	if err != nil {
		return answer{}, err
	}
	var kind metav1.TypeMeta
	if err := json.Unmarshal(raw, &kind); err != nil {
		return answer{}, errors.Join(errUndecodable, undecodedError(r.gvk, err))
	}
	if kind.Kind == "Status" && kind.APIVersion == "v1" {
		return answer{}, nil
	}
	o := r.newItem()
	if err := decodeInto(raw, o); err != nil {
		return r.undecodable(raw, undecodedError(r.gvk, err))
	}
	return answer{Object: o, text: raw}, nil
}

// undecodable is an answer that the Go type cannot hold, as far as it can.
func (r *resource) undecodable(raw []byte, err error) (answer, error) {
	why := errors.Join(errUndecodable, err)
	var metadata metav1.PartialObjectMetadata
	if json.Unmarshal(raw, &metadata) != nil || metadata.GroupVersionKind() != r.gvk || metadata.UID == "" || metadata.ResourceVersion == "" {
		return answer{}, why // nobody knows what it is
	}
	o := r.newItem()
	if u, is := guardedUndecoded(raw, r.newItem(), err).(*trc.Undecoded); is {
		o = u.Object
	} else {
		setMetadata(o, &metadata)
	}
	return answer{Object: o, text: raw, undecodable: err}, why
}

// write sends a request that changes the object of the key.
func (r *resource) write(ctx context.Context, key trc.Key, request *rest.Request) (answer, error) {
	r.echoes.begin(key)
	defer r.echoes.end(key)
	return r.do(ctx, request)
}

// atOnce keeps the client from waiting by itself where the server names a time to come back: that would hold up a
// worker, and the request's time would pass with it. The run ends, and follows then.
func atOnce(request *rest.Request) *rest.Request { return request.MaxRetries(0) }

func (r *resource) do(ctx context.Context, request *rest.Request) (answer, error) {
	if err := request.Error(); err != nil {
		return answer{}, errors.Join(errUnsent, err)
	}
	if r.forUnstructured != nil && r.forUnstructured() {
		request.SetHeader("Accept", runtime.ContentTypeJSON) // of protobuf no cache could make more than the Go type holds
	}
	var code int
	result := atOnce(request).Do(r.discreet(ctx)).StatusCode(&code)
	if err := result.Error(); err != nil {
		return answer{}, discreetError(r.gvk, err)
	}
	o, raw := r.newItem(), jsonOf(result)
	if err := decodedInto(result, o); err != nil {
		return r.undecodable(raw, undecodedError(r.gvk, err))
	}
	if r.form == object.Typed && o.GetName() == "" && raw != nil { // client-go leaves it empty if the answer is of another kind
		var kind metav1.TypeMeta
		if json.Unmarshal(raw, &kind) == nil && kind.GroupVersionKind() != r.gvk {
			return answer{}, fmt.Errorf("%w: it is a %s, not a %s", errUndecodable, kind.Kind, r.gvk.Kind)
		}
	}
	// Unstructured objects take in anything, a Scale for instance.
	if kind := o.GetObjectKind().GroupVersionKind(); r.form == object.Unstructured && kind != r.gvk {
		return answer{}, fmt.Errorf("%w: it is a %s, not a %s", errUndecodable, kind.Kind, r.gvk.Kind)
	}
	return answer{Object: o, text: raw, created: code == http.StatusCreated}, nil
}

// jsonOf returns the body of an answer if it is JSON.
func jsonOf(result rest.Result) []byte {
	raw, err := result.Raw()
	if err != nil || !bytes.HasPrefix(raw, []byte("{")) {
		return nil
	}
	return raw
}

func (r *resource) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: r.gvk.Group, Resource: r.name}
}

// describe names an object of the resource in errors and records.
func (r *resource) describe(key trc.Key) string {
	if key.Namespace == "" {
		return r.gvk.Kind + " " + key.Name + r.place
	}
	return r.gvk.Kind + " " + key.String() + r.place
}

// checkScope refuses an object whose namespace does not fit the resource.
func (r *resource) checkScope(key trc.Key) error {
	switch {
	case key.Name == "":
		return fmt.Errorf("framework: %s: no name", r.describe(key))
	case r.namespaced && key.Namespace == "":
		return fmt.Errorf("framework: %s: no namespace, and %s is namespaced", r.describe(key), r.gvk.Kind)
	case !r.namespaced && key.Namespace != "":
		return fmt.Errorf("framework: %s: namespace %q, and %s is cluster-scoped", r.describe(key), key.Namespace, r.gvk.Kind)
	}
	return nil
}

// gvkOf tells the kind of an object: from the scheme for typed ones, from the object otherwise.
func gvkOf(scheme *runtime.Scheme, o runtime.Object) (schema.GroupVersionKind, error) {
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
