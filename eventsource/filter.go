package eventsource

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/evenkeel/evenkeel/trc"
)

// Filter reports whether a change matters. A nil Filter passes all changes. old is nil for an
// addition, new for a deletion. If an object was replaced by another one of its name, that is a
// deletion and an addition, never an update.
//
// The methods combine filters of both states; for functions of one state, see [Where].
type Filter[O any] func(old, new O) bool

// And calls the filters in order, until one rejects the change.
func (f Filter[O]) And(others ...Filter[O]) Filter[O] {
	all := append([]Filter[O]{f}, others...)
	return func(old, new O) bool {
		return !slices.ContainsFunc(all, func(f Filter[O]) bool { return f != nil && !f(old, new) })
	}
}

// Or calls the filters in order, until one passes the change.
func (f Filter[O]) Or(others ...Filter[O]) Filter[O] {
	all := append([]Filter[O]{f}, others...)
	return func(old, new O) bool {
		return slices.ContainsFunc(all, func(f Filter[O]) bool { return f == nil || f(old, new) })
	}
}

// Not passes the changes that the filter rejects.
func (f Filter[O]) Not() Filter[O] {
	return func(old, new O) bool { return f != nil && !f(old, new) }
}

// Where reports whether an object matters, as filters of additions and of deletions do. A nil Where
// selects all objects.
type Where[O any] func(o O) bool

// And calls the functions in order, until one returns false.
func (w Where[O]) And(others ...Where[O]) Where[O] {
	all := append([]Where[O]{w}, others...)
	return func(o O) bool { return !slices.ContainsFunc(all, func(w Where[O]) bool { return w != nil && !w(o) }) }
}

// Or calls the functions in order, until one returns true.
func (w Where[O]) Or(others ...Where[O]) Where[O] {
	all := append([]Where[O]{w}, others...)
	return func(o O) bool { return slices.ContainsFunc(all, func(w Where[O]) bool { return w == nil || w(o) }) }
}

// Not returns the negation.
func (w Where[O]) Not() Where[O] {
	return func(o O) bool { return w != nil && !w(o) }
}

// OldOrNew returns a filter that passes changes of objects that matter before or after the change.
// An object that no longer matters is a change, too: a filter of the new state alone would miss it.
func (w Where[O]) OldOrNew() Filter[O] {
	return func(old, new O) bool {
		return w == nil || !isAbsent(old) && w(old) || !isAbsent(new) && w(new)
	}
}

// The filters below judge updates. They pass all additions and deletions.

// GenerationChanged passes updates that change the generation, which counts changes of the desired
// state. For kinds without generations it passes all updates.
func GenerationChanged[O trc.Object](old, new O) bool {
	return isAbsent(old) || isAbsent(new) || new.GetGeneration() == 0 || new.GetGeneration() != old.GetGeneration()
}

// LabelsChanged passes updates that change labels.
func LabelsChanged[O trc.Object](old, new O) bool {
	return isAbsent(old) || isAbsent(new) || !maps.Equal(old.GetLabels(), new.GetLabels())
}

// AnnotationsChanged passes updates that change annotations.
func AnnotationsChanged[O trc.Object](old, new O) bool {
	return isAbsent(old) || isAbsent(new) || !maps.Equal(old.GetAnnotations(), new.GetAnnotations())
}

// DeletionRequested passes the update that requests the deletion of an object, which may wait for
// finalizers.
func DeletionRequested[O trc.Object](old, new O) bool {
	return isAbsent(old) || isAbsent(new) || old.GetDeletionTimestamp() == nil && new.GetDeletionTimestamp() != nil
}

// ContentChanged passes updates that change more than the resourceVersion and managedFields. It
// copies both states and compares them as a whole: for large objects, a filter of the relevant
// fields is cheaper.
func ContentChanged[O trc.Object](old, new O) bool {
	return isAbsent(old) || isAbsent(new) || !equality.Semantic.DeepEqual(contentOf(old), contentOf(new))
}

func contentOf(o trc.Object) trc.Object {
	content := o.DeepCopyObject().(trc.Object)
	content.SetResourceVersion("")
	content.SetManagedFields(nil)
	return content
}

// isAbsent reports whether o is the nil of its pointer or interface type.
func isAbsent[O any](o O) bool {
	var none O
	return any(o) == any(none)
}
