package source

import (
	"errors"
	"fmt"

	"github.com/evenkeel/evenkeel/trc"
)

// Index is an Index without its type parameter.
type Index struct {
	Key    any // its address
	Name   string
	Values func(trc.Object) []string
	Err    error

	Mapping *Mapping // how values is called
}

// OpenIndex is an index of a store.
type OpenIndex struct {
	Store  *trc.Store
	Find   func(value string) ([]trc.Object, error)
	Values func(trc.Object) []string
}

// CheckIndexes reports what is wrong with the indexes of the controller, all of which known holds.
func CheckIndexes(indexes []Index, known map[any]bool) error {
	var errs []error
	names := map[string]bool{}
	for _, d := range indexes {
		switch {
		case d.Err != nil:
			errs = append(errs, d.Err)
			continue
		case known[d.Key]:
			errs = append(errs, fmt.Errorf("index %q: is one of this controller already", d.Name))
		case names[d.Name]:
			errs = append(errs, fmt.Errorf("two indexes named %q; set Index.Name", d.Name))
		}
		known[d.Key], names[d.Name] = true, true
	}
	return errors.Join(errs...)
}

// Guarded is what files objects.
func (d *Index) Guarded() func(trc.Object) []string {
	return d.Mapping.guardedValues(d.Values)
}
