package client

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured/unstructuredscheme"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	serializerjson "k8s.io/apimachinery/pkg/runtime/serializer/json"
)

// unstructuredly is a serializer of unstructured objects. Kubernetes' own one takes the events of watches, and the
// Status of a refusal, for unstructured objects too: then a watch ends with its first event, and nobody can tell why a
// request was refused.
type unstructuredly struct {
	runtime.NegotiatedSerializer
	mediaTypes []runtime.SerializerInfo
}

func newUnstructuredly() *unstructuredly {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	events := serializerjson.NewSerializerWithOptions(serializerjson.DefaultMetaFactory, scheme, scheme, serializerjson.SerializerOptions{})
	general := unstructuredscheme.NewUnstructuredNegotiatedSerializer()
	mediaTypes := general.SupportedMediaTypes()
	for i := range mediaTypes {
		if stream := mediaTypes[i].StreamSerializer; stream != nil && mediaTypes[i].MediaType == runtime.ContentTypeJSON {
			own := *stream
			own.Serializer = events
			mediaTypes[i].StreamSerializer = &own
		}
	}
	return &unstructuredly{general, mediaTypes}
}

// SupportedMediaTypes returns them with events of their own.
func (u *unstructuredly) SupportedMediaTypes() []runtime.SerializerInfo { return u.mediaTypes }

// DecoderToVersion leaves the version as it is: the general one knows none to convert the objects of events to.
func (u *unstructuredly) DecoderToVersion(decoder runtime.Decoder, _ runtime.GroupVersioner) runtime.Decoder {
	return statusDecoder{decoder}
}

// statusDecoder knows a Status.
type statusDecoder struct{ runtime.Decoder }

// Decode decodes an object, or a Status where no object is named to decode into.
func (d statusDecoder) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	o, gvk, err := d.Decoder.Decode(data, defaults, into)
	u, ok := o.(*unstructured.Unstructured)
	if err != nil || into != nil || !ok || u.GroupVersionKind() != (schema.GroupVersionKind{Version: "v1", Kind: "Status"}) {
		return o, gvk, err
	}
	status := &metav1.Status{}
	if err := json.Unmarshal(data, status); err != nil {
		return nil, gvk, err
	}
	return status, gvk, nil
}
