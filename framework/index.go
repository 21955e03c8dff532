package framework

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/evenkeel/evenkeel/trc"
)

// Index files secondaries of a controller, or its primaries, under values that a function tells: by it, a run looks up those of a value,
// whether they belong to its primary or not. It usually is a field of the [Reconciler], named in [Secondary.Indexes] or
// [ControllerOptions.Indexes]; its fields must not be changed after that.
//
// Reads see the cache with the operator's own writes laid over it, filed under the values that they have now. Indexes
// of several controllers do not meet, even where these share the cache.
type Index[S Object] struct {
	// Name is what errors call it, unique among the indexes beside it. Default: its place among them.
	Name string
	// Values tells under which values an object is filed, required. It must be pure. If it panics, which is
	// logged, the object is filed under nothing.
	Values func(S) []string
}

// List returns the objects that are filed under a value, in no order: private copies.
func (i *Index[S]) List(c Lookup, value string) ([]S, error) { return copies[S](i.shared(c, value)) }

// Get returns the one object that is filed under a value, or nil if there is none. More than one is an error that names them.
func (i *Index[S]) Get(c Lookup, value string) (S, error) {
	found, err := i.shared(c, value)
	return only[S](found, err, func() string { return fmt.Sprintf("object under %q of index %s", value, i.name()) })
}

// Each is [Index.List] that copies an object when it comes to it. An error is the last that comes.
func (i *Index[S]) Each(c Lookup, value string) iter.Seq2[S, error] {
	return each[S](func() ([]trc.Object, error) { return i.shared(c, value) })
}

func (i *Index[S]) name() string { return fmt.Sprintf("%q of %T", i.Name, newObject[S]()) }

func (i *Index[S]) shared(c Lookup, value string) ([]trc.Object, error) {
	index, err := c.lookup().index(i)
	if err != nil {
		return nil, err
	}
	if index.find == nil {
		return nil, fmt.Errorf("framework: index %s is neither among ControllerOptions.Indexes nor Secondary.Indexes of the controller", i.name())
	}
	for _, u := range index.store.AllSetAside() {
		if slices.Contains(index.values(u.Object), value) {
			return nil, setAsideError(c, u)
		}
	}
	found, err := index.find(value)
	if err != nil {
		return nil, fmt.Errorf("framework: index %s: %w", i.name(), err)
	}
	c.lookup().noteReads(index.store, found...)
	return found, nil
}

// indexDescription is an Index without its type parameter.
type indexDescription struct {
	of     any // its address
	name   string
	values func(trc.Object) []string
	err    error

	mapping *mapping // how values is called
}

// openIndex is an index of a store.
type openIndex struct {
	store  *trc.Store
	find   func(value string) ([]trc.Object, error)
	values func(trc.Object) []string
}

func describeIndexes[S Object](indexes []*Index[S]) []indexDescription {
	all := make([]indexDescription, len(indexes))
	for at, i := range indexes {
		d := &all[at]
		if i == nil {
			d.err = fmt.Errorf("index %d is nil", at)
			continue
		}
		d.of, d.name = i, i.Name
		if d.name == "" {
			d.name = fmt.Sprint(at)
		}
		if i.Values == nil {
			d.err = fmt.Errorf("index %q: Values is nil", d.name)
		}
		d.values = func(o trc.Object) []string { return i.Values(o.(S)) }
	}
	return all
}

// checkIndexes reports what is wrong with the indexes of the controller, all of which known holds.
func checkIndexes(indexes []indexDescription, known map[any]bool) error {
	var errs []error
	names := map[string]bool{}
	for _, d := range indexes {
		switch {
		case d.err != nil:
			errs = append(errs, d.err)
			continue
		case known[d.of]:
			errs = append(errs, fmt.Errorf("index %q: is one of this controller already", d.name))
		case names[d.name]:
			errs = append(errs, fmt.Errorf("two indexes named %q; set Index.Name", d.name))
		}
		known[d.of], names[d.name] = true, true
	}
	return errors.Join(errs...)
}

// validateIndexes reports what is wrong with all indexes of the controller.
func (c *controller) validateIndexes() error {
	known := map[any]bool{}
	fail := func(of string, err error) error {
		if err == nil {
			return nil
		}
		return fmt.Errorf("framework: controller %q: %s%w", c.name, of, err)
	}
	errs := []error{fail("", checkIndexes(c.indexes, known))}
	all := slices.Concat(c.secondaries, c.added.secondaries()) // those that may be late, too
	for _, d := range c.workflow.dormant {
		all = append(all, d.description)
	}
	for _, d := range all {
		errs = append(errs, fail(fmt.Sprintf("secondary %q: ", d.name), checkIndexes(d.indexes, known)))
	}
	return errors.Join(errs...)
}

// mapIndexes prepares the calls of the functions of indexes.
func (c *controller) mapIndexes(source string, indexes []indexDescription) {
	for i := range indexes {
		d := &indexes[i]
		d.mapping = &mapping{callback: c.callback(fmt.Sprintf("Index %q", d.name), source)}
	}
}

// guarded is what files objects.
func (d *indexDescription) guarded() func(trc.Object) []string {
	return d.mapping.guardedValues(d.values)
}

// addIndexes adds those of primaries to the store.
func (c *controller) addIndexes() error {
	for _, d := range c.indexes {
		d.mapping.restore = func() {
			if err := c.store.Refile(c.indexed(d)); err != nil {
				c.operator.logger.Error(err, "an index cannot be filed anew", "controller", c.name)
			}
		}
		if err := c.store.AddIndex(c.indexed(d), d.guarded()); err != nil {
			return err
		}
	}
	return nil
}

func (c *controller) indexed(d indexDescription) string { return c.name + "#" + d.name }

// filedUnder are the indexes of a secondary, for its source.
func (d *secondaryDescription) filedUnder() map[string]func(trc.Object) []string {
	all := make(map[string]func(trc.Object) []string, len(d.indexes))
	for _, i := range d.indexes {
		all[i.name] = i.guarded()
	}
	return all
}

// incomplete says why an index, or with "" what maps to primaries, lacks objects; nil if it does not.
func (d secondaryDescription) incomplete(index string) error {
	if index == "" {
		return d.mapping.err()
	}
	for _, i := range d.indexes {
		if i.name == index {
			return i.mapping.err()
		}
	}
	return nil
}

// index finds an index by its address; it is the zero value if the controller has no such.
func (c *run) index(of any) (openIndex, error) {
	if c.ended.Load() {
		return openIndex{}, ErrRunEnded
	}
	is := func(d indexDescription) bool { return d.of == of }
	if at := slices.IndexFunc(c.controller.indexes, is); at >= 0 {
		d, store := c.controller.indexes[at], c.controller.store.Store
		return openIndex{
			store: store, values: d.guarded(),
			find: func(value string) ([]trc.Object, error) {
				found, err := store.ByIndex(c.controller.indexed(d), value)
				return found, cmp.Or(d.mapping.err(), err)
			},
		}, nil
	}
	for _, secondary := range c.registered() {
		at := slices.IndexFunc(secondary.indexes, is)
		if at < 0 {
			continue
		}
		source, err := c.informer(secondary.source)
		if err != nil {
			return openIndex{}, err
		}
		d := secondary.indexes[at]
		return openIndex{
			store: source.Store(), values: d.guarded(),
			find: func(value string) ([]trc.Object, error) { return source.ByIndex(d.name, value) },
		}, nil
	}
	return openIndex{}, c.controller.inactive(func(d *dormant) bool { return slices.ContainsFunc(d.description.indexes, is) })
}
