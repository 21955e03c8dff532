package object

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Form is the Go representation of objects.
type Form int

const (
	Typed Form = iota
	Unstructured
	Metadata
)

// FormOf returns the form of an object.
func FormOf(o runtime.Object) Form {
	switch o.(type) {
	case *unstructured.Unstructured:
		return Unstructured
	case *metav1.PartialObjectMetadata:
		return Metadata
	}
	return Typed
}
