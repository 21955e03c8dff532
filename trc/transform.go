package trc

import (
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// prepared is an object that was prepared for the store while its list streamed in.
type prepared struct {
	Object
	last managed
}

// DeepCopyObject copies the object.
func (k *prepared) DeepCopyObject() runtime.Object {
	return &prepared{Object: k.Object.DeepCopyObject().(Object), last: k.last}
}

// Abandoned is the value that a transform panics with if other code may still change the object,
// such as a function that did not return. The object is then undecodable, with Err as its error.
type Abandoned struct{ Err error }

// Prune applies transform to an object, in place, and then restores the parts that a store lets no
// transform drop: see [Options].Transform. If transform panics with [Abandoned], Prune returns the
// undecodable object that replaces it.
func Prune(o Object, transform func(Object)) (abandoned *Undecodable) {
	must := essentialsOf(o)
	defer func() {
		value := recover() // a transform that reports its panics recovers by itself
		if left, is := value.(Abandoned); is {
			abandoned = &Undecodable{Object: reflect.New(reflect.TypeOf(o).Elem()).Interface().(Object), Err: left.Err}
			must.restore(abandoned.Object)
			return
		}
		must.restore(o)
	}()
	transform(o)
	return nil
}

// essentials are the parts of an object that survive every transform: the store, owner references
// and the deletion of an object depend on them.
type essentials struct {
	kind     schema.GroupVersionKind
	content  map[string]any // of an unstructured object's metadata
	metadata metav1.ObjectMeta
}

// essentialFields are the essential fields of the metadata. managedFields are among them because
// the store drops them itself, after it has read them.
var essentialFields = []string{
	"name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
	"deletionGracePeriodSeconds", "ownerReferences", "finalizers", "managedFields",
}

func essentialsOf(o Object) (e essentials) {
	e.kind = o.GetObjectKind().GroupVersionKind()
	if u, ok := o.(*unstructured.Unstructured); ok {
		metadata, _ := u.Object["metadata"].(map[string]any)
		e.content = make(map[string]any, len(essentialFields))
		for _, field := range essentialFields {
			if value, ok := metadata[field]; ok {
				e.content[field] = runtime.DeepCopyJSONValue(value)
			}
		}
		return e
	}
	e.metadata = metav1.ObjectMeta{
		Name: o.GetName(), Namespace: o.GetNamespace(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion(),
		Generation: o.GetGeneration(), CreationTimestamp: o.GetCreationTimestamp(),
		DeletionTimestamp: o.GetDeletionTimestamp(), DeletionGracePeriodSeconds: o.GetDeletionGracePeriodSeconds(),
		OwnerReferences: slices.Clone(o.GetOwnerReferences()), Finalizers: slices.Clone(o.GetFinalizers()),
		ManagedFields: o.GetManagedFields(),
	}
	return e
}

func (e *essentials) restore(o Object) {
	if u, ok := o.(*unstructured.Unstructured); ok {
		if u.Object == nil {
			u.Object = map[string]any{}
		}
		u.SetGroupVersionKind(e.kind)
		metadata, ok := u.Object["metadata"].(map[string]any)
		if !ok {
			metadata = map[string]any{}
			u.Object["metadata"] = metadata
		}
		for _, field := range essentialFields {
			if value, ok := e.content[field]; ok {
				metadata[field] = value
			} else {
				delete(metadata, field)
			}
		}
		return
	}
	o.GetObjectKind().SetGroupVersionKind(e.kind)
	from := &e.metadata
	o.SetName(from.Name)
	o.SetNamespace(from.Namespace)
	o.SetUID(from.UID)
	o.SetResourceVersion(from.ResourceVersion)
	o.SetGeneration(from.Generation)
	o.SetCreationTimestamp(from.CreationTimestamp)
	o.SetDeletionTimestamp(from.DeletionTimestamp)
	o.SetDeletionGracePeriodSeconds(from.DeletionGracePeriodSeconds)
	o.SetOwnerReferences(from.OwnerReferences)
	o.SetFinalizers(from.Finalizers)
	o.SetManagedFields(from.ManagedFields)
}
