package object

import (
	"reflect"
)

func IsNil(o any) bool {
	v := reflect.ValueOf(o)
	return !v.IsValid() || (v.Kind() == reflect.Pointer && v.IsNil())
}
