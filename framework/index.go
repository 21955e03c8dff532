package framework

import (
	"fmt"
	"iter"
	"reflect"
	"slices"

	"github.com/evenkeel/evenkeel/framework/internal/source"
	"github.com/evenkeel/evenkeel/trc"
)

// Index finds the secondaries or the primaries of a controller by a value that a function computes
// from them. The objects need not belong to the primary of the run. An Index is usually a field of
// the [Reconciler], listed in [Secondary.Indexes] or [ControllerOptions.Indexes]. Its fields must
// not be changed after that.
//
// Reads see the cache overlaid with the operator's own writes, under their current values. Indexes
// of different controllers are independent, even if the controllers share a cache.
type Index[S Object] struct {
	// Name in error messages. Default: its position in the list. It must be unique in its list.
	Name string
	// Values returns the values that an object is filed under. Required. It must be pure. If it
	// panics, the panic is logged, and the object is filed under nothing.
	Values func(S) []string
}

// List returns private copies of the objects that are filed under a value, in no order.
func (i *Index[S]) List(c Lookup, value string) ([]S, error) { return copies[S](i.shared(c, value)) }

// Get returns the one object that is filed under a value, or nil if there is none. More than one is
// an error that names them.
func (i *Index[S]) Get(c Lookup, value string) (S, error) {
	found, err := i.shared(c, value)
	return only[S](found, err, func() string { return fmt.Sprintf("object under %q of index %s", value, i.name()) })
}

// Each is [Index.List] as an iterator, which copies each object when the loop reaches it. An error
// comes last and ends the iteration.
func (i *Index[S]) Each(c Lookup, value string) iter.Seq2[S, error] {
	return each[S](func() ([]trc.Object, error) { return i.shared(c, value) })
}

func (i *Index[S]) name() string { return fmt.Sprintf("%q of %v", i.Name, reflect.TypeFor[S]()) }

func (i *Index[S]) shared(c Lookup, value string) ([]trc.Object, error) {
	index, err := c.lookup().Index(i)
	if err != nil {
		return nil, err
	}
	if index.Find == nil {
		return nil, fmt.Errorf("framework: index %s is neither among ControllerOptions.Indexes nor Secondary.Indexes of the controller", i.name())
	}
	for u := range index.Store.AllUndecodable() {
		if slices.Contains(index.Values(u.Object), value) {
			return nil, undecodableError(c, u)
		}
	}
	found, err := index.Find(value)
	if err != nil {
		return nil, fmt.Errorf("framework: index %s: %w", i.name(), err)
	}
	c.lookup().RecordReads(index.Store, found...)
	return found, nil
}

func describeIndexes[S Object](indexes []*Index[S]) []source.Index {
	all := make([]source.Index, len(indexes))
	for at, i := range indexes {
		d := &all[at]
		if i == nil {
			d.Err = fmt.Errorf("index %d is nil", at)
			continue
		}
		d.Key, d.Name = i, i.Name
		if d.Name == "" {
			d.Name = fmt.Sprint(at)
		}
		if i.Values == nil {
			d.Err = fmt.Errorf("index %q: Values is nil", d.Name)
		}
		d.Values = func(o trc.Object) []string { return i.Values(o.(S)) }
	}
	return all
}
