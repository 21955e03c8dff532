package source

import (
	"errors"
	"fmt"

	"github.com/evenkeel/evenkeel/trc"
)

// Index is an Index without its type parameter.
type Index struct {
	Key    any                       // its address
	Name   string                    // unique among the indexes of a source
	Values func(trc.Object) []string // the author's function
	Err    error                     // why the declaration is invalid

	Mapping *Mapping // guards Values
}

// OpenIndex is an index of a store.
type OpenIndex struct {
	Store  *trc.Store                               // nil if there is no such index
	Find   func(value string) ([]trc.Object, error) // the objects with a value
	Values func(trc.Object) []string                // the values of an object
}

// CheckIndexes returns the errors of the indexes of a source. It adds them to known, which holds
// all indexes of the controller.
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

// Guarded returns the guarded function of the index.
func (d *Index) Guarded() func(trc.Object) []string {
	return d.Mapping.guardedValues(d.Values)
}
