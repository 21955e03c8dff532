package ready

import (
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/framework/workflow"
)

// Pod is met by a Pod that is ready. A Pod that has ended, successfully or not, is stalled, because
// it will not become ready again. The reason says why it is not scheduled, or why a container
// waits.
func Pod(p *corev1.Pod) workflow.Verdict {
	switch {
	case p == nil:
		return nonexistent()
	case p.DeletionTimestamp != nil:
		return leaving()
	case p.Status.Phase == corev1.PodSucceeded:
		return workflow.Stalled("has completed")
	case p.Status.Phase == corev1.PodFailed:
		return workflow.Stalled("has failed" + because(p.Status.Reason, p.Status.Message))
	}
	for _, c := range p.Status.Conditions {
		switch {
		case c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue:
			return met("is ready")
		case c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse:
			return workflow.NotMet("is not scheduled" + because(c.Reason, c.Message))
		}
	}
	for _, container := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if waiting := container.State.Waiting; waiting != nil && waiting.Reason != "" && waiting.Reason != "PodInitializing" && waiting.Reason != "ContainerCreating" {
			return workflow.NotMet("container " + container.Name + " waits" + because(waiting.Reason, waiting.Message))
		}
	}
	return workflow.NotMet("is not ready")
}

// Job is met by a Job that has completed. A Job that has failed, or is certain to fail, is stalled,
// because it does not try again. A suspended Job does not meet it.
func Job(j *batchv1.Job) workflow.Verdict {
	switch {
	case j == nil:
		return nonexistent()
	case j.DeletionTimestamp != nil:
		return leaving()
	}
	if c := jobCondition(j, batchv1.JobFailed, batchv1.JobFailureTarget); c != nil {
		return workflow.Stalled("has failed" + because(c.Reason, c.Message))
	}
	switch wanted, now := j.Spec.Completions, j.Status; {
	case jobCondition(j, batchv1.JobComplete) != nil:
		return met("has completed")
	case j.Spec.Suspend != nil && *j.Spec.Suspend:
		return workflow.NotMet("is suspended")
	case wanted == nil: // a work queue: only the Pods know when it is empty
		return workflow.NotMet("%d Pods have succeeded, %d are active", now.Succeeded, now.Active)
	default:
		return workflow.NotMet("%d of %d Pods have succeeded", now.Succeeded, *wanted)
	}
}

// jobUnderWay is the rule of Current: a Job that runs, or is suspended on purpose, is as it should
// be.
func jobUnderWay(j *batchv1.Job) workflow.Verdict {
	v := Job(j)
	switch suspended := j.Spec.Suspend != nil && *j.Spec.Suspend; {
	case v.Met || v.Stalled || j.DeletionTimestamp != nil:
		return v
	case suspended || j.Status.StartTime != nil:
		return met("%s", v.Reason)
	}
	return workflow.NotMet("has not started yet")
}

// jobCondition returns the first of some conditions that is true, or nil.
func jobCondition(j *batchv1.Job, kinds ...batchv1.JobConditionType) *batchv1.JobCondition {
	for i, c := range j.Status.Conditions {
		if c.Status == corev1.ConditionTrue && slices.Contains(kinds, c.Type) {
			return &j.Status.Conditions[i]
		}
	}
	return nil
}

// PersistentVolumeClaim is met by a claim that is bound. A claim that has lost its volume is
// stalled. With a storage class that waits for the first consumer, a claim is bound only once a Pod
// uses it: then the node of the Pod must not wait for the claim.
func PersistentVolumeClaim(c *corev1.PersistentVolumeClaim) workflow.Verdict {
	switch {
	case c == nil:
		return nonexistent()
	case c.DeletionTimestamp != nil:
		return leaving()
	case c.Status.Phase == corev1.ClaimBound:
		return met("is bound")
	case c.Status.Phase == corev1.ClaimLost:
		return workflow.Stalled("has lost its volume %s", c.Spec.VolumeName)
	}
	return workflow.NotMet("is not bound")
}

// serviceReachable is the rule of Current.
func serviceReachable(s *corev1.Service) workflow.Verdict {
	if s.Spec.Type == corev1.ServiceTypeLoadBalancer && len(s.Spec.ExternalIPs) == 0 && len(s.Status.LoadBalancer.Ingress) == 0 {
		return workflow.NotMet("has no address of a load balancer yet")
	}
	return workflow.Met()
}

// because returns the reason and the message, as far as they exist, to append to a text.
func because(reason, message string) string {
	var text strings.Builder
	for _, part := range []string{reason, message} {
		if part != "" {
			text.WriteString(": " + part)
		}
	}
	return text.String()
}
