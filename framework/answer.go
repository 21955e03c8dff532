package framework

import (
	"encoding/json"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/internal/author"
	"github.com/evenkeel/evenkeel/trc"
)

// Caches of one kind may keep its objects in several Go forms, and a Go type may lack fields that the installed
// CustomResourceDefinition has. So no form is ever made from a poorer one: each is decoded from the JSON that the
// server answered, as a watch of that form decodes it. Where there is no such JSON, the object is read.

// answer is an object as the API server returned it.
type answer struct {
	Object // nil for a Status, or if a part of it answered; the metadata at least if it is undecodable
	// text is the JSON that it was decoded from, which is not changed; nil if it came as protobuf or by other code.
	text []byte
	// undecodable is why the Go type cannot hold the object; nil if it can.
	undecodable error
	// about is what a part of the object answered, nil if that is unknown.
	about   *metav1.PartialObjectMetadata
	created bool // 201
	noted   int  // the request's place in the run's record, from 1; 0 if there is none
}

// errPoorer is a form that an answer has not enough for.
var errPoorer = errors.New("framework: the answer holds less than that form")

// errUnread is why a cache sets an object aside that changed, and of which the cache could not read the new state.
var errUnread = errors.New("framework: it was changed, and could not be read since")

// as returns a private copy of an answer in a form, for a cache of that form: [trc.Undecoded] if its Go type cannot
// hold the object. The error is errPoorer if there is nothing to make that form from.
func (c *cluster) as(form object.Form, gvk schema.GroupVersionKind, got answer) (Object, error) {
	from := object.FormOf(got.Object)
	switch {
	case form == object.Metadata:
		return metadataOf(got.Object, gvk), nil
	case from == form && got.undecodable == nil:
		return got.DeepCopyObject().(Object), nil
	case from == form:
		return &trc.Undecoded{Object: got.DeepCopyObject().(Object), Err: got.undecodable}, nil
	case got.text != nil:
		return c.decodeAs(form, gvk, got.text, got.Object)
	case from != object.Unstructured || got.undecodable != nil:
		return nil, errPoorer
	}
	text, err := json.Marshal(got.Object)
	if err != nil {
		return nil, fmt.Errorf("framework: %s %s: %w", gvk.Kind, trc.KeyOf(got), err)
	}
	return c.decodeAs(form, gvk, text, got.Object)
}

// decodeAs decodes an object in a form. metadata is its metadata, in any form.
func (c *cluster) decodeAs(form object.Form, gvk schema.GroupVersionKind, text []byte, metadata Object) (Object, error) {
	o, err := c.newObject(form, gvk)
	if err != nil {
		return nil, err
	}
	if err = decodeInto(text, o); err == nil {
		return o, nil
	}
	err = undecodedError(gvk, err)
	if u := guardedUndecoded(text, o, err); u != nil && form == object.Typed {
		return u, nil // as a watch makes it
	}
	return c.undecodedAs(form, gvk, metadata, err)
}

// guardedUndecoded returns what stands for an object that does not decode, or nil.
func guardedUndecoded(text []byte, o Object, why error) (u Object) {
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

// decodeInto decodes into an object of any form.
func decodeInto(text []byte, into Object) error {
	if u, ok := into.(*unstructured.Unstructured); ok {
		return u.UnmarshalJSON(text)
	}
	return decode(text, into)
}

// undecodedAs returns what stands for an object in a cache of a form that has no more than its metadata, and why.
func (c *cluster) undecodedAs(form object.Form, gvk schema.GroupVersionKind, metadata Object, why error) (Object, error) {
	o, err := c.newObject(form, gvk)
	if err != nil {
		return nil, err
	}
	if form == object.Unstructured {
		o.GetObjectKind().SetGroupVersionKind(gvk)
	}
	setMetadata(o, metadataOf(metadata, gvk))
	return &trc.Undecoded{Object: o, Err: why}, nil
}

// setMetadata gives an object the metadata of another, which it shares from then on, without a decoder of its type's.
func setMetadata(o, from Object) {
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

// newObject returns an empty object of a form.
func (c *cluster) newObject(form object.Form, gvk schema.GroupVersionKind) (Object, error) {
	switch form {
	case object.Unstructured:
		return &unstructured.Unstructured{}, nil
	case object.Metadata:
		return &metav1.PartialObjectMetadata{}, nil
	}
	o, err := c.scheme.New(gvk)
	if err != nil {
		return nil, fmt.Errorf("framework: %s: %w", gvk, err)
	}
	return o.(Object), nil
}

// answerOf is an object as a list or other code returned it.
func answerOf(o Object) answer {
	if u, ok := o.(*trc.Undecoded); ok {
		return answer{Object: u.Object, undecodable: u.Err}
	}
	return answer{Object: o}
}
