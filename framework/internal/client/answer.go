package client

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/evenkeel/evenkeel/internal/author"
	"github.com/evenkeel/evenkeel/trc"
)

// Caches of one kind may keep its objects in several Go forms, and a Go type may lack fields that the installed
// CustomResourceDefinition has. So no form is ever made from a poorer one: each is decoded from the JSON that the
// server answered, as a watch of that form decodes it. Where there is no such JSON, the object is read.

// Answer is an object as the API server returned it.
type Answer struct {
	trc.Object // nil for a Status, or if a part of it answered; the metadata at least if it is undecodable
	// Text is the JSON that it was decoded from, which is not changed; nil if it came as protobuf or by other code.
	Text []byte
	// Undecodable is why the Go type cannot hold the object; nil if it can.
	Undecodable error
	// About is what a part of the object answered, nil if that is unknown.
	About   *metav1.PartialObjectMetadata
	Created bool // 201
	Noted   int  // the request's place in the run's record, from 1; 0 if there is none
}

// GuardedUndecoded returns what stands for an object that does not decode, or nil.
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

// DecodeInto decodes into an object of any form.
func DecodeInto(text []byte, into trc.Object) error {
	if u, ok := into.(*unstructured.Unstructured); ok {
		return u.UnmarshalJSON(text)
	}
	return decode(text, into)
}

// SetMetadata gives an object the metadata of another, which it shares from then on, without a decoder of its type's.
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

// AnswerOf is an object as a list or other code returned it.
func AnswerOf(o trc.Object) Answer {
	if u, ok := o.(*trc.Undecoded); ok {
		return Answer{Object: u.Object, Undecodable: u.Err}
	}
	return Answer{Object: o}
}
