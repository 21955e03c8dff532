package client

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
	"github.com/evenkeel/evenkeel/trc"
)

// Config is the configuration that all clients of a cluster share.
type Config struct {
	Rest   *rest.Config
	HTTP   *http.Client
	Scheme *runtime.Scheme
	Codecs serializer.CodecFactory
	Place  string      // suffix of descriptions, for a remote cluster
	Logger logr.Logger // for requests whose context has none
	// KeepsUnstructured reports whether a cache keeps unstructured objects of a kind: then answers
	// must come as JSON.
	KeepsUnstructured func(gvk schema.GroupVersionKind) bool
}

// New returns a client for a resource that discovery has found, in one form. parts are its
// sub-resources.
func New(c Config, gvk schema.GroupVersionKind, form object.Form, served metav1.APIResource, parts Subresources) (*Client, error) {
	r := &Client{
		GVK: gvk, Form: form, place: c.Place, Name: served.Name, Namespaced: served.Namespaced, Decoded: &DecodeCache{},
		StatusApart: &atomic.Bool{}, Subresources: &atomic.Pointer[Subresources]{}, OnlyCreated: isOnlyCreated(served), logger: c.Logger,
	}
	r.StatusApart.Store(parts.Has("status"))
	r.Subresources.Store(&parts)
	r.Writes = r
	c.constructors(r)
	var err error
	r.client, err = c.clientFor(r)
	return r, err
}

// constructors sets the functions that create objects and lists of the form.
func (c Config) constructors(r *Client) {
	switch r.Form {
	case object.Unstructured:
		r.NewItem = func() trc.Object { return &unstructured.Unstructured{} }
		r.NewList = func() runtime.Object { return &unstructured.UnstructuredList{} }
		return
	case object.Metadata:
		r.NewItem = func() trc.Object { return &metav1.PartialObjectMetadata{} }
		r.NewList = func() runtime.Object { return &metav1.PartialObjectMetadataList{} }
		return
	}
	r.NewItem = func() trc.Object { o, _ := c.Scheme.New(r.GVK); return o.(trc.Object) }
	if listKind := r.GVK.GroupVersion().WithKind(r.GVK.Kind + "List"); c.Scheme.Recognizes(listKind) {
		r.NewList = func() runtime.Object { o, _ := c.Scheme.New(listKind); return o }
	}
}

// clientFor creates the REST client for one group and version, which decodes answers in the form.
func (c Config) clientFor(r *Client) (rest.Interface, error) {
	config := rest.CopyConfig(c.Rest)
	gv := r.GVK.GroupVersion()
	config.GroupVersion = &gv
	config.APIPath = "/apis"
	if gv.Group == "" {
		config.APIPath = "/api"
	}
	r.root, r.Agent = config.APIPath+"/"+gv.String(), config.UserAgent
	switch r.Form {
	case object.Unstructured:
		config.NegotiatedSerializer = newUnstructuredSerializer()
	case object.Metadata:
		config = metadata.ConfigFor(config)
	default:
		config.NegotiatedSerializer = newFastSerializer(c.Codecs.WithoutConversion(), r.GVK, r.NewItem, r.Decoded)
	}
	// Built-in kinds have a protobuf form, which is cheaper for both sides.
	if r.HasProtobuf() && config.ContentType == "" {
		config.ContentType = runtime.ContentTypeProtobuf
		config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	}
	if isSecret(r.GVK) {
		config.NegotiatedSerializer = discreetSerializer{config.NegotiatedSerializer, r.GVK}
		if config.WarningHandler == nil && config.WarningHandlerWithContext == nil {
			config.WarningHandlerWithContext = discreetWarnings{}
		}
	}
	if config.ContentType == runtime.ContentTypeProtobuf && r.Form == object.Typed {
		r.forUnstructured = func() bool { return c.KeepsUnstructured(r.GVK) }
		r.Decoded.inProtobuf = true
	}
	client, err := rest.RESTClientForConfigAndClient(config, c.HTTP)
	if err != nil {
		return nil, fmt.Errorf("framework: client for %s: %w", r.GVK, err)
	}
	return client, nil
}
