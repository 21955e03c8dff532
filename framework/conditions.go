package framework

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The condition types that tools such as kubectl wait and kstatus understand. Ready is always
// present; Reconciling and Stalled are present only while they are true.
const (
	ConditionReady       = "Ready"
	ConditionReconciling = "Reconciling"
	ConditionStalled     = "Stalled"
)

// MarkReady sets Ready to true: the observed generation is reached.
func MarkReady(conditions *[]metav1.Condition, generation int64, reason, message string) {
	set(conditions, ConditionReady, metav1.ConditionTrue, generation, reason, message)
	meta.RemoveStatusCondition(conditions, ConditionReconciling)
	meta.RemoveStatusCondition(conditions, ConditionStalled)
}

// MarkReconciling sets Ready to false and Reconciling to true: it is not reached yet, and will be
// without anybody's help.
func MarkReconciling(conditions *[]metav1.Condition, generation int64, reason, message string) {
	set(conditions, ConditionReady, metav1.ConditionFalse, generation, reason, message)
	set(conditions, ConditionReconciling, metav1.ConditionTrue, generation, reason, message)
	meta.RemoveStatusCondition(conditions, ConditionStalled)
}

// MarkStalled sets Ready to false and Stalled to true: it will not be reached unless somebody does
// something, which message should name.
func MarkStalled(conditions *[]metav1.Condition, generation int64, reason, message string) {
	set(conditions, ConditionReady, metav1.ConditionFalse, generation, reason, message)
	set(conditions, ConditionStalled, metav1.ConditionTrue, generation, reason, message)
	meta.RemoveStatusCondition(conditions, ConditionReconciling)
}

func set(conditions *[]metav1.Condition, kind string, status metav1.ConditionStatus, generation int64, reason, message string) {
	meta.SetStatusCondition(conditions, metav1.Condition{
		Type: kind, Status: status, ObservedGeneration: generation, Reason: reason, Message: message,
	})
}

// MarkFailure shows an error: one that the API server repeats until somebody changes something
// (invalid, forbidden, too large) stalls the primary, any other leaves it reconciling.
func MarkFailure(conditions *[]metav1.Condition, generation int64, failure error) {
	if apierrors.IsInvalid(failure) || apierrors.IsForbidden(failure) || apierrors.IsRequestEntityTooLargeError(failure) {
		MarkStalled(conditions, generation, "Refused", failure.Error())
		return
	}
	MarkReconciling(conditions, generation, "Failing", failure.Error())
}

// MarkRollout shows how far a Deployment is, by the rules of kubectl rollout status. A nil Deployment
// does not exist yet.
func MarkRollout(conditions *[]metav1.Condition, generation int64, d *appsv1.Deployment) {
	if d == nil {
		MarkReconciling(conditions, generation, "Creating", "the Deployment does not exist yet")
		return
	}
	wanted, s := int32(1), d.Status
	if d.Spec.Replicas != nil {
		wanted = *d.Spec.Replicas
	}
	observed := s.ObservedGeneration >= d.Generation
	switch {
	case observed && progressFailed(s):
		MarkStalled(conditions, generation, "DeploymentStuck", "the Deployment makes no progress: see its Pods")
	case observed && s.UpdatedReplicas == wanted && s.Replicas == wanted && s.AvailableReplicas == wanted:
		MarkReady(conditions, generation, "Available", fmt.Sprintf("%d of %d replicas are available", wanted, wanted))
	default:
		MarkReconciling(conditions, generation, "RollingOut", fmt.Sprintf("%d of %d replicas are up to date and available",
			min(s.UpdatedReplicas, s.AvailableReplicas), wanted))
	}
}

func progressFailed(s appsv1.DeploymentStatus) bool {
	for _, c := range s.Conditions {
		if c.Type == appsv1.DeploymentProgressing {
			return c.Status == corev1.ConditionFalse
		}
	}
	return false
}
