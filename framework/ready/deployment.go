package ready

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/framework/workflow"
)

// Deployment is met by a Deployment that is rolled out and available, by the rules of kubectl
// rollout status. Its controller has observed the present generation, all replicas have the present
// template and are available, and none with another template is left. A Deployment that has
// exceeded its progress deadline is stalled, and so is one that is paused during a rollout; one
// that is only scaled while it is paused is not. A Deployment that does not exist, or is being
// deleted, is not available.
func Deployment(d *appsv1.Deployment) workflow.Verdict {
	switch {
	case d == nil:
		return workflow.NotMet("does not exist yet")
	case d.DeletionTimestamp != nil:
		return workflow.NotMet("is being deleted")
	}
	wanted, s := replicas(d), d.Status
	if s.ObservedGeneration < d.Generation {
		return rolling(0, wanted)
	}
	switch failure := progressFailure(s); {
	case failure != nil && failure.Message != "":
		return workflow.Stalled("%s: %s", failure.Reason, failure.Message)
	case failure != nil:
		return workflow.Stalled("see its Pods")
	case s.UpdatedReplicas < wanted && d.Spec.Paused && s.Replicas >= wanted:
		return workflow.Stalled("paused: %d of %d replicas are up to date", s.UpdatedReplicas, wanted)
	case s.UpdatedReplicas < wanted:
		return rolling(min(s.UpdatedReplicas, s.AvailableReplicas), wanted)
	case s.Replicas > wanted:
		return workflow.NotMet("%d replicas too many are not gone yet", s.Replicas-wanted)
	case s.AvailableReplicas < wanted:
		return rolling(s.AvailableReplicas, wanted)
	}
	return workflow.Verdict{Met: true, Reason: fmt.Sprintf("%d of %d replicas are available", wanted, wanted)}
}

// rolling returns the same text for all these cases, because each different text is another write
// if it is copied to a status.
func rolling(done, wanted int32) workflow.Verdict {
	return workflow.NotMet("%d of %d replicas are up to date and available", done, wanted)
}

// replicas returns the desired number of replicas.
func replicas(d *appsv1.Deployment) int32 {
	if d.Spec.Replicas == nil {
		return 1
	}
	return *d.Spec.Replicas
}

// progressFailure returns why the present rollout makes no progress, or nil.
func progressFailure(s appsv1.DeploymentStatus) *appsv1.DeploymentCondition {
	for i, c := range s.Conditions {
		if c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionFalse {
			return &s.Conditions[i]
		}
	}
	return nil
}
