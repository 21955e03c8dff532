package dependent

import "reflect"

// isNilValue reports whether a value is nil, of whatever type.
func isNilValue(value any) bool {
	v := reflect.ValueOf(value)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}
