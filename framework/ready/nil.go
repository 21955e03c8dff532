package ready

import "reflect"

// isAbsent reports whether there is no object: nil, of whatever type.
func isNil(o any) bool {
	v := reflect.ValueOf(o)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}
