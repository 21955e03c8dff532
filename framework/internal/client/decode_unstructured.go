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

// unstructuredSerializer decodes unstructured objects. Kubernetes' own serializer also decodes
// watch events and the Status of a refusal as unstructured objects. A watch would then end with its
// first event, and the reason of a refusal would be lost.
type unstructuredSerializer struct {
	runtime.NegotiatedSerializer
	mediaTypes []runtime.SerializerInfo
}

func newUnstructuredSerializer() *unstructuredSerializer {
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
	return &unstructuredSerializer{general, mediaTypes}
}

// SupportedMediaTypes returns the media types with a separate serializer for events.
func (u *unstructuredSerializer) SupportedMediaTypes() []runtime.SerializerInfo { return u.mediaTypes }

// DecoderToVersion does not convert versions: the general serializer has no version to convert the
// objects of events to.
func (u *unstructuredSerializer) DecoderToVersion(decoder runtime.Decoder, _ runtime.GroupVersioner) runtime.Decoder {
	return statusDecoder{decoder}
}

// statusDecoder decodes a Status as such.
type statusDecoder struct{ runtime.Decoder }

// Decode decodes an object, or a Status if there is no object to decode into.
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
