package object

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Form is how objects are represented.
type Form int

const (
	Typed Form = iota
	Unstructured
	Metadata
)

func FormOf(o runtime.Object) Form {
	switch o.(type) {
	case *unstructured.Unstructured:
		return Unstructured
	case *metav1.PartialObjectMetadata:
		return Metadata
	}
	return Typed
}
