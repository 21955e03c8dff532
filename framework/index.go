package framework

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/evenkeel/evenkeel/framework/internal/write"

	"github.com/evenkeel/evenkeel/framework/internal/source"
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
	if index.Find == nil {
		return nil, fmt.Errorf("framework: index %s is neither among ControllerOptions.Indexes nor Secondary.Indexes of the controller", i.name())
	}
	for _, u := range index.Store.AllSetAside() {
		if slices.Contains(index.Values(u.Object), value) {
			return nil, setAsideError(c, u)
		}
	}
	found, err := index.Find(value)
	if err != nil {
		return nil, fmt.Errorf("framework: index %s: %w", i.name(), err)
	}
	c.lookup().noteReads(index.Store, found...)
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

// validateIndexes reports what is wrong with all indexes of the controller.
func (c *controller) validateIndexes() error {
	known := map[any]bool{}
	fail := func(of string, err error) error {
		if err == nil {
			return nil
		}
		return fmt.Errorf("framework: controller %q: %s%w", c.name, of, err)
	}
	errs := []error{fail("", source.CheckIndexes(c.indexes, known))}
	all := slices.Concat(c.secondaries, c.added.secondaries()) // those that may be late, too
	for _, d := range c.workflow.dormant {
		all = append(all, d.description)
	}
	for _, d := range all {
		errs = append(errs, fail(fmt.Sprintf("secondary %q: ", d.Name), source.CheckIndexes(d.Indexes, known)))
	}
	return errors.Join(errs...)
}

// mapIndexes prepares the calls of the functions of indexes.
func (c *controller) mapIndexes(from string, indexes []source.Index) {
	for i := range indexes {
		d := &indexes[i]
		d.Mapping = &source.Mapping{Callback: c.callback(fmt.Sprintf("Index %q", d.Name), from)}
	}
}

// addIndexes adds those of primaries to the store.
func (c *controller) addIndexes() error {
	for _, d := range c.indexes {
		d.Mapping.Restore = func() {
			if err := c.store.Refile(c.indexed(d)); err != nil {
				c.operator.logger.Error(err, "an index cannot be filed anew", "controller", c.name)
			}
		}
		if err := c.store.AddIndex(c.indexed(d), d.Guarded()); err != nil {
			return err
		}
	}
	return nil
}

func (c *controller) indexed(d source.Index) string { return c.name + "#" + d.Name }

// index finds an index by its address; it is the zero value if the controller has no such.
func (c *run) index(of any) (source.OpenIndex, error) {
	if c.ended.Load() {
		return source.OpenIndex{}, write.ErrRunEnded
	}
	is := func(d source.Index) bool { return d.Key == of }
	if at := slices.IndexFunc(c.controller.indexes, is); at >= 0 {
		d, store := c.controller.indexes[at], c.controller.store.Store
		return source.OpenIndex{
			Store: store, Values: d.Guarded(),
			Find: func(value string) ([]trc.Object, error) {
				found, err := store.ByIndex(c.controller.indexed(d), value)
				return found, cmp.Or(d.Mapping.Err(), err)
			},
		}, nil
	}
	for _, secondary := range c.registered() {
		at := slices.IndexFunc(secondary.Indexes, is)
		if at < 0 {
			continue
		}
		from, err := c.informer(secondary.Key)
		if err != nil {
			return source.OpenIndex{}, err
		}
		d := secondary.Indexes[at]
		return source.OpenIndex{
			Store: from.Store(), Values: d.Guarded(),
			Find: func(value string) ([]trc.Object, error) { return from.ByIndex(d.Name, value) },
		}, nil
	}
	return source.OpenIndex{}, c.controller.inactive(func(d *dormant) bool { return slices.ContainsFunc(d.description.Indexes, is) })
}
