package client

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/evenkeel/evenkeel/internal/author"
	"github.com/evenkeel/evenkeel/trc"
)

// Caches of one kind may keep its objects in several Go forms, and a Go type may lack fields that
// the installed CustomResourceDefinition has. So no form is made from a poorer one. Each form is
// decoded from the JSON that the server returned, as a watch of that form would decode it. If there
// is no such JSON, the object is read.

// Answer is an object as the API server returned it.
type Answer struct {
	trc.Object // nil for a Status or an answer of another kind
	// Text is the JSON that the object was decoded from. It must not be changed. It is nil if the
	// answer came as protobuf or through other code.
	Text []byte
	// Undecodable is why the Go type cannot hold the object, nil if it can.
	Undecodable error
	// About identifies the object if the answer was of another kind, nil if that is unknown.
	About   *metav1.PartialObjectMetadata
	Created bool // the status code was 201
	Noted   int  // the request's number in the run's record, from 1; 0 if there is none
}

// GuardedUndecoded returns the undecodable object for a JSON text, or nil if there is none.
func GuardedUndecoded(text []byte, o trc.Object, why error) (u trc.Object) {
	panicked := author.Try(func() {
		if found, err := undecoded(text, o, why); err == nil {
			u = found
		}
	})
	if panicked != nil {
		return nil
	}
	return u
}

// DecodeInto decodes JSON into an object of any form.
func DecodeInto(text []byte, into trc.Object) error {
	if u, ok := into.(*unstructured.Unstructured); ok {
		return u.UnmarshalJSON(text)
	}
	return decode(text, into)
}

// SetMetadata copies the metadata of one object to another without the decoder of its type. The two
// share maps and slices from then on.
func SetMetadata(o, from trc.Object) {
	o.SetName(from.GetName())
	o.SetGenerateName(from.GetGenerateName())
	o.SetNamespace(from.GetNamespace())
	o.SetUID(from.GetUID())
	o.SetResourceVersion(from.GetResourceVersion())
	o.SetGeneration(from.GetGeneration())
	o.SetCreationTimestamp(from.GetCreationTimestamp())
	o.SetDeletionTimestamp(from.GetDeletionTimestamp())
	o.SetDeletionGracePeriodSeconds(from.GetDeletionGracePeriodSeconds())
	o.SetLabels(from.GetLabels())
	o.SetAnnotations(from.GetAnnotations())
	o.SetOwnerReferences(from.GetOwnerReferences())
	o.SetFinalizers(from.GetFinalizers())
	o.SetManagedFields(from.GetManagedFields())
}

// AnswerOf returns an object from a list or from other code as an answer.
func AnswerOf(o trc.Object) Answer {
	if u, ok := o.(*trc.Undecodable); ok {
		return Answer{Object: u.Object, Undecodable: u.Err}
	}
	return Answer{Object: o}
}
