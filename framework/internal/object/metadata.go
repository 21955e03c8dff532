package object

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/evenkeel/evenkeel/trc"
)

// MetadataOf returns a copy of an object's metadata as a metadata-only object.
func MetadataOf(o trc.Object, gvk schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	only := meta.AsPartialObjectMetadata(o).DeepCopy()
	only.SetGroupVersionKind(gvk)
	return only
}
