package run

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/evenkeel/evenkeel/framework/internal/source"
	"github.com/evenkeel/evenkeel/framework/internal/write"
	"github.com/evenkeel/evenkeel/trc"
)

// validateIndexes returns the errors of all indexes of the controller.
func (s Startup) validateIndexes() error {
	known := map[any]bool{}
	fail := func(of string, err error) error {
		if err == nil {
			return nil
		}
		return fmt.Errorf("framework: controller %q: %s%w", s.Name, of, err)
	}
	errs := []error{fail("", source.CheckIndexes(s.Indexes, known))}
	all := s.Sources.Secondaries() // with those of SyncOptional
	for _, d := range s.Workflow.dormant {
		all = append(all, &d.description)
	}
	for _, d := range all {
		errs = append(errs, fail(fmt.Sprintf("secondary %q: ", d.Name), source.CheckIndexes(d.Indexes, known)))
	}
	return errors.Join(errs...)
}

// addIndexes adds the indexes of primaries to their store.
func (s Startup) addIndexes() error {
	for _, d := range s.Indexes {
		d.Mapping.Restore = func() {
			if err := s.Store.Refile(indexName(s.Name, d)); err != nil {
				s.Operator.Logger.Error(err, "cannot rebuild an index", "controller", s.Name)
			}
		}
		if err := s.Store.AddIndex(indexName(s.Name, d), d.Guarded()); err != nil {
			return err
		}
	}
	return nil
}

// indexName returns the name of an index of primaries in their store.
func indexName(controller string, d source.Index) string { return controller + "#" + d.Name }

// Index returns the index with that key. It is the zero value if the controller has no such index.
func (c *Run) Index(of any) (source.OpenIndex, error) {
	if c.Ended.Load() {
		return source.OpenIndex{}, write.ErrRunEnded
	}
	is := func(d source.Index) bool { return d.Key == of }
	if at := slices.IndexFunc(c.Controller.Indexes, is); at >= 0 {
		d, store := c.Controller.Indexes[at], c.Controller.Store.Store
		return source.OpenIndex{
			Store: store, Values: d.Guarded(),
			Find: func(value string) ([]trc.Object, error) {
				found, err := store.ByIndex(indexName(c.Controller.Name, d), value)
				return found, cmp.Or(d.Mapping.Err(), err)
			},
		}, nil
	}
	for _, secondary := range c.Registered() {
		at := slices.IndexFunc(secondary.Indexes, is)
		if at < 0 {
			continue
		}
		from, err := c.Informer(secondary.Key)
		if err != nil {
			return source.OpenIndex{}, err
		}
		d := secondary.Indexes[at]
		return source.OpenIndex{
			Store: from.Store(), Values: d.Guarded(),
			Find: func(value string) ([]trc.Object, error) { return from.ByIndex(d.Name, value) },
		}, nil
	}
	return source.OpenIndex{}, c.Controller.Workflow.Inactive(func(d *Dormant) bool { return slices.ContainsFunc(d.description.Indexes, is) })
}
