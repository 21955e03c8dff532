package framework

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/evenkeel/evenkeel/trc"
)

// serverFields of metadata are set by the server and never part of an intent.
var serverFields = []string{
	"managedFields", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation",
	"resourceVersion", "uid", "selfLink",
}

// intentOf reduces an object to what its author set: no nulls, nothing that only the server sets, and
// stringData of a Secret as the data that it becomes.
func intentOf(gvk schema.GroupVersionKind, o Object) (map[string]any, error) {
	content, err := contentOf(o)
	if err != nil {
		return nil, err
	}
	if err := foldStringData(gvk, content); err != nil {
		return nil, fmt.Errorf("framework: %s %s: %w", gvk.Kind, trc.KeyOf(o), err)
	}
	dropNulls(content)
	dropServerFields(content)
	content["apiVersion"], content["kind"] = gvk.ToAPIVersionAndKind()
	return content, nil
}

// statusOf is what an intent says of the status, as an intent of its own.
func statusOf(key trc.Key, intent map[string]any) map[string]any {
	metadata := map[string]any{"name": key.Name}
	if key.Namespace != "" {
		metadata["namespace"] = key.Namespace
	}
	status := map[string]any{"apiVersion": intent["apiVersion"], "kind": intent["kind"], "metadata": metadata}
	if content, ok := intent["status"]; ok {
		status["status"] = content
	}
	return status
}

// freshIntentOf refuses what was read from the API server: applying it would take over every field, and
// create it anew if it has vanished.
func freshIntentOf(r *resource, key trc.Key, o Object) (map[string]any, error) {
	if created := o.GetCreationTimestamp(); o.GetUID() != "" || !created.IsZero() {
		return nil, fmt.Errorf("framework: apply %s: it takes a fresh object that holds only what the controller wants to own, not a changed copy of one that was read (it has a UID or creationTimestamp); use Update for that", r.describe(key))
	}
	return intentOf(r.gvk, o)
}

// contentOf returns a private JSON form of the object, in which whole numbers are int64.
func contentOf(o Object) (map[string]any, error) {
	var content map[string]any
	var err error
	if u, ok := o.(*unstructured.Unstructured); ok {
		content, err = jsonForm(u.Object)
	} else {
		content, err = plainForm(o)
	}
	if err != nil {
		return nil, fmt.Errorf("framework: %T %s: %w", o, trc.KeyOf(o), err)
	}
	return content, nil
}

// foldedContentOf is contentOf, in which stringData of a Secret is part of its data.
func foldedContentOf(o Object) (map[string]any, error) {
	content, err := contentOf(o)
	if err != nil || !isSecretObject(o) {
		return content, err
	}
	if err := foldStringData(secretKind, content); err != nil {
		return nil, fmt.Errorf("framework: Secret %s: %w", trc.KeyOf(o), err)
	}
	return content, nil
}

// jsonForm copies what an author built by hand, where any Go type may stand: Kubernetes' own copying
// panics at an int.
func jsonForm(value any) (map[string]any, error) {
	encoded, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	var plain map[string]any
	err = json.Unmarshal(encoded, &plain)
	return plain, err
}

// privateCopy returns a copy that may be changed.
func privateCopy(o Object) (Object, error) {
	if isNil(o) {
		return nil, errors.New("framework: the object is nil")
	}
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return o.DeepCopyObject().(Object), nil
	}
	content, err := contentOf(u)
	return &unstructured.Unstructured{Object: content}, err
}

// dropNulls removes nulls, which Go types leave where a timestamp has no value: sent in an apply,
// they would be an intent.
func dropNulls(value any) {
	switch value := value.(type) {
	case map[string]any:
		for key, field := range value {
			if field == nil {
				delete(value, key)
				continue
			}
			dropNulls(field)
		}
	case []any:
		for _, item := range value {
			dropNulls(item)
		}
	}
}

func dropServerFields(content map[string]any) {
	metadata, _ := content["metadata"].(map[string]any)
	for _, field := range serverFields {
		delete(metadata, field)
	}
}

