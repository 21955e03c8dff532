package object

import (
	"encoding/json"
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
)

// Plain returns the JSON form in which a Go struct is sent. Whole numbers are int64.
//
// Kubernetes' converter is fast, but treats unexported fields as part of the object, or panics at
// them. Types with unexported fields are therefore converted through encoding/json.
func Plain(value any) (map[string]any, error) {
	if HasHidden(reflect.TypeOf(value)) {
		return JSON(value)
	}
	return runtime.DefaultUnstructuredConverter.ToUnstructured(value)
}

// hidden caches the results of HasHidden: reflect.Type to bool. They never change.
var hidden sync.Map

var marshaler = reflect.TypeFor[json.Marshaler]()

// HasHidden reports whether a type contains structs with unexported fields, except those that
// marshal themselves.
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
