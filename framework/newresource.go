package framework

import (
	"fmt"
	"net/http"
	"sync/atomic"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework/internal/object"
)

// resourceConfig is what all resources of a cluster share.
type resourceConfig struct {
	rest   *rest.Config
	http   *http.Client
	scheme *runtime.Scheme
	codecs serializer.CodecFactory
	place  string      // that descriptions add, of another cluster
	logger logr.Logger // of requests whose context has none
	// keepsUnstructured reports whether some cache keeps unstructured objects of a kind: then answers must come as JSON.
	keepsUnstructured func(gvk schema.GroupVersionKind) bool
}

// newResource returns a resource that discovery has found, with its sub-resources, to be read and written in a form.
func newResource(c resourceConfig, gvk schema.GroupVersionKind, form object.Form, served metav1.APIResource, parts subresources) (*resource, error) {
	r := &resource{
		gvk: gvk, form: form, place: c.place, name: served.Name, namespaced: served.Namespaced, echoes: &echoes{},
		statusApart: &atomic.Bool{}, subresources: &atomic.Pointer[subresources]{}, onlyCreated: isOnlyCreated(served), logger: c.logger,
	}
	r.statusApart.Store(parts.has("status"))
	r.subresources.Store(&parts)
	r.writes = r
	c.constructors(r)
	var err error
	r.client, err = c.clientFor(r)
	return r, err
}

// constructors sets what makes objects and lists of the form.
func (c resourceConfig) constructors(r *resource) {
	switch r.form {
	case object.Unstructured:
		r.newItem = func() Object { return &unstructured.Unstructured{} }
		r.newList = func() runtime.Object { return &unstructured.UnstructuredList{} }
		return
	case object.Metadata:
		r.newItem = func() Object { return &metav1.PartialObjectMetadata{} }
		r.newList = func() runtime.Object { return &metav1.PartialObjectMetadataList{} }
		return
	}
	r.newItem = func() Object { o, _ := c.scheme.New(r.gvk); return o.(Object) }
	if listKind := r.gvk.GroupVersion().WithKind(r.gvk.Kind + "List"); c.scheme.Recognizes(listKind) {
		r.newList = func() runtime.Object { o, _ := c.scheme.New(listKind); return o }
	}
}

// clientFor makes the client of one group and version, which decodes what it is answered in the form.
func (c resourceConfig) clientFor(r *resource) (rest.Interface, error) {
	config := rest.CopyConfig(c.rest)
	gv := r.gvk.GroupVersion()
	config.GroupVersion = &gv
	config.APIPath = "/apis"
	if gv.Group == "" {
		config.APIPath = "/api"
	}
	r.root, r.agent = config.APIPath+"/"+gv.String(), config.UserAgent
	switch r.form {
	case object.Unstructured:
		config.NegotiatedSerializer = newUnstructuredly()
	case object.Metadata:
		config = metadata.ConfigFor(config)
	default:
		config.NegotiatedSerializer = newDirectly(c.codecs.WithoutConversion(), r.gvk, r.newItem, r.echoes)
	}
	// Built-in kinds have a protobuf form, which is cheaper for both sides.
	if r.hasProtobuf() && config.ContentType == "" {
		config.ContentType = runtime.ContentTypeProtobuf
		config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	}
	if isSecret(r.gvk) {
		config.NegotiatedSerializer = discreetly{config.NegotiatedSerializer, r.gvk}
	}
	if config.ContentType == runtime.ContentTypeProtobuf && r.form == object.Typed {
		r.forUnstructured = func() bool { return c.keepsUnstructured(r.gvk) }
		r.echoes.inProtobuf = true
	}
	client, err := rest.RESTClientForConfigAndClient(config, c.http)
	if err != nil {
		return nil, fmt.Errorf("framework: client for %s: %w", r.gvk, err)
	}
	return client, nil
}
