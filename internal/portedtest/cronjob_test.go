package portedtest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/framework"
)

// cronJobs reconciles CronJobs as kubebuilder's cronjob_controller.go does: it writes the status,
// removes old Jobs, and then creates the Job that is due. Faithful are
//
//   - that the status is made of the Jobs that there are, so that the last scheduled time is that
//     of the newest Job, or none;
//   - that Jobs are named after their scheduled time;
//   - that the status is written in each run, changed or not;
//   - that a schedule without sense, and failures to delete old Jobs, are not retried.
type cronJobs struct {
	jobs framework.Secondary[*batchv1.Job]
	// mended says that the last scheduled time in the status never goes back, and that a status
	// that is as it was is not written.
	mended bool
}

type (
	cronContext = framework.Context[*CronJob]
	cronUpdate  = framework.UpdateControl[*CronJob]
)

const (
	scheduledAt  = "batch.tutorial.kubebuilder.io/scheduled-at"
	mostStarts   = 100
	policyForbid = "Forbid"
)

func registerCronJobs(mended bool) func(*framework.Operator) error {
	return func(op *framework.Operator) error {
		r := &cronJobs{mended: mended}
		return framework.Register(op, r, framework.ControllerOptions[*CronJob]{Secondaries: framework.Secondaries(&r.jobs)})
	}
}

func (r *cronJobs) Reconcile(ctx context.Context, cron *CronJob, c *cronContext) (cronUpdate, error) {
	jobs, err := r.jobs.List(c)
	if err != nil {
		return cronUpdate{}, err
	}
	active, succeeded, failed := byState(jobs)
	before := cron.Status
	r.observe(cron, jobs, active)
	if !r.mended || !equality.Semantic.DeepEqual(before, cron.Status) {
		if _, err := framework.UpdateStatus(ctx, c, cron); err != nil {
			return cronUpdate{}, err
		}
	}
	removeOld(ctx, c, failed, cron.Spec.FailedJobsHistoryLimit)
	removeOld(ctx, c, succeeded, cron.Spec.SuccessfulJobsHistoryLimit)
	if cron.Spec.Suspend {
		return cronUpdate{}, nil
	}
	now := time.Now()
	missed, next, err := dueTimes(cron, now)
	if err != nil {
		return cronUpdate{}, nil // the original waits for another schedule
	}
	later := cronUpdate{}.RescheduleAfter(next.Sub(now))
	if missed.IsZero() || isTooLate(cron, missed, now) || cron.Spec.ConcurrencyPolicy == policyForbid && len(active) > 0 {
		return later, nil
	}
	if cron.Spec.ConcurrencyPolicy == "Replace" {
		for _, job := range active {
			if err := framework.Delete(ctx, c, job, framework.Propagation(metav1.DeletePropagationBackground)); err != nil {
				return cronUpdate{}, err
			}
		}
	}
	// The original relies on the event of its own Job, to write the status again.
	_, err = framework.Create(ctx, c, jobOf(cron, missed), framework.OwnedByPrimary(), framework.Unfiltered())
	if err != nil {
		return cronUpdate{}, err
	}
	return later, nil
}

// byState splits Jobs into those that run and those that ended.
func byState(jobs []*batchv1.Job) (active, succeeded, failed []*batchv1.Job) {
	slices.SortFunc(jobs, func(a, b *batchv1.Job) int { return strings.Compare(a.Name, b.Name) })
	for _, job := range jobs {
		switch ended(job) {
		case batchv1.JobComplete:
			succeeded = append(succeeded, job)
		case batchv1.JobFailed:
			failed = append(failed, job)
		default:
			active = append(active, job)
		}
	}
	return active, succeeded, failed
}

// ended returns how a Job ended, "" if it did not.
func ended(job *batchv1.Job) batchv1.JobConditionType {
	for _, condition := range job.Status.Conditions {
		if condition.Status == corev1.ConditionTrue && (condition.Type == batchv1.JobComplete || condition.Type == batchv1.JobFailed) {
			return condition.Type
		}
	}
	return ""
}

