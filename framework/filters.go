package framework

import (
	"github.com/evenkeel/evenkeel/trc"
)

// primaryFilters are the author's of the primaries, guarded; nil where there is none.
type primaryFilters struct {
	add, update, remove, every func(old, new trc.Object) bool
	// generation replaces the comparison of generations.
	generation func(old, new trc.Object) bool
}

// any tells whether there is one.
func (f *primaryFilters) any() bool {
	return f.add != nil || f.update != nil || f.remove != nil || f.every != nil || f.generation != nil
}

// triggers applies the generation filter and the author's. renewed says that the transition is an update
// that renews.
func (c *controller) triggers(t trc.Transition, renewed bool) bool {
	if t.New != nil && c.waitsForCleanup(t.New) {
		return true
	}
	ask := c.filters.update
	switch {
	case t.Old == nil:
		ask = c.filters.add
	case t.New == nil:
		ask = c.filters.remove
	case !renewed && !c.options.AllGenerations && !c.needsFinalizer(t.New) && (c.filters.generation != nil || t.New.GetGeneration() != 0):
		return false
	}
	return (ask == nil || ask(t.Old, t.New)) && (c.filters.every == nil || c.filters.every(t.Old, t.New))
}

// waitsForCleanup tells of a primary that only Cleanup, or the workflow, lets go: no filter may hide that, at whatever
// change of it.
func (c *controller) waitsForCleanup(primary trc.Object) bool {
	return primary.GetDeletionTimestamp() != nil && c.cleans() && c.hasFinalizer(primary)
}

// renews tells a change of what is wanted from all others. A replaced primary is no update here: stores tell
// of a deletion and an addition.
func (c *controller) renews(t trc.Transition) bool {
	switch {
	case t.Old == nil || t.New == nil:
		return false
	case t.Old.GetDeletionTimestamp() == nil && t.New.GetDeletionTimestamp() != nil:
		return true
	case c.filters.generation != nil:
		return c.filters.generation(t.Old, t.New)
	}
	return wantsOther(t.Old, t.New)
}
