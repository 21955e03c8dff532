package frameworktest

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

// mergeAs sends a merge patch, and returns the first field of it that the server has dropped.
func mergeAs(w *World, o framework.Object, patch []byte, content map[string]any, subresource string) (lost string, err error) {
	answer, err := untyped(w, o)
	if err != nil {
		return "", err
	}
	kind := answer.GroupVersionKind()
	raw := client.RawPatch("application/merge-patch+json", patch)
	if subresource != "" {
		err = w.client.SubResource(subresource).Patch(w.ctx, answer, raw)
	} else {
		err = w.client.Patch(w.ctx, answer, raw)
	}
	if err != nil {
		return "", err
	}
	// Kubernetes' own types have no false, 0 or "" in their JSON.
	return dropped(without(content, "stringData"), answer.Object, "", !isOfKubernetes(kind)), nil
}

// untyped returns an object that has nothing but the kind and the name of another.
func untyped(w *World, o framework.Object) (*unstructured.Unstructured, error) {
	kind, err := w.client.GroupVersionKindFor(o)
	if err != nil {
		return nil, err
	}
	local, plain := w.local(o), &unstructured.Unstructured{}
	plain.SetGroupVersionKind(kind)
	plain.SetNamespace(local.GetNamespace())
	plain.SetName(local.GetName())
	return plain, nil
}

// createAs creates an object, and returns the first field of it that the server has dropped.
func createAs(w *World, o framework.Object) (lost string, err error) {
	return sendAs(w, w.local(o), nil, func(o framework.Object) error { return w.client.Create(w.ctx, o) })
}

// sendAs sends a whole object, and returns the first field of it that the server has dropped. If it
// is known what there was before, a change of the status counts, too.
func sendAs(w *World, o framework.Object, before map[string]any, send func(framework.Object) error) (lost string, err error) {
	kind, err := w.client.GroupVersionKindFor(o)
	if err != nil {
		return "", err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return "", err
	}
	answer := &unstructured.Unstructured{Object: content}
	answer.SetGroupVersionKind(kind)
	sent := answer.DeepCopy().Object
	if err := send(answer); err != nil {
		return "", err
	}
	if before != nil {
		after, err := asTypeOf(o, answer.Object)
		if err != nil {
			return "", err
		}
		if was := statusIn(before); !reflect.DeepEqual(statusIn(sent), was) && reflect.DeepEqual(statusIn(after), was) {
			return "status", nil
		}
	}
	if _, is := o.(runtime.Unstructured); !is && isOfKubernetes(kind) {
		return "", nil // the server has the same type
	}
	return dropped(without(sent, "metadata", "status", "stringData"), answer.Object, "", false), nil
}

// asTypeOf returns content as it is in the Go type of an object, which may have fields that the
// server leaves out.
func asTypeOf(o framework.Object, content map[string]any) (map[string]any, error) {
	typed := reflect.New(reflect.TypeOf(o).Elem()).Interface()
	if u, is := typed.(*unstructured.Unstructured); is {
		u.Object = content
	} else if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, typed); err != nil {
		return nil, err
	}
	return runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
}

// statusIn returns the status, empty if there is none.
func statusIn(content map[string]any) map[string]any {
	status, _ := content["status"].(map[string]any)
	if status == nil {
		status = map[string]any{}
	}
	return status
}

// without returns content without some fields, of which answers have nothing or something else.
func without(content map[string]any, fields ...string) map[string]any {
	content = maps.Clone(content)
	for _, field := range fields {
		delete(content, field)
	}
	return content
}

// dropped returns the path of the first field of sent that got does not have, or nothing. Values
// are not compared: servers normalise them. Nulls and empty maps do not count. False, 0 and the
// like count only with zero, and not in the metadata.
func dropped(sent, got map[string]any, path string, zero bool) string {
	for _, name := range slices.Sorted(maps.Keys(sent)) {
		at := strings.TrimPrefix(path+"."+name, ".")
		counts := zero && at != "metadata"
		answer, has := got[name]
		if !has && says(sent[name], counts) {
			return at
		}
		if inner, is := sent[name].(map[string]any); is {
			below, _ := answer.(map[string]any)
			if lost := dropped(inner, below, at, counts); lost != "" {
				return lost
			}
		}
	}
	return ""
}

// says reports whether a value is one that a server must keep.
func says(value any, zero bool) bool {
	switch value := value.(type) {
	case nil:
		return false
	case map[string]any:
		return slices.ContainsFunc(slices.Collect(maps.Values(value)), func(v any) bool { return says(v, zero) })
	case []any:
		return zero || len(value) > 0
	}
	return zero || !reflect.ValueOf(value).IsZero()
}
