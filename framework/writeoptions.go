package framework

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework/internal/client"
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
type WriteOption func(*writeOptions)

type writeOptions struct {
	client.Options
	owned         bool
	marks         []eventsource.Marks
	mode          WriteMode
	unfiltered    bool
	unconditional bool
	ifUnchanged   bool
	ifAbsent      bool
	matches       func(live, desired Object) bool
	propagation   *metav1.DeletionPropagation
	gracePeriod   *int64
	// internal says that nobody but the framework, which changes no object, gets the answer.
	internal bool
	// authorVersion is the resourceVersion that the author put into an intent.
	authorVersion string
	// isTyped says that an intent was made from the Go type of the kind: the type has all of its fields.
	isTyped bool
}

// FieldManager replaces the controller's field manager for one write.
func FieldManager(name string) WriteOption { return func(o *writeOptions) { o.FieldManager = name } }

// OwnedByPrimary adds a controller reference to the primary, so that the secondary is mapped to it
// and deleted with it. The secondary must be in the primary's namespace, or the primary
// cluster-scoped: Kubernetes forbids other owners.
func OwnedByPrimary() WriteOption { return func(o *writeOptions) { o.owned = true } }

// MarkedWith puts marks on the secondary that name the primary, so that [Secondary.By] with the same marks maps it. It is for where
// Kubernetes lets the primary own nothing: nobody deletes such secondaries with it, so a [Cleaner] has to.
func MarkedWith(marks eventsource.Marks) WriteOption {
	return func(o *writeOptions) { o.marks = append(o.marks, marks) }
}

// LeaveToOthers makes an apply fail with a [FieldConflictError] where another field manager owns a field
// with another value. By default the field is taken over, as Kubernetes advises controllers. A patch cannot
// tell, so by patch it is refused.
func LeaveToOthers() WriteOption { return func(o *writeOptions) { o.LeaveToOthers = true } }

// By replaces the controller's [ControllerOptions.SecondaryWrites] for one [Apply].
func By(mode WriteMode) WriteOption { return func(o *writeOptions) { o.mode = mode } }

// Subresource makes an [ApplyConfiguration], [Update], [MergePatch] or [JSONPatch] go to a sub-resource
// such as "status", whose answer is the whole object. Of those that answer another kind, only "scale" can be
// patched: the object is read then, and returned. All others, and verbs that the API server does not offer,
// are refused before anything is sent; a client of your own can send these within [Do].
func Subresource(name string) WriteOption {
	return func(o *writeOptions) { o.Subresource = []string{name} }
}

// Unfiltered makes the write trigger the primary that it is made for, like any other change.
func Unfiltered() WriteOption { return func(o *writeOptions) { o.unfiltered = true } }

// Unconditional sends an apply or a patch without the version and UID that reads show: it is carried
// out on whatever object of that name there is, and an apply creates one that has vanished. As
// nothing is proven about it then, it triggers the primary that it is made for. An apply of an intent that
// carries a resourceVersion contradicts it, and is refused.
func Unconditional() WriteOption { return func(o *writeOptions) { o.unconditional = true } }

// IfUnchanged makes a [Delete] hold only for the version that the object carries; otherwise the error is
// one that apierrors.IsConflict recognises.
func IfUnchanged() WriteOption { return func(o *writeOptions) { o.ifUnchanged = true } }

// IfAbsent makes an [Apply] create the object, or fail where there is one of that name, whoever's it is, with an error that
// apierrors.IsConflict or IsAlreadyExists recognises: reads show that one then, unless no cache covers it. Nothing of it is changed.
func IfAbsent() WriteOption { return func(o *writeOptions) { o.ifAbsent = true } }

// DryRun makes the server check and answer the write without storing it. Reads do not show it.
func DryRun() WriteOption { return func(o *writeOptions) { o.DryRun = true } }

// MatchedBy makes an [Apply] send nothing if matches, asked about what reads show, says that it is as
// desired already. It is not asked if there is none. Without it, the API server is asked once, and again
// only when the intent or the object has changed.
func MatchedBy[T Object](matches func(live, desired T) bool) WriteOption {
	return func(o *writeOptions) {
		o.matches = func(live, desired Object) bool { return matches(live.(T), desired.(T)) }
	}
}

// Propagation says what a [Delete] does with what the object owns. Default: the kind's.
func Propagation(policy metav1.DeletionPropagation) WriteOption {
	return func(o *writeOptions) { o.propagation = &policy }
}

// GracePeriodSeconds is how long a deleted Pod may take to end. Default: the object's.
func GracePeriodSeconds(seconds int64) WriteOption {
	return func(o *writeOptions) { o.gracePeriod = &seconds }
}

func (w *writer) options(options []WriteOption) writeOptions {
	o := writeOptions{Options: client.Options{FieldManager: w.fieldManager}, mode: w.mode}
	for _, option := range options {
		option(&o)
	}
	return o
}

// ability is what a way of writing can be asked for.
type ability uint8

const (
	canOwn ability = 1 << iota
	canAddress
	canLeave
	canHold
	canInsist
	canMatch
)

// check refuses options that ask for what the way of writing cannot do: left out in silence, it would do
// something else than it reads.
func (o *writeOptions) check(doing string, can ability) error {
	for _, asked := range []struct {
		option string
		given  bool
		needs  ability
	}{
		{"OwnedByPrimary", o.owned, canOwn},
		{"MarkedWith", len(o.marks) > 0, canOwn},
		{"Subresource", len(o.Subresource) > 0, canAddress},
		{"LeaveToOthers", o.LeaveToOthers, canLeave},
		{"IfUnchanged", o.ifUnchanged, canHold},
		{"Propagation", o.propagation != nil, canHold},
		{"GracePeriodSeconds", o.gracePeriod != nil, canHold},
		{"MatchedBy", o.matches != nil, canMatch},
		{"IfAbsent", o.ifAbsent, canInsist},
	} {
		if asked.given && can&asked.needs == 0 {
			return fmt.Errorf("framework: %s: the option %s does not apply", doing, asked.option)
		}
	}
	return nil
}
