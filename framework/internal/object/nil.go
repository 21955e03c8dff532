package object

import (
	"reflect"
)

// IsNil reports whether o is nil or a nil pointer.
func IsNil(o any) bool {
	v := reflect.ValueOf(o)
	return !v.IsValid() || (v.Kind() == reflect.Pointer && v.IsNil())
}
