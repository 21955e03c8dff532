package actors

import (
	"context"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// jobs runs Pods until enough of them succeeded or too many failed. It knows neither indexes nor
// policies for failures, starts Pods again without a delay, and does not track Pods by finalizers.
type jobs struct{ workload }

func (j jobs) act(ctx context.Context, of id, o *unstructured.Unstructured) (time.Duration, error) {
	if o == nil {
		return 0, nil
	}
	job, err := typedAs[batchv1.Job](j.state, o)
	if err != nil {
		return 0, err
	}
	if job.DeletionTimestamp != nil {
		return 0, nil
	}
	if finished := finishedAt(job); !finished.IsZero() {
		return j.expire(ctx, of, job, finished)
	}
	all := j.podsOf(job.UID)
	active := all.that(isActive)
	status := job.Status.DeepCopy()
	status.Succeeded = countOf(all.that(func(p *unstructured.Unstructured) bool { return phaseOf(p) == corev1.PodSucceeded }))
	status.Failed = countOf(all.that(func(p *unstructured.Unstructured) bool { return phaseOf(p) == corev1.PodFailed }))
	status.Active, status.Ready = countOf(active), ptr.To(countOf(active.that(isReady)))
	status.Terminating = ptr.To(countOf(all.that(isTerminating)))
	status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{}
	if suspended := ptr.Deref(job.Spec.Suspend, false); suspended {
		return 0, j.suspend(ctx, of, o, job, status, active)
	}
	if status.StartTime == nil {
		status.StartTime = ptr.To(metav1.Now().Rfc3339Copy())
	}
	missing := j.finish(job, status)
	switch {
	case missing < 0:
		if err := j.removePods(ctx, active.worstFirst()[:min(-missing, len(active))]); err != nil {
			return 0, err
		}
	default:
		for range missing {
			if err := j.newPod(ctx, o, "", job.Spec.Template, nil); err != nil {
				return 0, err
			}
		}
	}
	return 0, j.writeStatus(ctx, of, o, job.Status, status)
}

// finish says how many Pods are missing, or ends the Job.
func (j jobs) finish(job *batchv1.Job, status *batchv1.JobStatus) (missing int) {
	wanted, parallel := int(ptr.Deref(job.Spec.Completions, 1)), int(ptr.Deref(job.Spec.Parallelism, 1))
	if job.Spec.Completions == nil { // one that succeeds is enough, once all have ended
		if status.Succeeded > 0 {
			parallel = 0
		}
		wanted = int(status.Succeeded) + parallel
	}
	switch {
	case status.Failed > ptr.Deref(job.Spec.BackoffLimit, 6):
		setFinished(status, batchv1.JobFailureTarget, batchv1.JobFailed, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
		return -int(status.Active)
	case int(status.Succeeded) >= wanted && (status.Active == 0 || job.Spec.Completions != nil):
		setFinished(status, batchv1.JobSuccessCriteriaMet, batchv1.JobComplete, "CompletionsReached", "Reached expected number of succeeded pods")
		status.CompletionTime = ptr.To(metav1.Now().Rfc3339Copy())
		return -int(status.Active)
	}
	return min(parallel, wanted-int(status.Succeeded)) - int(status.Active)
}

func setFinished(status *batchv1.JobStatus, first, last batchv1.JobConditionType, reason, message string) {
	now := metav1.Now().Rfc3339Copy()
	for _, kind := range []batchv1.JobConditionType{first, last} {
		status.Conditions = append(status.Conditions, batchv1.JobCondition{
			Type: kind, Status: corev1.ConditionTrue, Reason: reason, Message: message, LastProbeTime: now, LastTransitionTime: now,
		})
	}
	status.Active, status.Ready = 0, ptr.To[int32](0)
}

func finishedAt(job *batchv1.Job) time.Time {
	i := slices.IndexFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue
	})
	if i < 0 {
		return time.Time{}
	}
	return job.Status.Conditions[i].LastTransitionTime.Time
}

func (j jobs) suspend(ctx context.Context, of id, o *unstructured.Unstructured, job *batchv1.Job, status *batchv1.JobStatus, active pods) error {
	if err := j.removePods(ctx, active); err != nil {
		return err
	}
	status.StartTime = nil
	isSuspended := func(c batchv1.JobCondition) bool { return c.Type == batchv1.JobSuspended }
	if !slices.ContainsFunc(status.Conditions, isSuspended) {
		now := metav1.Now().Rfc3339Copy()
		status.Conditions = append(status.Conditions, batchv1.JobCondition{
			Type: batchv1.JobSuspended, Status: corev1.ConditionTrue, Reason: "JobSuspended", Message: "Job suspended", LastProbeTime: now, LastTransitionTime: now,
		})
	}
	return j.writeStatus(ctx, of, o, job.Status, status)
}

// expire deletes a Job some time after its end, if it says so.
func (j jobs) expire(ctx context.Context, of id, job *batchv1.Job, finished time.Time) (time.Duration, error) {
	ttl := job.Spec.TTLSecondsAfterFinished
	if ttl == nil {
		return 0, nil
	}
	if left := time.Until(finished.Add(time.Duration(*ttl) * time.Second)); left > 0 {
		return left, nil
	}
	return 0, j.remove(ctx, manager, of, metav1.DeleteOptions{
		PropagationPolicy: ptr.To(metav1.DeletePropagationForeground), Preconditions: &metav1.Preconditions{UID: ptr.To(types.UID(job.UID))},
	})
}
