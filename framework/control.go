package framework

import (
	"time"

	"github.com/evenkeel/evenkeel/framework/internal/run"
)

// UpdateControl is the result of Reconcile: what to write to the primary, and when to run again.
// The zero value writes nothing and asks for no further run.
type UpdateControl[P Object] struct {
	object       P
	resource     bool
	status       bool
	reschedule   bool
	rescheduleIn time.Duration
}

// NoUpdate writes nothing to the primary. It returns the zero value, for code that prefers to be
// explicit.
func NoUpdate[P Object]() UpdateControl[P] { return UpdateControl[P]{} }

// PatchStatus writes the status of the primary. [ControllerOptions.PrimaryWrites] decides how:
//
//   - By patch (the default), with the primary that Reconcile received, changed in place: the
//     difference to the status that it was read with is sent, removals included.
//   - By patch, with a fresh object (one without a UID): the fields that it sets are sent, and no
//     field is removed. Lists are replaced as a whole. A Go field without omitempty is always set.
//   - By apply: pass a fresh object with exactly the fields that the controller wants to own.
//
// If nothing differs, nothing is sent. If the kind has no status subresource, the status is written
// with the resource. An apply of the status alone is refused for such a kind, because it would give
// up the other fields.
func PatchStatus[P Object](primary P) UpdateControl[P] {
	return UpdateControl[P]{object: primary, status: true}
}

// PatchResource writes metadata and spec of the primary, in the way described at [PatchStatus]. It
// never removes the finalizer of a [Cleaner], whatever finalizers the object lists.
func PatchResource[P Object](primary P) UpdateControl[P] {
	return UpdateControl[P]{object: primary, resource: true}
}

// PatchResourceAndStatus writes the resource, then the status. It sends two requests if both
// differ.
func PatchResourceAndStatus[P Object](primary P) UpdateControl[P] {
	return UpdateControl[P]{object: primary, resource: true, status: true}
}

// RescheduleAfter asks for a further run after d at the latest. The request stays in force when
// events cause earlier runs, until one of these asks for another time. 0 or less means at once, as
// with [UpdateControl.Reschedule].
func (u UpdateControl[P]) RescheduleAfter(d time.Duration) UpdateControl[P] {
	u.rescheduleIn = max(0, d)
	u.reschedule = u.reschedule || d <= 0
	return u
}

// Reschedule asks for a further run at once. It helps to migrate reconcilers that rely on being
// triggered by their own writes, because own writes trigger nothing here. It can be combined with
// [UpdateControl.RescheduleAfter]: the run at once is one of the earlier runs.
//
// A primary is slowed down if each of its runs asks for another one at once. After a few runs there
// are pauses, which grow to a second, until something else causes a run. The log names the primary.
func (u UpdateControl[P]) Reschedule() UpdateControl[P] {
	u.reschedule = true
	return u
}

// untyped returns the same without the primary's type.
func (u UpdateControl[P]) untyped() run.Update {
	return run.Update{Object: u.object, Resource: u.resource, Status: u.status, Reschedule: u.reschedule, RescheduleIn: u.rescheduleIn}
}

// DeleteControl is the result of Cleanup: one of [RemoveFinalizer], [KeepFinalizer] and
// [KeepFinalizerFor]. The zero value is an error, and fails the run: otherwise a forgotten decision
// could leave something behind that nobody finds again.
type DeleteControl struct{ says run.Deletion }

// RemoveFinalizer removes the finalizer: everything is cleaned up, and the primary may go.
func RemoveFinalizer() DeleteControl { return DeleteControl{run.Deletion{Kind: run.RemovesFinalizer}} }

// KeepFinalizer keeps the finalizer: not everything is gone yet. Cleanup runs again when a
// secondary changes.
func KeepFinalizer() DeleteControl { return DeleteControl{run.Deletion{Kind: run.KeepsFinalizer}} }

// KeepFinalizerFor keeps the finalizer and runs Cleanup again after d at the latest. 0 or less
// means at once.
func KeepFinalizerFor(d time.Duration) DeleteControl {
	return DeleteControl{run.Deletion{Kind: run.KeepsFinalizer, Reschedule: d <= 0, RescheduleIn: max(0, d)}}
}

// ErrorStatusControl is the result of ErrorStatus: what follows a failed Reconcile. The zero value
// writes nothing, logs the error, and retries as the policy allows.
type ErrorStatusControl[P Object] struct {
	object       P
	status       bool
	noRetry      bool
	reschedule   bool
	rescheduleIn time.Duration
}

// PatchErrorStatus writes the status of the primary in the way described at [PatchStatus]. The run
// is still retried. Nothing is written to a primary that is gone.
func PatchErrorStatus[P Object](primary P) ErrorStatusControl[P] {
	return ErrorStatusControl[P]{object: primary, status: true}
}

// WithoutRetry treats the run as a success: attempts are reset, and the error is logged at V(1)
// only.
func (e ErrorStatusControl[P]) WithoutRetry() ErrorStatusControl[P] {
	e.noRetry = true
	return e
}

// RescheduleAfter replaces the retry by a run after d at the latest. 0 or less means at once.
func (e ErrorStatusControl[P]) RescheduleAfter(d time.Duration) ErrorStatusControl[P] {
	e.noRetry, e.reschedule, e.rescheduleIn = true, d <= 0, max(0, d)
	return e
}

// untyped returns the same without the primary's type.
func (e ErrorStatusControl[P]) untyped() run.ErrorStatus {
	return run.ErrorStatus{Object: e.object, Status: e.status, NoRetry: e.noRetry, Reschedule: e.reschedule, RescheduleIn: e.rescheduleIn}
}
