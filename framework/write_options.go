package framework

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework/internal/write"
)

// WriteMode is how desired state is sent.
type WriteMode int

const (
	// ByDefault is ByPatch for primaries and ByApply for secondaries.
	ByDefault WriteMode = iota
	// ByPatch sends what differs from what was read, as a JSON merge patch; what does not exist is
	// created. Of secondaries, lists whose Go type has the tag patchMergeKey, as built-in kinds have it, merge by that
	// key: items of others stay. Other lists, and those of a changed copy of what was read, are replaced as a whole. The same
	// intent is not sent again for what it made, whatever the server filled in.
	ByPatch
	// ByApply sends the fields that the controller wants to own, as a server-side apply.
	ByApply
)

// String returns "default", "patch" or "apply".
func (m WriteMode) String() string {
	switch m {
	case ByDefault:
		return "default"
	case ByPatch:
		return "patch"
	case ByApply:
		return "apply"
	}
	return fmt.Sprintf("WriteMode(%d)", int(m))
}

// WriteOption changes one write.
type WriteOption func(*write.Options)

// FieldManager replaces the controller's field manager for one write.
func FieldManager(name string) WriteOption { return func(o *write.Options) { o.FieldManager = name } }

// OwnedByPrimary adds a controller reference to the primary, so that the secondary is mapped to it
// and deleted with it. The secondary must be in the primary's namespace, or the primary
// cluster-scoped: Kubernetes forbids other owners.
func OwnedByPrimary() WriteOption { return func(o *write.Options) { o.Owned = true } }

// WithPrimaryRef puts marks on the secondary that name the primary, so that [Secondary.By] with the same marks maps it. It is for where
// Kubernetes lets the primary own nothing: nobody deletes such secondaries with it, so a [Cleaner] has to.
func WithPrimaryRef(marks eventsource.PrimaryRef) WriteOption {
	return func(o *write.Options) { o.Marks = append(o.Marks, marks) }
}

// WithoutForce makes an apply fail with a [FieldConflictError] where another field manager owns a field
// with another value. By default the field is taken over, as Kubernetes advises controllers. A patch cannot
// tell, so by patch it is refused.
func WithoutForce() WriteOption { return func(o *write.Options) { o.WithoutForce = true } }

// WithMode replaces the controller's [ControllerOptions.SecondaryWrites] for one [Apply].
func WithMode(mode WriteMode) WriteOption {
	return func(o *write.Options) { o.Mode = write.Mode(mode) }
}

// Subresource makes an [ApplyConfiguration], [Update], [MergePatch] or [JSONPatch] go to a sub-resource
// such as "status", whose answer is the whole object. Of those that answer another kind, only "scale" can be
// patched: the object is read then, and returned. All others, and verbs that the API server does not offer,
// are refused before anything is sent; a client of your own can send these within [Do].
func Subresource(name string) WriteOption {
	return func(o *write.Options) { o.Subresource = []string{name} }
}

// Unfiltered makes the write trigger the primary that it is made for, like any other change.
func Unfiltered() WriteOption { return func(o *write.Options) { o.Unfiltered = true } }

// Unconditional sends an apply or a patch without the version and UID that reads show: it is carried
// out on whatever object of that name there is, and an apply creates one that has vanished. As
// nothing is proven about it then, it triggers the primary that it is made for. An apply of an intent that
// carries a resourceVersion contradicts it, and is refused.
func Unconditional() WriteOption { return func(o *write.Options) { o.Unconditional = true } }

// IfUnchanged makes a [Delete] hold only for the version that the object carries; otherwise the error is
// one that apierrors.IsConflict recognises.
func IfUnchanged() WriteOption { return func(o *write.Options) { o.IfUnchanged = true } }

// IfAbsent makes an [Apply] create the object, or fail where there is one of that name, whoever's it is, with an error that
// apierrors.IsConflict or IsAlreadyExists recognises: reads show that one then, unless no cache covers it. Nothing of it is changed.
func IfAbsent() WriteOption { return func(o *write.Options) { o.IfAbsent = true } }

// DryRun makes the server check and answer the write without storing it. Reads do not show it.
func DryRun() WriteOption { return func(o *write.Options) { o.DryRun = true } }

// MatchedBy makes an [Apply] send nothing if matches, asked about what reads show, says that it is as
// desired already. It is not asked if there is none. Without it, the API server is asked once, and again
// only when the intent or the object has changed.
func MatchedBy[T Object](matches func(live, desired T) bool) WriteOption {
	return func(o *write.Options) {
		o.Matches = func(live, desired Object) bool { return matches(live.(T), desired.(T)) }
	}
}

// Propagation says what a [Delete] does with what the object owns. Default: the kind's.
func Propagation(policy metav1.DeletionPropagation) WriteOption {
	return func(o *write.Options) { o.Propagation = &policy }
}

// GracePeriodSeconds is how long a deleted Pod may take to end. Default: the object's.
func GracePeriodSeconds(seconds int64) WriteOption {
	return func(o *write.Options) { o.GracePeriod = &seconds }
}

// optionsOf are the options of a write through w.
func optionsOf(w *write.Writer, options []WriteOption) write.Options {
	o := w.Defaults()
	for _, option := range options {
		option(&o)
	}
	return o
}
