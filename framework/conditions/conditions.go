package conditions

import (
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/framework/workflow"
	"github.com/evenkeel/evenkeel/internal/author"
)

// These condition types are understood by tools such as kubectl wait and kstatus. Ready is always
// present; Reconciling and Stalled are present only while they are true.
const (
	Ready       = "Ready"
	Reconciling = "Reconciling"
	Stalled     = "Stalled"
)

// Paused is the condition that the framework itself sets on a paused primary, and removes after the
// pause: see framework.Paused.
const Paused = "Paused"

// MarkReady sets Ready to true: the generation is reached.
func MarkReady(conditions *[]metav1.Condition, generation int64, reason, message string) {
	set(conditions, Ready, metav1.ConditionTrue, generation, reason, message)
	meta.RemoveStatusCondition(conditions, Reconciling)
	meta.RemoveStatusCondition(conditions, Stalled)
}

// MarkReconciling sets Ready to false and Reconciling to true: the generation is not reached yet,
// and nobody needs to intervene.
func MarkReconciling(conditions *[]metav1.Condition, generation int64, reason, message string) {
	set(conditions, Ready, metav1.ConditionFalse, generation, reason, message)
	set(conditions, Reconciling, metav1.ConditionTrue, generation, reason, message)
	meta.RemoveStatusCondition(conditions, Stalled)
}

// MarkStalled sets Ready to false and Stalled to true: the generation will not be reached unless
// somebody intervenes. The message should say how.
func MarkStalled(conditions *[]metav1.Condition, generation int64, reason, message string) {
	set(conditions, Ready, metav1.ConditionFalse, generation, reason, message)
	set(conditions, Stalled, metav1.ConditionTrue, generation, reason, message)
	meta.RemoveStatusCondition(conditions, Reconciling)
}

func set(conditions *[]metav1.Condition, kind string, status metav1.ConditionStatus, generation int64, reason, message string) {
	meta.SetStatusCondition(conditions, metav1.Condition{
		Type: kind, Status: status, ObservedGeneration: generation, Reason: reason, Message: message,
	})
}

// MarkFailure marks the primary as stalled or reconciling because of an error. It is stalled if the
// API server would repeat the error until somebody changes something (invalid, forbidden, too
// large), or if the error, or one that it wraps, has a method Stalls() bool that returns true. Of
// several joined errors, one is enough. Any other error leaves the primary reconciling.
func MarkFailure(conditions *[]metav1.Condition, generation int64, failure error) {
	if failure = author.Sound(failure); stalls(failure) {
		MarkStalled(conditions, generation, "Refused", author.Text(failure))
		return
	}
	MarkReconciling(conditions, generation, "Failing", author.Text(failure))
}

// stalls reports whether an error, or one of those that it joins, recurs until somebody changes
// something.
func stalls(failure error) bool {
	if says, self := failure.(interface{ Stalls() bool }); self && saysSo(says) {
		return true
	}
	switch failure := failure.(type) {
	case apierrors.APIStatus:
		refusal := failure.(error)
		return apierrors.IsInvalid(refusal) || apierrors.IsForbidden(refusal) || apierrors.IsRequestEntityTooLargeError(refusal)
	case interface{ Unwrap() error }:
		return stalls(failure.Unwrap())
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(failure.Unwrap(), stalls)
	}
	return false
}

// saysSo returns the result of an author's Stalls method, and false if it panics.
func saysSo(failure interface{ Stalls() bool }) (stalls bool) {
	author.Try(func() { stalls = failure.Stalls() })
	return stalls
}

// MarkWorkflow marks the primary according to the result of a workflow run. The node that decided
// the result is the reason. A node that failed stalls the primary if [MarkFailure] would. A node
// that is not ready or not gone stalls it if its condition says so ([workflow.Stalled]). Anything
// else that is not as it should be leaves it reconciling, and so does every cleanup, even a
// complete one. A nil result changes nothing.
func MarkWorkflow(conditions *[]metav1.Condition, generation int64, result *workflow.Result) {
	if result == nil {
		return
	}
	mark := MarkReconciling
	summary := result.Summary(stalls)
	switch {
	case summary.Stage == workflow.StageStalled:
		mark = MarkStalled
	case summary.Stage == workflow.StageReady && result.Pass == workflow.Reconciling:
		mark = MarkReady
	}
	mark(conditions, generation, summary.Reason, summary.Message)
}

// MarkVerdict marks the primary according to a verdict about an object, as package ready returns
// it, with its reason as the message. A met verdict is Ready, a stalled one Stalled, and any other
// Reconciling. The reasons are Ready, Stalled and NotReady.
func MarkVerdict(conditions *[]metav1.Condition, generation int64, v workflow.Verdict) {
	switch {
	case v.Met:
		MarkReady(conditions, generation, "Ready", v.Reason)
	case v.Stalled:
		MarkStalled(conditions, generation, "Stalled", v.Reason)
	default:
		MarkReconciling(conditions, generation, "NotReady", v.Reason)
	}
}

// StallError is the text of an error that recurs until somebody intervenes: [MarkFailure] marks the
// primary as stalled.
type StallError string

func (e StallError) Error() string { return string(e) }

// Stalls returns true; see [MarkFailure].
func (StallError) Stalls() bool { return true }
