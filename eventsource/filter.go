package eventsource

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/evenkeel/evenkeel/trc"
)

// Filter tells whether a change matters; nil is one that lets all pass. old is nil for an addition, new for a deletion. An object that
// was replaced by another one of its name is never an update: it is deleted, and the other added.
//
// Filters that are functions of both states are put together by its methods; for what looks at one, see [Where].
type Filter[O any] func(old, new O) bool

// And asks the filters in order, until one lets a change not pass.
func (f Filter[O]) And(others ...Filter[O]) Filter[O] {
	all := append([]Filter[O]{f}, others...)
	return func(old, new O) bool {
		return !slices.ContainsFunc(all, func(f Filter[O]) bool { return f != nil && !f(old, new) })
	}
}

// Or asks the filters in order, until one lets a change pass.
func (f Filter[O]) Or(others ...Filter[O]) Filter[O] {
	all := append([]Filter[O]{f}, others...)
	return func(old, new O) bool {
		return slices.ContainsFunc(all, func(f Filter[O]) bool { return f == nil || f(old, new) })
	}
}

// Not lets pass what the filter does not.
func (f Filter[O]) Not() Filter[O] {
	return func(old, new O) bool { return f != nil && !f(old, new) }
}

// Where tells whether an object matters, as filters of additions and of deletions do; nil is one for which all do.
type Where[O any] func(o O) bool

// And asks in order, until one says no.
func (w Where[O]) And(others ...Where[O]) Where[O] {
	all := append([]Where[O]{w}, others...)
	return func(o O) bool { return !slices.ContainsFunc(all, func(w Where[O]) bool { return w != nil && !w(o) }) }
}

// Or asks in order, until one says yes.
func (w Where[O]) Or(others ...Where[O]) Where[O] {
	all := append([]Where[O]{w}, others...)
	return func(o O) bool { return slices.ContainsFunc(all, func(w Where[O]) bool { return w == nil || w(o) }) }
}

// Not says the opposite.
func (w Where[O]) Not() Where[O] {
	return func(o O) bool { return w != nil && !w(o) }
}

// OldOrNew makes a filter of changes: those of objects that matter before or after. One that no longer does is a change, too: who
// looks at the new state alone never hears of it.
func (w Where[O]) OldOrNew() Filter[O] {
	return func(old, new O) bool {
		return w == nil || !isAbsent(old) && w(old) || !isAbsent(new) && w(new)
	}
}

// The filters below look at updates; they let additions and deletions pass.

// GenerationChanged lets pass what changes what is wanted, of kinds that have generations; all changes of those that have none.
func GenerationChanged[O trc.Object](old, new O) bool {
	return isAbsent(old) || isAbsent(new) || new.GetGeneration() == 0 || new.GetGeneration() != old.GetGeneration()
}

// LabelsChanged lets pass what changes labels.
func LabelsChanged[O trc.Object](old, new O) bool {
	return isAbsent(old) || isAbsent(new) || !maps.Equal(old.GetLabels(), new.GetLabels())
}

// AnnotationsChanged lets pass what changes annotations.
func AnnotationsChanged[O trc.Object](old, new O) bool {
	return isAbsent(old) || isAbsent(new) || !maps.Equal(old.GetAnnotations(), new.GetAnnotations())
}

// DeletionRequested lets pass that the deletion of an object was requested, which may wait for finalizers.
func DeletionRequested[O trc.Object](old, new O) bool {
	return isAbsent(old) || isAbsent(new) || old.GetDeletionTimestamp() == nil && new.GetDeletionTimestamp() != nil
}

// ContentChanged lets pass what changes more than the resourceVersion and who manages which field. It copies both states, and
// compares them whole: of large objects, filters that look at what matters are cheaper.
func ContentChanged[O trc.Object](old, new O) bool {
	return isAbsent(old) || isAbsent(new) || !equality.Semantic.DeepEqual(contentOf(old), contentOf(new))
}

func contentOf(o trc.Object) trc.Object {
	content := o.DeepCopyObject().(trc.Object)
	content.SetResourceVersion("")
	content.SetManagedFields(nil)
	return content
}

// isAbsent tells the nil of a pointer type, or of an interface, in which all objects come.
func isAbsent[O any](o O) bool {
	var none O
	return any(o) == any(none)
}
