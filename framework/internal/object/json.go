package object

import (
	"errors"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/evenkeel/evenkeel/trc"
)

// serverFields are the metadata fields that the server sets. They are never part of an intent.
var serverFields = []string{
	"managedFields", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation",
	"resourceVersion", "uid", "selfLink",
}

// Status returns the part of an intent that is about the status, as an intent of its own.
func Status(key trc.Key, intent map[string]any) map[string]any {
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

// Content returns a private JSON form of the object. Whole numbers are int64.
func Content(o trc.Object) (map[string]any, error) {
	var content map[string]any
	var err error
	if u, ok := o.(*unstructured.Unstructured); ok {
		content, err = JSON(u.Object)
	} else {
		content, err = Plain(o)
	}
	if err != nil {
		return nil, fmt.Errorf("framework: %T %s: %w", o, trc.KeyOf(o), err)
	}
	return content, nil
}

// FoldedContent returns Content with the stringData of a Secret as part of its data.
func FoldedContent(o trc.Object) (map[string]any, error) {
	content, err := Content(o)
	if err != nil || !IsSecret(o) {
		return content, err
	}
	if err := FoldStringData(secretKind, content); err != nil {
		return nil, fmt.Errorf("framework: Secret %s: %w", trc.KeyOf(o), err)
	}
	return content, nil
}

// JSON copies a value that an author built by hand and that may contain any Go type: Kubernetes'
// own copy function panics at an int.
func JSON(value any) (map[string]any, error) {
	encoded, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	var plain map[string]any
	err = json.Unmarshal(encoded, &plain)
	return plain, err
}

// Copy returns a copy that the caller may change.
func Copy(o trc.Object) (trc.Object, error) {
	if IsNil(o) {
		return nil, errors.New("framework: the object is nil")
	}
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return o.DeepCopyObject().(trc.Object), nil
	}
	content, err := Content(u)
	return &unstructured.Unstructured{Object: content}, err
}

// DropNulls removes nulls. Go types leave them where a timestamp has no value, and in an apply they
// would be part of the intent.
func DropNulls(value any) {
	switch value := value.(type) {
	case map[string]any:
		for key, field := range value {
			if field == nil {
				delete(value, key)
				continue
			}
			DropNulls(field)
		}
	case []any:
		for _, item := range value {
			DropNulls(item)
		}
	}
}

// DropServerFields removes the metadata that only the server sets.
func DropServerFields(content map[string]any) {
	metadata, _ := content["metadata"].(map[string]any)
	for _, field := range serverFields {
		delete(metadata, field)
	}
}

// MergePatch returns the merge patch from one JSON object to another, or nil if they are equal.
// Numbers keep their types: a conversion to float64 would change an int64 such as a time in
// nanoseconds.
func MergePatch(from, to map[string]any) map[string]any {
	patch := map[string]any{}
	for key, value := range to {
		before := from[key]
		fields, isObject := value.(map[string]any)
		previous, wasObject := before.(map[string]any)
		if isObject && wasObject {
			if inner := MergePatch(previous, fields); inner != nil {
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

// Additions returns the merge patch that adds intent to current and removes nothing. Lists are
// merged by their keys.
func Additions(current trc.Object, intent map[string]any, keys ListKeys) (map[string]any, error) {
	content, err := Content(current)
	if err != nil {
		return nil, err
	}
	delete(content, "apiVersion")
	delete(content, "kind")
	delete(intent, "apiVersion")
	delete(intent, "kind")
	merged := runtime.DeepCopyJSON(content)
	keys.merge(merged, intent)
	return MergePatch(content, merged), nil
}
