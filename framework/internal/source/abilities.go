package source

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/evenkeel/evenkeel/eventsource"
)

// An optional ability of an author's value is an interface that the framework asks for once. A
// method that only looks like it would never be called, and nobody would notice.

// Ability is an optional interface with one method.
type Ability struct {
	Name     string       // as authors write it
	Of       reflect.Type // the interface
	Required reflect.Type // the interface of values that may wrap another one
}

// method returns the method of the interface.
func (a Ability) method() reflect.Method { return a.Of.Method(0) }

// CheckSource returns an error if a method of an event source only looks like an optional ability.
// It reads the source's fields, so nothing else may use the source.
func CheckSource(source eventsource.Source) error {
	required := reflect.TypeFor[eventsource.Source]()
	return CheckAbilities(source, []Ability{
		{"eventsource.PrimaryWatcher", reflect.TypeFor[eventsource.PrimaryWatcher](), required},
		{"eventsource.HealthReporter", reflect.TypeFor[eventsource.HealthReporter](), required},
	})
}

// CheckAbilities returns an error for each ability that value seems to have but does not have. It
// reads the fields of value.
func CheckAbilities(value any, abilities []Ability) error {
	var errs []error
	for _, a := range abilities {
		if !reflect.TypeOf(value).Implements(a.Of) {
			errs = append(errs, a.missedBy(reflect.ValueOf(value)))
		}
	}
	return errors.Join(errs...)
}

// missedBy returns why the ability of a value would not be noticed, nil if the value has none.
func (a Ability) missedBy(value reflect.Value) error {
	of := value.Type()
	if of.Kind() != reflect.Pointer && reflect.PointerTo(of).Implements(a.Of) {
		return fmt.Errorf("%s of %s has a pointer receiver, so %s is no %s: pass a *%s", a.method().Name, of, of, a.Name, of)
	}
	if got, has := a.lookalike(of); has {
		return fmt.Errorf("%s.%s is a %s, but a %s has %s %s: it would never be called; fix or rename it",
			of, got.Name, signature(got), a.Name, a.method().Name, a.method().Type)
	}
	if inner := (search{a, map[uintptr]bool{}}).within(value, 0); inner != nil {
		return fmt.Errorf("%s holds a %s, which has %s, but is no %s itself, so that would never be called: add a method that passes the call on",
			of, inner, a.method().Name, a.Name)
	}
	return nil
}

// lookalike returns a method with the name of the ability's, on a type that lacks the ability or on
// a pointer to it. The case of the name may differ if the method takes the same number of values.
func (a Ability) lookalike(of reflect.Type) (reflect.Method, bool) {
	if of.Kind() != reflect.Pointer && of.Kind() != reflect.Interface {
		of = reflect.PointerTo(of)
	}
	for i := range of.NumMethod() {
		method := of.Method(i)
		if method.Type.NumIn() == 2 && method.Type.In(1) == reflect.TypeFor[func()]() {
			continue // the Cleanup of a testing.TB
		}
		sameSize := method.Type.NumIn()-1 == a.method().Type.NumIn()
		if method.Name == a.method().Name || sameSize && strings.EqualFold(method.Name, a.method().Name) {
			return method, true
		}
	}
	return reflect.Method{}, false
}

// signature returns the type of a method without its receiver.
func signature(m reflect.Method) string {
	var in, out []reflect.Type
	for i := 1; i < m.Type.NumIn(); i++ {
		in = append(in, m.Type.In(i))
	}
	for i := range m.Type.NumOut() {
		out = append(out, m.Type.Out(i))
	}
	return reflect.FuncOf(in, out, m.Type.IsVariadic()).String()
}

// maxWrappers is how many decorators around each other are searched.
const maxWrappers = 16

// search finds an ability that a decorator hides.
type search struct {
	Ability
	seen map[uintptr]bool
}

// within returns the type of a wrapped value that has the ability, nil if there is none.
func (s search) within(value reflect.Value, depth int) reflect.Type {
	for value.Kind() == reflect.Pointer || value.Kind() == reflect.Interface {
		if value.IsNil() {
			return nil
		}
		if value.Kind() == reflect.Pointer {
			if s.seen[value.Pointer()] {
				return nil
			}
			s.seen[value.Pointer()] = true
		}
		value = value.Elem()
	}
	if depth > maxWrappers {
		return nil
	}
	switch value.Kind() {
	case reflect.Struct:
		for i := range value.NumField() {
			field := value.Type().Field(i)
			if isOne := field.Type.Kind() == reflect.Struct || field.Type.Kind() == reflect.Pointer; isOne && !field.Anonymous {
				continue // an author who names the type knows what it calls
			}
			if found := s.at(value.Field(i), depth); found != nil {
				return found
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range value.Len() {
			if found := s.at(value.Index(i), depth); found != nil {
				return found
			}
		}
	case reflect.Map:
		for entries := value.MapRange(); entries.Next(); {
			if found := s.at(entries.Value(), depth); found != nil {
				return found
			}
		}
	}
	return nil
}

// at searches a value that a decorator holds. It counts only if the decorator could wrap it.
func (s search) at(held reflect.Value, depth int) reflect.Type {
	switch held.Kind() {
	case reflect.Interface:
		if held.IsNil() {
			return nil
		}
		held = held.Elem()
	case reflect.Struct, reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
	default:
		return nil
	}
	of := held.Type()
	pointer := of
	if held.Kind() == reflect.Struct {
		pointer = reflect.PointerTo(of)
	}
	if pointer.Implements(s.Required) {
		if held.Kind() == reflect.Pointer && held.IsNil() {
			return nil
		}
		if _, looks := s.lookalike(pointer); looks || pointer.Implements(s.Of) {
			return pointer
		}
		return s.within(held, depth+1)
	}
	switch held.Kind() {
	case reflect.Slice, reflect.Array, reflect.Map:
		if elem := of.Elem(); elem.Implements(s.Required) || reflect.PointerTo(elem).Implements(s.Required) {
			return s.within(held, depth+1)
		}
	}
	return nil
}
