package framework

import (
	"time"

	"github.com/evenkeel/evenkeel/framework/internal/run"
)

// UpdateControl says what to write to the primary after Reconcile, and when to come back. The zero
// value writes nothing and comes back only for a reason.
type UpdateControl[P Object] struct {
	object       P
	resource     bool
	status       bool
	reschedule   bool
	rescheduleIn time.Duration
}

// NoUpdate writes nothing to the primary. It is the zero value, for readers who like it said.
func NoUpdate[P Object]() UpdateControl[P] { return UpdateControl[P]{} }

// PatchStatus writes the status of the primary. [ControllerOptions.PrimaryWrites] decides how:
//
//   - by patch (the default): given the primary that Reconcile received, changed in place, what
//     differs from the status it was read with is sent, removals included. Given a fresh object (one
//     without a UID), what it sets is sent, and no field is removed. Lists are replaced as a whole, and
//     a Go field without omitempty is always set.
//   - by apply: a fresh object with exactly the fields the controller wants to own.
//
// If nothing differs, nothing is sent. The status of a kind without a status sub-resource is written with the
// resource; an apply of it alone is refused there, as it would give up the other fields.
func PatchStatus[P Object](primary P) UpdateControl[P] {
	return UpdateControl[P]{object: primary, status: true}
}

// PatchResource writes metadata and spec of the primary, in the way described at [PatchStatus]. The
// finalizer of a [Cleaner] stays on, whatever finalizers the object lists.
func PatchResource[P Object](primary P) UpdateControl[P] {
	return UpdateControl[P]{object: primary, resource: true}
}

// PatchResourceAndStatus writes both, in this order: two requests, if both differ.
func PatchResourceAndStatus[P Object](primary P) UpdateControl[P] {
	return UpdateControl[P]{object: primary, resource: true, status: true}
}

// RescheduleAfter asks for a further run after d at the latest. It is kept when events lead to runs
// before, until one of them asks for another time. 0 or less is at once, as with Reschedule.
func (u UpdateControl[P]) RescheduleAfter(d time.Duration) UpdateControl[P] {
	u.rescheduleIn = max(0, d)
	u.reschedule = u.reschedule || d <= 0
	return u
}

// Reschedule asks for a further run at once. Reconcilers that rely on being triggered by their own
// writes, which do not trigger them here, are migrated with it. It goes together with RescheduleAfter: the run at
// once is one of those that come before.
//
// A primary whose every run asks for another one at once is slowed: after a few runs there are pauses, which grow to
// a second, until something else brings a run. The log names it.
func (u UpdateControl[P]) Reschedule() UpdateControl[P] {
	u.reschedule = true
	return u
}

// untyped is the same without the type of the primary.
func (u UpdateControl[P]) untyped() run.Update {
	return run.Update{Object: u.object, Resource: u.resource, Status: u.status, Reschedule: u.reschedule, RescheduleIn: u.rescheduleIn}
}

// DeleteControl says how Cleanup ended: one of [RemoveFinalizer], [KeepFinalizer] and [KeepFinalizerFor]. The zero value
// says nothing, and is a failure of the run: what is left behind by mistake could not be found again.
type DeleteControl struct{ says run.Deletion }

// RemoveFinalizer: everything is cleaned up, the primary may go.
func RemoveFinalizer() DeleteControl { return DeleteControl{run.Deletion{Kind: run.RemovesFinalizer}} }

// KeepFinalizer: not everything is gone yet; Cleanup runs again when a secondary changes.
func KeepFinalizer() DeleteControl { return DeleteControl{run.Deletion{Kind: run.KeepsFinalizer}} }

// KeepFinalizerFor keeps the finalizer and runs Cleanup again after d at the latest; 0 or less is at once.
func KeepFinalizerFor(d time.Duration) DeleteControl {
	return DeleteControl{run.Deletion{Kind: run.KeepsFinalizer, Reschedule: d <= 0, RescheduleIn: max(0, d)}}
}

// ErrorStatusControl says what follows a failed Reconcile. The zero value writes nothing, logs the
// error and retries it as the policy grants.
type ErrorStatusControl[P Object] struct {
	object       P
	status       bool
	noRetry      bool
	reschedule   bool
	rescheduleIn time.Duration
}

// PatchErrorStatus writes the status of the primary in the way described at [PatchStatus]; the run
// is retried all the same. Nothing is written to a primary that is gone.
func PatchErrorStatus[P Object](primary P) ErrorStatusControl[P] {
	return ErrorStatusControl[P]{object: primary, status: true}
}

// WithoutRetry treats the run as if it had succeeded: attempts are reset and the error is only
// logged at V(1).
func (e ErrorStatusControl[P]) WithoutRetry() ErrorStatusControl[P] {
	e.noRetry = true
	return e
}

// RescheduleAfter replaces the retry by a run after d at the latest; 0 or less is at once.
func (e ErrorStatusControl[P]) RescheduleAfter(d time.Duration) ErrorStatusControl[P] {
	e.noRetry, e.reschedule, e.rescheduleIn = true, d <= 0, max(0, d)
	return e
}

// untyped is the same without the type of the primary.
func (e ErrorStatusControl[P]) untyped() run.ErrorStatus {
	return run.ErrorStatus{Object: e.object, Status: e.status, NoRetry: e.noRetry, Reschedule: e.reschedule, RescheduleIn: e.rescheduleIn}
}
