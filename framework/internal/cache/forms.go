package cache

import (
	"encoding/json"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/trc"
)

// ErrPoorer is the error for a form that cannot be made from an answer, because the answer lacks
// fields.
var ErrPoorer = errors.New("framework: the answer holds less than that form")

// ErrUnread is why a cache marks an object as undecodable that was changed, and that it could not
// read since.
var ErrUnread = errors.New("framework: it was changed, and could not be read since")

// Forms makes objects of one form from those of another.
type Forms struct {
	Scheme *runtime.Scheme // the Go types
}

// As returns a private copy of an answer in a form, for a cache of that form. It is a
// [trc.Undecodable] if its Go type cannot hold the object. The error is ErrPoorer if the answer
// lacks fields of that form.
func (f Forms) As(form object.Form, gvk schema.GroupVersionKind, got client.Answer) (trc.Object, error) {
	from := object.FormOf(got.Object)
	switch {
	case form == object.Metadata:
		return object.MetadataOf(got.Object, gvk), nil
	case from == form && got.Undecodable == nil:
		return got.DeepCopyObject().(trc.Object), nil
	case from == form:
		return &trc.Undecodable{Object: got.DeepCopyObject().(trc.Object), Err: got.Undecodable}, nil
	case got.Text != nil:
		return f.decodeAs(form, gvk, got.Text, got.Object)
	case from != object.Unstructured || got.Undecodable != nil:
		return nil, ErrPoorer
	}
	text, err := json.Marshal(got.Object)
	if err != nil {
		return nil, fmt.Errorf("framework: %s %s: %w", gvk.Kind, trc.KeyOf(got), err)
	}
	return f.decodeAs(form, gvk, text, got.Object)
}

// decodeAs decodes an object in a form. metadata has its metadata, in any form.
func (f Forms) decodeAs(form object.Form, gvk schema.GroupVersionKind, text []byte, metadata trc.Object) (trc.Object, error) {
	o, err := f.newObject(form, gvk)
	if err != nil {
		return nil, err
	}
	if err = client.DecodeInto(text, o); err == nil {
		return o, nil
	}
	err = client.UndecodedError(gvk, err)
	if u := client.GuardedUndecoded(text, o, err); u != nil && form == object.Typed {
		return u, nil // the same as a watch makes
	}
	return f.undecodedAs(form, gvk, metadata, err)
}

// undecodedAs returns a trc.Undecodable with only the metadata of an object, for a cache of that
// form.
func (f Forms) undecodedAs(form object.Form, gvk schema.GroupVersionKind, metadata trc.Object, why error) (trc.Object, error) {
	o, err := f.newObject(form, gvk)
	if err != nil {
		return nil, err
	}
	if form == object.Unstructured {
		o.GetObjectKind().SetGroupVersionKind(gvk)
	}
	client.SetMetadata(o, object.MetadataOf(metadata, gvk))
	return &trc.Undecodable{Object: o, Err: why}, nil
}

// newObject returns an empty object of a form.
func (f Forms) newObject(form object.Form, gvk schema.GroupVersionKind) (trc.Object, error) {
	switch form {
	case object.Unstructured:
		return &unstructured.Unstructured{}, nil
	case object.Metadata:
		return &metav1.PartialObjectMetadata{}, nil
	}
	o, err := f.Scheme.New(gvk)
	if err != nil {
		return nil, fmt.Errorf("framework: %s: %w", gvk, err)
	}
	return o.(trc.Object), nil
}

// Convert returns a private copy of an author's object in another form. The copy can lack fields
// that the author's type lacks. For answers of the server see As.
func (f Forms) Convert(o trc.Object, form object.Form, gvk schema.GroupVersionKind) (trc.Object, error) {
	if object.FormOf(o) == form {
		return o.DeepCopyObject().(trc.Object), nil
	}
	if form == object.Metadata {
		return object.MetadataOf(o, gvk), nil
	}
	content, err := object.Plain(o)
	if err != nil {
		return nil, fmt.Errorf("framework: %s %s: %w", gvk.Kind, trc.KeyOf(o), err)
	}
	if form == object.Unstructured {
		u := &unstructured.Unstructured{Object: content}
		u.SetGroupVersionKind(gvk)
		return u, nil
	}
	typed, err := f.Scheme.New(gvk)
	if err != nil {
		return nil, fmt.Errorf("framework: %s: %w", gvk, err)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, typed); err != nil {
		return nil, fmt.Errorf("framework: %s %s: %w", gvk.Kind, trc.KeyOf(o), err)
	}
	return typed.(trc.Object), nil
}
