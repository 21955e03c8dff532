package dependent

import "reflect"

// isAbsent reports whether there is no object: nil, of whatever type.
func isAbsent(o any) bool {
	v := reflect.ValueOf(o)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}
