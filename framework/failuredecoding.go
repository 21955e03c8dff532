package framework

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/json"
)

// withFailures decodes what the API server answers to a failure, which the serializer of unstructured objects takes
// for one of these: the causes would be lost, such as the fields of a conflict. (The dynamic client's takes an object of
// a kind named Status, whatever its group, for a failure.)
type withFailures struct{ runtime.NegotiatedSerializer }

// DecoderToVersion wraps the decoder of objects.
func (w withFailures) DecoderToVersion(decoder runtime.Decoder, version runtime.GroupVersioner) runtime.Decoder {
	return failureDecoder{w.NegotiatedSerializer.DecoderToVersion(decoder, version)}
}

type failureDecoder struct{ runtime.Decoder }

// ofFailures is what client-go expects in the answer to a failed request, and in no other: a version without a kind.
var ofFailures = schema.GroupVersionKind{Version: "v1"}

// Decode decodes an object, or a failure where one is expected.
func (d failureDecoder) Decode(data []byte, expected *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if into == nil && expected != nil && *expected == ofFailures {
		failure, kind := &metav1.Status{}, ofFailures.GroupVersion().WithKind("Status")
		if err := json.UnmarshalCaseSensitivePreserveInts(data, failure); err == nil && failure.GroupVersionKind() == kind {
			return failure, &kind, nil
		}
	}
	return d.Decoder.Decode(data, expected, into)
}
