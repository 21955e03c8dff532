package framework

import (
	"errors"
	"fmt"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/trc"
)

// relate has a secondary that is written name the primary, in the ways that the options ask for. It changes the object.
func (w *writer) relate(r *resource, o Object, options writeOptions) error {
	if options.owned {
		if err := w.own(r, o); err != nil {
			return err
		}
		if w.owns != nil {
			w.owns(r.gvk)
		}
	}
	for _, marks := range options.marks {
		if w.owner == nil {
			return fmt.Errorf("framework: %s: MarkedWith outside of a run", r.describe(trc.KeyOf(o)))
		}
		if err := marks.Put(o, w.ownerGVK.GroupKind(), trc.KeyOf(w.owner)); err != nil {
			return fmt.Errorf("framework: %s: MarkedWith: %w", r.describe(trc.KeyOf(o)), err)
		}
	}
	return nil
}

// checkRelation reports what is wrong with how a secondary and its primaries find each other.
func (c *controller[P]) checkRelation(d secondaryDescription) error {
	if err := c.checkReferred(d); err != nil || d.by == nil {
		return err
	}
	if d.refers != nil {
		return errors.New("Secondary.By: must be nil with Referred, which maps by what primaries refer to")
	}
	if _, err := d.by.MapperFor(c.gvk.GroupKind(), false); err != nil {
		return fmt.Errorf("Secondary.By: %w", err)
	}
	return nil
}

// mapperOf is how secondaries that primaries do not refer to tell theirs.
func (c *controller[P]) mapperOf(d secondaryDescription) (eventsource.Mapper, error) {
	var by eventsource.AnyOf
	switch {
	case d.by != nil:
		by = append(by, d.by)
	case d.mapper == nil:
		by = append(by, eventsource.Owners{})
	}
	if d.mapper != nil {
		by = append(by, d.mapper)
	}
	return by.MapperFor(c.gvk.GroupKind(), !c.resource.namespaced)
}

// filters are the filters of a secondary as one; nil if there is none. The specific are asked first.
func (s *Secondary[S]) filters() func(old, new trc.Object) bool {
	if s.AddFilter == nil && s.UpdateFilter == nil && s.DeleteFilter == nil {
		return untypedFilter(s.Filter)
	}
	specific := func(old, new trc.Object) bool {
		switch {
		case old == nil:
			return s.AddFilter == nil || s.AddFilter(new.(S))
		case new == nil:
			return s.DeleteFilter == nil || s.DeleteFilter(old.(S))
		}
		return s.UpdateFilter == nil || s.UpdateFilter(old.(S), new.(S))
	}
	return eventsource.Filter[trc.Object](specific).And(untypedFilter(s.Filter))
}