// difference is the merge patch from one JSON object to another, nil if they are equal. Numbers stay
// what they are: by way of float64, an int64 such as a time in nanoseconds would change.
func difference(from, to map[string]any) map[string]any {
	patch := map[string]any{}
	for key, value := range to {
		before := from[key]
		fields, isObject := value.(map[string]any)
		previous, wasObject := before.(map[string]any)
		if isObject && wasObject {
			if inner := difference(previous, fields); inner != nil {
				patch[key] = inner
			}
		} else if !reflect.DeepEqual(before, value) {
			patch[key] = value
		}
	}
	for key, before := range from {
		if _, still := to[key]; !still && before != nil {
			patch[key] = nil
		}
	}
	if len(patch) == 0 {
		return nil
	}
	return patch
}

// Difference returns the JSON merge patch (RFC 7386) that makes of before what after is, for [MergePatch], or nil if they are alike.
// Lists are replaced as a whole, and all numbers stay exactly what they are. Of a Secret, stringData counts as the data that
// it becomes. The objects are not changed.
func Difference(before, after Object) ([]byte, error) {
	from, err := foldedContentOf(before)
	if err != nil {
		return nil, err
	}
	to, err := foldedContentOf(after)
	if err != nil {
		return nil, err
	}
	patch := difference(from, to)
	if patch == nil {
		return nil, nil
	}
	return json.Marshal(patch)
}

// additions is the merge patch that brings intent into current without removing anything; lists merge by their keys.
func additions(current Object, intent map[string]any, keys listKeys) (map[string]any, error) {
	content, err := contentOf(current)
	if err != nil {
		return nil, err
	}
	delete(content, "apiVersion")
	delete(content, "kind")
	delete(intent, "apiVersion")
	delete(intent, "kind")
	merged := runtime.DeepCopyJSON(content)
	keys.merge(merged, intent)
	return difference(content, merged), nil
}

// ownerReference refers to the primary of the run as the controller of a secondary.
func (w *writer) ownerReference(r *resource, key trc.Key) (metav1.OwnerReference, error) {
	if w.home != nil {
		return metav1.OwnerReference{}, fmt.Errorf("framework: %s: OwnedByPrimary: owner references do not reach into other clusters, which would delete the secondary at once; map it with Secondary.Map instead", r.describe(key))
	}
	if w.owner == nil {
		return metav1.OwnerReference{}, fmt.Errorf("framework: %s: OwnedByPrimary outside of a run", r.describe(key))
	}
	if w.ownerGone {
		return metav1.OwnerReference{}, fmt.Errorf("framework: %s: OwnedByPrimary: the primary %s is gone, and Kubernetes would delete the secondary at once", r.describe(key), trc.KeyOf(w.owner))
	}
	if namespace := w.owner.GetNamespace(); namespace != "" && namespace != key.Namespace {
		return metav1.OwnerReference{}, fmt.Errorf(
			"framework: %s: OwnedByPrimary: the primary %s is in another namespace, and Kubernetes would delete the secondary at once; map it with Secondary.Map instead",
			r.describe(key), trc.KeyOf(w.owner))
	}
	return *metav1.NewControllerRef(w.owner, w.ownerGVK), nil
}

func (w *writer) own(r *resource, o Object) error {
	reference, err := w.ownerReference(r, trc.KeyOf(o))
	if err != nil {
		return err
	}
	references := slices.Clone(o.GetOwnerReferences())
	same := func(other metav1.OwnerReference) bool { return other.UID == reference.UID }
	if i := slices.IndexFunc(references, same); i >= 0 {
		references[i] = reference
	} else {
		references = append(references, reference)
	}
	o.SetOwnerReferences(references)
	return nil
}

// othersThan returns those of the owners that o does not name.
func othersThan(o Object, owners []metav1.OwnerReference) []metav1.OwnerReference {
	return slices.DeleteFunc(slices.Clone(owners), func(owner metav1.OwnerReference) bool {
		return slices.ContainsFunc(o.GetOwnerReferences(), func(named metav1.OwnerReference) bool { return named.UID == owner.UID })
	})
}
