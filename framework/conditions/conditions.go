package conditions

import (
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/framework/workflow"
	"github.com/evenkeel/evenkeel/internal/author"
)

// The condition types that tools such as kubectl wait and kstatus understand. Ready is always
// present; Reconciling and Stalled are present only while they are true.
const (
	Ready       = "Ready"
	Reconciling = "Reconciling"
	Stalled     = "Stalled"
)

// MarkReady sets Ready to true: the observed generation is reached.
func MarkReady(conditions *[]metav1.Condition, generation int64, reason, message string) {
	set(conditions, Ready, metav1.ConditionTrue, generation, reason, message)
	meta.RemoveStatusCondition(conditions, Reconciling)
	meta.RemoveStatusCondition(conditions, Stalled)
}

// MarkReconciling sets Ready to false and Reconciling to true: it is not reached yet, and will be
// without anybody's help.
func MarkReconciling(conditions *[]metav1.Condition, generation int64, reason, message string) {
	set(conditions, Ready, metav1.ConditionFalse, generation, reason, message)
	set(conditions, Reconciling, metav1.ConditionTrue, generation, reason, message)
	meta.RemoveStatusCondition(conditions, Stalled)
}

// MarkStalled sets Ready to false and Stalled to true: it will not be reached unless somebody does
// something, which message should name.
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

// MarkFailure shows an error: one that the API server repeats until somebody changes something
// (invalid, forbidden, too large) stalls the primary, and so does one that says so itself, by a method Stalls() bool of it or of
// what it wraps. Of several that are joined, one is enough. Any other leaves it reconciling.
func MarkFailure(conditions *[]metav1.Condition, generation int64, failure error) {
	if failure = author.Sound(failure); stalls(failure) {
		MarkStalled(conditions, generation, "Refused", author.Text(failure))
		return
	}
	MarkReconciling(conditions, generation, "Failing", author.Text(failure))
}

// stalls tells whether an error, or one of those that it joins, comes back until somebody changes something.
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

// saysSo asks an error of the author's whether it stalls. One that panics does not say so.
func saysSo(failure interface{ Stalls() bool }) (stalls bool) {
	author.Try(func() { stalls = failure.Stalls() })
	return stalls
}

// MarkWorkflow shows what a pass came to, with the node that decided as the reason: a node that failed stalls the primary if
// [MarkFailure] would, one that is not ready or not gone if its condition says so ([workflow.Stalled]). Anything else that is not
// as it should be leaves it reconciling, and so does a cleanup, even a complete one. A nil result changes nothing.
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

// MarkVerdict shows a verdict about an object, as package ready gives it, with its reason as the message: met is Ready, stalled
// is Stalled, and anything else is Reconciling. The reasons are Ready, Stalled and NotReady.
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

// StallError is the text of an error that comes back until somebody does something: [MarkFailure] stalls the primary for it.
type StallError string

func (e StallError) Error() string { return string(e) }

// Stalls is what [MarkFailure] asks.
func (StallError) Stalls() bool { return true }
