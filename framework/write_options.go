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
	// ByPatch sends the difference to what was read, as a JSON merge patch. An object that does not
	// exist is created.
	//
	// In secondaries, a list whose Go type has the tag patchMergeKey, as built-in kinds have it,
	// merges by that key: items of others stay. Other lists are replaced as a whole, and so are all
	// lists of a changed copy of what was read. The same intent is not sent again for the object that
	// it made, whatever the server filled in.
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

// OwnedByPrimary adds a controller reference to the primary, so that the secondary maps to it and
// is deleted with it. The secondary must be in the primary's namespace, or the primary must be
// cluster-scoped: Kubernetes forbids other owners.
func OwnedByPrimary() WriteOption { return func(o *write.Options) { o.Owned = true } }

// WithPrimaryRef adds marks to the secondary that name the primary, so that [Secondary.By] with the
// same marks maps it. Use it where Kubernetes does not let the primary own the secondary. Such
// secondaries are not deleted with the primary, so a [Cleaner] must do that.
func WithPrimaryRef(marks eventsource.PrimaryRef) WriteOption {
	return func(o *write.Options) { o.Marks = append(o.Marks, marks) }
}

// WithoutForce makes an apply fail with a [FieldConflictError] if another field manager owns a
// field with another value. By default the field is taken over, as Kubernetes recommends for
// controllers. It is refused for a write by patch, which cannot detect owners.
func WithoutForce() WriteOption { return func(o *write.Options) { o.WithoutForce = true } }

// WithMode replaces the controller's [ControllerOptions.SecondaryWrites] for one [Apply].
func WithMode(mode WriteMode) WriteOption {
	return func(o *write.Options) { o.Mode = write.Mode(mode) }
}

// Subresource sends an [ApplyConfiguration], [Update], [MergePatch] or [JSONPatch] to a subresource
// such as "status", whose answer is the whole object. Of the subresources that answer with another
// kind, only "scale" can be patched: the object is then read and returned. All others, and verbs
// that the API server does not offer, are refused before anything is sent. Use a client of your own
// within [Do] for these.
func Subresource(name string) WriteOption {
	return func(o *write.Options) { o.Subresource = []string{name} }
}

// Unfiltered lets the write trigger the primary that it is made for, like any other change.
func Unfiltered() WriteOption { return func(o *write.Options) { o.Unfiltered = true } }

// Unconditional sends an apply or a patch without the version and UID that reads show. It changes
// whatever object of that name exists, and an apply creates one that has vanished. Nothing is
// proven about such a write, so it triggers the primary that it is made for. An apply of an intent
// with a resourceVersion is refused, because the two contradict each other.
func Unconditional() WriteOption { return func(o *write.Options) { o.Unconditional = true } }

// IfUnchanged restricts a [Delete] to the version that the object carries. Otherwise the error is
// one that apierrors.IsConflict recognises.
func IfUnchanged() WriteOption { return func(o *write.Options) { o.IfUnchanged = true } }

// IfAbsent makes an [Apply] create the object, or fail if any object of that name exists. The error
// is one that apierrors.IsConflict or IsAlreadyExists recognises. The existing object is not
// changed, and reads show it from then on, unless no cache covers it.
func IfAbsent() WriteOption { return func(o *write.Options) { o.IfAbsent = true } }

// DryRun lets the server check and answer the write without storing it. Reads do not show it.
func DryRun() WriteOption { return func(o *write.Options) { o.DryRun = true } }

// MatchedBy makes an [Apply] send nothing if matches reports that the object that reads show is
// already as desired. matches is not called if there is no object. Without this option, the API
// server is asked once, and again only when the intent or the object has changed.
func MatchedBy[T Object](matches func(live, desired T) bool) WriteOption {
	return func(o *write.Options) {
		o.Matches = func(live, desired Object) bool { return matches(live.(T), desired.(T)) }
	}
}

// Propagation is what a [Delete] does with the objects that the object owns. Default: that of the
// kind.
func Propagation(policy metav1.DeletionPropagation) WriteOption {
	return func(o *write.Options) { o.Propagation = &policy }
}

// GracePeriodSeconds is how long a deleted Pod may take to end, in seconds. Default: that of the
// object.
func GracePeriodSeconds(seconds int64) WriteOption {
	return func(o *write.Options) { o.GracePeriod = &seconds }
}

// optionsOf returns the options of a write through w.
func optionsOf(w *write.Writer, options []WriteOption) write.Options {
	o := w.Defaults()
	for _, option := range options {
		option(&o)
	}
	return o
}