// observe makes the status of the Jobs that there are.
func (r *cronJobs) observe(cron *CronJob, jobs, active []*batchv1.Job) {
	var last time.Time
	if before := cron.Status.LastScheduleTime; r.mended && before != nil {
		last = before.Time
	}
	for _, job := range jobs {
		if at, err := time.Parse(time.RFC3339, job.Annotations[scheduledAt]); err == nil && at.After(last) {
			last = at
		}
	}
	cron.Status = CronJobStatus{}
	if !last.IsZero() {
		cron.Status.LastScheduleTime = &metav1.Time{Time: last}
	}
	for _, job := range active {
		cron.Status.Active = append(cron.Status.Active, corev1.ObjectReference{
			APIVersion: "batch/v1", Kind: "Job", Namespace: job.Namespace, Name: job.Name, UID: job.UID, ResourceVersion: job.ResourceVersion,
		})
	}
}

// removeOld deletes all but the newest Jobs, and ignores failures.
func removeOld(ctx context.Context, c *cronContext, jobs []*batchv1.Job, limit *int32) {
	if limit == nil {
		return
	}
	slices.SortStableFunc(jobs, func(a, b *batchv1.Job) int { return cmp.Compare(startOf(a), startOf(b)) })
	for _, job := range jobs[:max(0, len(jobs)-int(*limit))] {
		if err := framework.Delete(ctx, c, job, framework.Propagation(metav1.DeletePropagationBackground)); err != nil {
			c.Logger().Info("cannot delete an old Job", "job", job.Name, "error", err.Error())
		}
	}
}

func startOf(job *batchv1.Job) int64 {
	if job.Status.StartTime == nil {
		return 0
	}
	return job.Status.StartTime.Unix()
}

func isTooLate(cron *CronJob, missed, now time.Time) bool {
	seconds := cron.Spec.StartingDeadlineSeconds
	return seconds != nil && missed.Add(time.Duration(*seconds)*time.Second).Before(now)
}

// dueTimes returns the last scheduled time for which there was no Job, and the next one.
func dueTimes(cron *CronJob, now time.Time) (missed, next time.Time, err error) {
	if _, err = following(cron.Spec.Schedule, now); err != nil {
		return missed, next, err
	}
	after := func(t time.Time) time.Time { t, _ = following(cron.Spec.Schedule, t); return t }
	earliest := cron.CreationTimestamp.Time
	if last := cron.Status.LastScheduleTime; last != nil {
		earliest = last.Time
	}
	if seconds := cron.Spec.StartingDeadlineSeconds; seconds != nil {
		if deadline := now.Add(-time.Duration(*seconds) * time.Second); deadline.After(earliest) {
			earliest = deadline
		}
	}
	starts := 0
	for t := after(earliest); !t.After(now); t = after(t) {
		missed = t
		if starts++; starts > mostStarts {
			return time.Time{}, time.Time{}, fmt.Errorf("more than %d starts were missed", mostStarts)
		}
	}
	return missed, after(now), nil
}

// following returns the next time of a schedule after t. Of cron's forms it knows two: "M * * * *",
// each hour at a minute, and "*/N * * * *", each N minutes.
func following(schedule string, t time.Time) (time.Time, error) {
	minute, rest, _ := strings.Cut(schedule, " ")
	step, each := strings.CutPrefix(minute, "*/")
	n, err := strconv.Atoi(step)
	if err != nil || rest != "* * * *" || n < 0 || n > 59 || each && n == 0 {
		return time.Time{}, fmt.Errorf("no schedule: %q", schedule)
	}
	for t = t.Truncate(time.Minute).Add(time.Minute); ; t = t.Add(time.Minute) {
		if m := t.Minute(); each && m%n == 0 || !each && m == n {
			return t, nil
		}
	}
}

// jobOf is the Job of a scheduled time.
func jobOf(cron *CronJob, at time.Time) *batchv1.Job {
	template := cron.Spec.JobTemplate.DeepCopy()
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Namespace: cron.Namespace, Name: jobName(cron.Name, at), Labels: template.Labels, Annotations: template.Annotations,
	}, Spec: template.Spec}
	if job.Annotations == nil {
		job.Annotations = map[string]string{}
	}
	job.Annotations[scheduledAt] = at.UTC().Format(time.RFC3339)
	return job
}

func jobName(cron string, at time.Time) string { return fmt.Sprintf("%s-%d", cron, at.Unix()) }
