package run

import "github.com/evenkeel/evenkeel/trc"

// PrimaryFilters are the author's filters of the primaries, guarded. A nil filter lets every change
// pass.
type PrimaryFilters struct {
	// Add, Update and Remove filter by the kind of change; Every filters all changes.
	Add, Update, Remove, Every func(old, new trc.Object) bool
	// Generation replaces the comparison of generations.
	Generation func(old, new trc.Object) bool
	// Runs reports whether a primary has runs: it is not paused.
	Runs func(_, primary trc.Object) bool
}

// any reports whether there is a filter, or another function of the author that is asked about
// changes.
func (f *PrimaryFilters) any() bool {
	return f.Add != nil || f.Update != nil || f.Remove != nil || f.Every != nil || f.Generation != nil || f.Runs != nil
}

// triggers applies the generation filter and the author's filters. renewed is the result of renews
// for the transition.
func (h primaryHandler) triggers(t trc.Transition, renewed bool) bool {
	if t.New != nil && h.waitsForCleanup(t.New) {
		return true
	}
	ask := h.Filters.Update
	switch {
	case t.Old == nil:
		ask = h.Filters.Add
	case t.New == nil:
		ask = h.Filters.Remove
	case !renewed && !h.Options.AllGenerations && !h.needsFinalizer(t.New) && (h.Filters.Generation != nil || t.New.GetGeneration() != 0):
		return false
	}
	return (ask == nil || ask(t.Old, t.New)) && (h.Filters.Every == nil || h.Filters.Every(t.Old, t.New))
}

// waitsForCleanup reports whether only Cleanup, or the workflow, can release the primary. No filter
// may hide a change of such a primary.
func (h primaryHandler) waitsForCleanup(primary trc.Object) bool {
	return primary.GetDeletionTimestamp() != nil && h.Cleans() && h.finalizer.isOn(primary)
}

// renews reports whether a transition changes the desired state: the generation changed, or the
// deletion began. A replaced primary is no update here: stores report a deletion and an addition.
func (h primaryHandler) renews(t trc.Transition) bool {
	switch {
	case t.Old == nil || t.New == nil:
		return false
	case t.Old.GetDeletionTimestamp() == nil && t.New.GetDeletionTimestamp() != nil:
		return true
	case h.Filters.Generation != nil:
		return h.Filters.Generation(t.Old, t.New)
	}
	return GenerationChanged(t.Old, t.New)
}
