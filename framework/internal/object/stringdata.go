package object

import (
	"encoding/base64"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/evenkeel/evenkeel/trc"
)

// The API server moves the stringData of a Secret into its data, and never returns it. A field
// manager that applied stringData would own fields that no stored Secret has. Keys that it omits
// later would stay in data, and every comparison with the stored Secret would find a difference. So
// stringData is never sent: it is moved into data here.

var secretKind = corev1.SchemeGroupVersion.WithKind("Secret")

// IsSecret reports whether the object is a core/v1 Secret, by its own type.
func IsSecret(o trc.Object) bool {
	switch o := o.(type) {
	case *corev1.Secret:
		return true
	case *unstructured.Unstructured:
		return o.GroupVersionKind() == secretKind
	}
	return false
}

// FoldStringData moves the stringData in the JSON of a Secret into its data, where it wins over
// existing keys. It does not change content of other kinds.
func FoldStringData(gvk schema.GroupVersionKind, content map[string]any) error {
	given, has := content["stringData"]
	if gvk != secretKind || !has {
		return nil
	}
	entries, isMap := given.(map[string]any)
	if !isMap && given != nil {
		return fmt.Errorf("stringData: must be a map of strings, is %T", given)
	}
	data, isMap := content["data"].(map[string]any)
	if !isMap && content["data"] != nil {
		return fmt.Errorf("data: must be a map, is %T", content["data"])
	}
	for key, value := range entries {
		text, isString := value.(string)
		switch {
		case value == nil:
			continue // a null sets nothing
		case !isString:
			return fmt.Errorf("stringData[%q]: must be a string, is %T", key, value)
		case data == nil:
			data = map[string]any{}
		}
		data[key] = base64.StdEncoding.EncodeToString([]byte(text))
	}
	if data != nil {
		content["data"] = data
	}
	delete(content, "stringData")
	return nil
}

// FoldStringDataOf does the same for an object, which must be the caller's own.
func FoldStringDataOf(o trc.Object) error {
	switch o := o.(type) {
	case *corev1.Secret:
		for key, value := range o.StringData {
			if o.Data == nil {
				o.Data = map[string][]byte{}
			}
			o.Data[key] = []byte(value)
		}
		o.StringData = nil
	case *unstructured.Unstructured:
		if err := FoldStringData(o.GroupVersionKind(), o.Object); err != nil {
			return fmt.Errorf("framework: Secret %s: %w", trc.KeyOf(o), err)
		}
	}
	return nil
}
