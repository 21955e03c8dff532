package run

import "github.com/evenkeel/evenkeel/trc"

// PrimaryFilters are the author's of the primaries, guarded; nil where there is none.
type PrimaryFilters struct {
	Add, Update, Remove, Every func(old, new trc.Object) bool
	// generation replaces the comparison of generations.
	Generation func(old, new trc.Object) bool
}

// any tells whether there is one.
func (f *PrimaryFilters) any() bool {
	return f.Add != nil || f.Update != nil || f.Remove != nil || f.Every != nil || f.Generation != nil
}

// triggers applies the generation filter and the author's. renewed says that the transition is an update
// that renews.
func (c *Controller) triggers(t trc.Transition, renewed bool) bool {
	if t.New != nil && c.waitsForCleanup(t.New) {
		return true
	}
	ask := c.Filters.Update
	switch {
	case t.Old == nil:
		ask = c.Filters.Add
	case t.New == nil:
		ask = c.Filters.Remove
	case !renewed && !c.Options.AllGenerations && !c.needsFinalizer(t.New) && (c.Filters.Generation != nil || t.New.GetGeneration() != 0):
		return false
	}
	return (ask == nil || ask(t.Old, t.New)) && (c.Filters.Every == nil || c.Filters.Every(t.Old, t.New))
}

// waitsForCleanup tells of a primary that only Cleanup, or the workflow, lets go: no filter may hide that, at whatever
// change of it.
func (c *Controller) waitsForCleanup(primary trc.Object) bool {
	return primary.GetDeletionTimestamp() != nil && c.Cleans() && c.hasFinalizer(primary)
}

// renews tells a change of what is wanted from all others. A replaced primary is no update here: stores tell
// of a deletion and an addition.
func (c *Controller) renews(t trc.Transition) bool {
	switch {
	case t.Old == nil || t.New == nil:
		return false
	case t.Old.GetDeletionTimestamp() == nil && t.New.GetDeletionTimestamp() != nil:
		return true
	case c.Filters.Generation != nil:
		return c.Filters.Generation(t.Old, t.New)
	}
	return GenerationChanged(t.Old, t.New)
}
