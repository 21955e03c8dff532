package trc

import (
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// kept is an object that is prepared for the store already, while its list streams in.
type kept struct {
	Object
	last managed
}

// DeepCopyObject copies the object.
func (k *kept) DeepCopyObject() runtime.Object {
	return &kept{Object: k.Object.DeepCopyObject().(Object), last: k.last}
}

// Abandoned is what a transform panics with that has left the object to somebody else, who may still change it: as to a
// function that does not return. The object is set aside then, with the error.
type Abandoned struct{ Err error }

// Prune drops what transform drops of an object, in place, but for what a store lets no transform drop: see
// [Options].Transform. If the object was left to somebody else, see [Abandoned], what stands for it is returned.
func Prune(o Object, transform func(Object)) (abandoned *Undecoded) {
	must := essentialsOf(o)
	defer func() {
		value := recover() // whoever wants to hear of it recovers by himself
		if left, is := value.(Abandoned); is {
			abandoned = &Undecoded{Object: reflect.New(reflect.TypeOf(o).Elem()).Interface().(Object), Err: left.Err}
			must.restore(abandoned.Object)
			return
		}
		must.restore(o)
	}()
	transform(o)
	return nil
}

// essentials are what the store, owner references and the life of an object rest on: they survive every transform.
type essentials struct {
	kind     schema.GroupVersionKind
	content  map[string]any // of an unstructured object's metadata
	metadata metav1.ObjectMeta
}

// essentialFields of the metadata; managedFields are among them as the store itself drops them, once it has read them.
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
