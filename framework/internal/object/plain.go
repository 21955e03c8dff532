package object

import (
	"encoding/json"
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
)

// Plain returns a Go struct as the JSON that it is sent as, in which whole numbers are int64.
//
// Kubernetes' converter is quick, but takes unexported fields for part of the object, or panics at them: types
// that have some go through JSON.
func Plain(value any) (map[string]any, error) {
	if HasHidden(reflect.TypeOf(value)) {
		return JSON(value)
	}
	return runtime.DefaultUnstructuredConverter.ToUnstructured(value)
}

// hidden remembers what hasHidden has found: reflect.Type to bool. A type never changes.
var hidden sync.Map

var marshaler = reflect.TypeFor[json.Marshaler]()

// HasHidden tells whether a type holds structs with unexported fields, other than such as marshal themselves.
func HasHidden(t reflect.Type) bool {
	if known, ok := hidden.Load(t); ok {
		return known.(bool)
	}
	found := findHidden(t, map[reflect.Type]bool{})
	hidden.Store(t, found)
	return found
}

func findHidden(t reflect.Type, seen map[reflect.Type]bool) bool {
	if seen[t] || t.Implements(marshaler) || reflect.PointerTo(t).Implements(marshaler) {
		return false
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return findHidden(t.Elem(), seen)
	case reflect.Struct:
		for i := range t.NumField() {
			if field := t.Field(i); !field.IsExported() || findHidden(field.Type, seen) {
				return true
			}
		}
	}
	return false
}
