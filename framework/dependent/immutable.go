package dependent

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/evenkeel/evenkeel/framework"
)

// pointer is a parsed JSON pointer (RFC 6901) through objects.
type pointer []string

func parsePointer(text string) (pointer, error) {
	if !strings.HasPrefix(text, "/") || len(text) == 1 {
		return nil, fieldError("Immutable", "%q: must be a JSON pointer to a field, as in /spec/template", text)
	}
	fields := strings.Split(text[1:], "/")
	for i, field := range fields {
		fields[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(field)
	}
	switch {
	case fields[0] == "status", fields[0] == "apiVersion", fields[0] == "kind":
		return nil, fieldError("Immutable", "%q: %s is not part of the desired state", text, fields[0])
	case fields[0] == "metadata" && (len(fields) < 3 || fields[1] != "labels" && fields[1] != "annotations"):
		return nil, fieldError("Immutable", "%q: of the metadata, only a label or an annotation can be immutable", text)
	}
	return fields, nil
}

// checkImmutable refuses fields that no stored Secret has: the API server moves stringData into
// data.
func checkImmutable[S framework.Object](field pointer, source *framework.Secondary[S]) error {
	if len(field) == 0 || field[0] != "stringData" || !isSecret(newObject[S](), source.GroupVersionKind) {
		return nil
	}
	stored := append(pointer{"data"}, field[1:]...)
	return fieldError("Immutable", "%q: no stored Secret has stringData: use %q, which also holds for what Desired sets as stringData", field, stored)
}

// isSecret reports whether objects of a form are core/v1 Secrets. For untyped objects gvk decides.
// The kind of an author's own Go type is not known here, so a type with the fields of a Secret
// counts as one.
func isSecret(o framework.Object, gvk schema.GroupVersionKind) bool {
	switch o.(type) {
	case *corev1.Secret:
		return true
	case *unstructured.Unstructured, *metav1.PartialObjectMetadata:
		return gvk == corev1.SchemeGroupVersion.WithKind("Secret")
	}
	structure := reflect.TypeOf(o).Elem()
	if structure.Kind() != reflect.Struct {
		return false
	}
	data, hasData := structure.FieldByName("Data")
	text, hasText := structure.FieldByName("StringData")
	return hasData && hasText && data.Type == reflect.TypeFor[map[string][]byte]() && text.Type == reflect.TypeFor[map[string]string]()
}

// String returns the pointer in the syntax that authors use.
func (p pointer) String() string {
	var text strings.Builder
	for _, field := range p {
		text.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(field))
	}
	return text.String()
}

// keepImmutable sets the immutable fields of the desired object as the stored object has them.
func (w *writing[P, S]) keepImmutable(ctx context.Context) error {
	if len(w.of.immutable) == 0 {
		return nil
	}
	live, err := w.of.source.GetWhole(ctx, w.c, w.desired.GetNamespace(), w.desired.GetName())
	if err != nil || isNil(live) { // it is gone meanwhile
		return err
	}
	was, err := contentOf(live)
	if err != nil {
		return err
	}
	content, err := contentOf(w.desired)
	if err != nil {
		return err
	}
	secret := isSecret(w.desired, w.of.source.GroupVersionKind)
	for _, field := range w.of.immutable {
		value, found, err := unstructured.NestedFieldCopy(was, field...)
		if err == nil && found && value != nil {
			err = unstructured.SetNestedField(content, value, field...)
			if secret {
				dropStringData(content, field)
			}
		}
		if err != nil {
			return fmt.Errorf("dependent %s: Immutable %s: %w", w.of.node, field, err)
		}
	}
	kept, err := fromContent(content, w.desired)
	if err == nil {
		w.desired = kept
	}
	return err
}

// dropStringData removes a field of data from stringData, which would win.
func dropStringData(content map[string]any, field pointer) {
	switch {
	case field[0] != "data":
	case len(field) == 1:
		delete(content, "stringData")
	default:
		unstructured.RemoveNestedField(content, "stringData", field[1])
	}
}

// copyOf returns a private copy. Untyped objects of authors may contain Go types at which
// Kubernetes' own copy function panics.
func copyOf[S framework.Object](o S) (S, error) {
	if _, untyped := any(o).(*unstructured.Unstructured); !untyped {
		return o.DeepCopyObject().(S), nil
	}
	content, err := contentOf(o)
	if err != nil {
		return o, err
	}
	return fromContent(content, o)
}

// contentOf returns a private JSON form of an object.
func contentOf(o framework.Object) (map[string]any, error) {
	if u, ok := o.(*unstructured.Unstructured); ok {
		encoded, err := json.Marshal(u.Object)
		if err != nil {
			return nil, fmt.Errorf("dependent: %s: %w", kindName(o), err)
		}
		var content map[string]any
		err = json.Unmarshal(encoded, &content)
		return content, err
	}
	return runtime.DefaultUnstructuredConverter.ToUnstructured(o)
}

func fromContent[S framework.Object](content map[string]any, like S) (S, error) {
	if _, ok := any(like).(*unstructured.Unstructured); ok {
		return any(&unstructured.Unstructured{Object: content}).(S), nil
	}
	made := newObject[S]()
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, made)
	return made, err
}
