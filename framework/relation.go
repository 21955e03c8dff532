package framework

import (
	"errors"
	"fmt"
	"slices"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework/internal/safely"
	"github.com/evenkeel/evenkeel/framework/internal/source"
	"github.com/evenkeel/evenkeel/trc"
)

// checkRelation reports what is wrong with how a secondary and its primaries find each other.
func (c *controller) checkRelation(d source.Description) error {
	if err := c.checkReferred(d); err != nil || d.Relation == nil {
		return err
	}
	if d.References != nil {
		return errors.New("Secondary.By: must be nil with Referred, which maps by what primaries refer to")
	}
	if _, err := c.mapperFor(d.Relation, false); err != nil {
		return fmt.Errorf("Secondary.By: %w", err)
	}
	return nil
}

// mapperOf is how secondaries that primaries do not refer to tell theirs.
func (c *controller) mapperOf(d source.Description) (eventsource.Mapper, error) {
	var by eventsource.AnyOf
	switch {
	case d.Relation != nil:
		by = append(by, d.Relation)
	case d.Mapper == nil:
		by = append(by, eventsource.Owners{})
	}
	if d.Mapper != nil {
		by = append(by, d.Mapper)
	}
	mapper, err := c.mapperFor(by, !c.resource.Namespaced)
	// A relation of the author's own may leave namespaces out. A Mapper's MapperFor has put them in already.
	leavesOut := func(one eventsource.Relation) bool { return !source.IsOurs(one) && !isMapper(one) }
	if err != nil || !slices.ContainsFunc(by, leavesOut) {
		return mapper, err
	}
	return c.mapperFor(mapper, !c.resource.Namespaced)
}

// mapperFor asks a relation, which may be the author's, for its mapper.
func (c *controller) mapperFor(by eventsource.Relation, clusterScoped bool) (eventsource.Mapper, error) {
	var found eventsource.Mapper
	err := safely.AskOnce("MapperFor", func() (err error) {
		found, err = by.MapperFor(c.gvk.GroupKind(), clusterScoped)
		return err
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

func isMapper(by eventsource.Relation) bool { _, is := by.(eventsource.Mapper); return is }

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
