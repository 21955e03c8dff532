package dependent

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/evenkeel/evenkeel/framework"
)

// pointer is a parsed JSON pointer (RFC 6901) through objects.
type pointer []string

func parsePointer(text string) (pointer, error) {
	if !strings.HasPrefix(text, "/") || len(text) == 1 {
		return nil, misfit("Immutable", "%q: must be a JSON pointer to a field, as in /spec/template", text)
	}
	fields := strings.Split(text[1:], "/")
	for i, field := range fields {
		fields[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(field)
	}
	switch {
	case fields[0] == "status", fields[0] == "apiVersion", fields[0] == "kind":
		return nil, misfit("Immutable", "%q: %s is no part of what is desired", text, fields[0])
	case fields[0] == "metadata" && (len(fields) < 3 || fields[1] != "labels" && fields[1] != "annotations"):
		return nil, misfit("Immutable", "%q: of the metadata, only a label or an annotation can be", text)
	}
	return fields, nil
}

// keepImmutable returns desired with those fields as the object has them.
func (o *objects[P, S]) keepImmutable(ctx context.Context, c *framework.Context[P], desired S) (S, error) {
	if len(o.immutable) == 0 {
		return desired, nil
	}
	var none S
	live, err := o.source.GetWhole(ctx, c, desired.GetNamespace(), desired.GetName())
	if err != nil || isNil(live) { // it went meanwhile
		return desired, err
	}
	was, err := contentOf(live)
	if err != nil {
		return none, err
	}
	content, err := contentOf(desired)
	if err != nil {
		return none, err
	}
	for _, field := range o.immutable {
		value, found, err := unstructured.NestedFieldCopy(was, field...)
		if err == nil && found && value != nil {
			err = unstructured.SetNestedField(content, value, field...)
		}
		if err != nil {
			return none, fmt.Errorf("dependent %s: Immutable /%s: %w", o.node, strings.Join(field, "/"), err)
		}
	}
	return fromContent(content, desired)
}

// copyOf returns a private copy. Untyped objects of authors may hold Go types of which Kubernetes' own copying panics.
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

// contentOf is the JSON form of an object, its own.
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
