package external

import "reflect"

// isNilValue reports whether a value is nil, of whatever type.
func isNil(value any) bool {
	v := reflect.ValueOf(value)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}
