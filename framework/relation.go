package framework

import (
	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/trc"
)

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
