package ready

import "reflect"

// isNil reports whether o is nil, or a nil pointer of any type.
func isNil(o any) bool {
	v := reflect.ValueOf(o)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}
