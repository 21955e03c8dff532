package portedtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/evenkeel/evenkeel/frameworktest"
	"github.com/evenkeel/evenkeel/internal/depth"
)

// cronScenario is the reconciler with a story. The story plays the controller of Jobs.
// It has no idle hours: what is due on the hour is written in them.
func cronScenario(mended bool, story func(w *frameworktest.World)) frameworktest.Scenario {
	points := slices.DeleteFunc(frameworktest.AllPoints(), func(p frameworktest.Point) bool { return p == frameworktest.Idle })
	return frameworktest.Scenario{
		Points: points,
		CRDs:   "testdata", Scheme: types, Register: registerCronJobs(mended), Cluster: frameworktest.Bare, Story: story, Always: sane,
	}
}

// sane is what users of a CronJob rely on.
func sane(v frameworktest.Version) error {
	ever := map[string]bool{}
	for _, job := range frameworktest.Ever[*batchv1.Job](v) {
		if at := job.Annotations[scheduledAt]; ever[at] {
			return fmt.Errorf("there were two Jobs for %s", at)
		} else {
			ever[at] = true
		}
	}
	for _, cron := range frameworktest.Objects[*CronJob](v) {
		active, _, _ := byState(slices.Clone(frameworktest.Objects[*batchv1.Job](v)))
		if cron.Spec.ConcurrencyPolicy == policyForbid && len(active) > 1 {
			return fmt.Errorf("%d Jobs are active", len(active))
		}
	}
	return nil
}

func cronOf(spec CronJobSpec) *CronJob {
	spec.JobTemplate.Spec.Template.Spec = corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "hello", Image: "busybox"}},
	}
	return &CronJob{ObjectMeta: metav1.ObjectMeta{Name: "hello"}, Spec: spec}
}

// midnight is when each life begins.
var midnight = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// waitUntil lets time pass until so long after midnight.
func waitUntil(w *frameworktest.World, d time.Duration) { w.Proceed(time.Until(midnight.Add(d))) }

// jobAt is the Job of a time after midnight, as far as its name goes.
func jobAt(d time.Duration) *batchv1.Job {
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: jobName("hello", midnight.Add(d))}}
}

func end(w *frameworktest.World, job *batchv1.Job, how batchv1.JobConditionType) {
	w.MergeStatus(job, fmt.Sprintf(`{"status":{"conditions":[{"type":%q,"status":"True"}]}}`, how))
}

func suspend(w *frameworktest.World, cron *CronJob) { w.Merge(cron, `{"spec":{"suspend":true}}`) }

// aDay is hours in the life of a CronJob: a Job completes, one keeps the next from starting, one is
// replaced, and one fails.
func aDay(w *frameworktest.World) {
	history := int32(1)
	cron := cronOf(CronJobSpec{Schedule: "0 * * * *", ConcurrencyPolicy: policyForbid, SuccessfulJobsHistoryLimit: &history})
	w.Create(cron)
	waitUntil(w, 70*time.Minute)
	end(w, jobAt(time.Hour), batchv1.JobComplete)
	waitUntil(w, 3*time.Hour+10*time.Minute) // that of two o'clock still runs
	end(w, jobAt(2*time.Hour), batchv1.JobComplete)
	waitUntil(w, 3*time.Hour+20*time.Minute) // that of three o'clock came late
	w.Merge(cron, `{"spec":{"concurrencyPolicy":"Replace"}}`)
	waitUntil(w, 4*time.Hour+10*time.Minute)
	end(w, jobAt(4*time.Hour), batchv1.JobFailed)
	suspend(w, cron)
	waitUntil(w, 5*time.Hour+10*time.Minute) // a run was asked for at five o'clock
}

// aBusyHalfHour is for random walks, which break things in the first twenty minutes. Which Jobs
// there are then depends on the faults, so that somebody tidies up in the end.
func aBusyHalfHour(w *frameworktest.World) {
	cron := cronOf(CronJobSpec{Schedule: "*/2 * * * *", ConcurrencyPolicy: policyForbid})
	w.Create(cron)
	jobs := kubernetes.NewForConfigOrDie(w.Config()).BatchV1().Jobs(w.Namespace)
	each := func(do func(job *batchv1.Job) error) {
		list, err := jobs.List(w.Ctx(), metav1.ListOptions{})
		if err != nil {
			w.Fatalf("list Jobs: %v", err)
		}
		for i := range list.Items {
			if err := do(&list.Items[i]); err != nil {
				w.Fatalf("Job %s: %v", list.Items[i].Name, err)
			}
		}
	}
	for time.Since(midnight) < 25*time.Minute {
		w.Proceed(50 * time.Second)
		each(func(job *batchv1.Job) error {
			if ended(job) == "" {
				end(w, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: job.Name}}, batchv1.JobComplete)
			}
			return nil
		})
	}
	suspend(w, cron)
	w.Proceed(10 * time.Minute)
	each(func(job *batchv1.Job) error { return jobs.Delete(w.Ctx(), job.Name, metav1.DeleteOptions{}) })
}

func TestACronJobComesThroughADay(t *testing.T) {
	for _, mended := range []bool{false, true} {
		t.Run(fmt.Sprintf("mended=%v", mended), func(t *testing.T) { frameworktest.Everywhere(t, cronScenario(mended, aDay)) })
	}
}

func TestACronJobComesThroughRandomWalks(t *testing.T) {
	for _, mended := range []bool{false, true} {
		t.Run(fmt.Sprintf("mended=%v", mended), func(t *testing.T) {
			frameworktest.Everywhere(t, cronScenario(mended, aBusyHalfHour).Random(depth.Of(5, 20, 100)))
		})
	}
}

// withoutHistory is a CronJob that keeps no completed Jobs.
func withoutHistory(w *frameworktest.World) {
	none := int32(0)
	cron := cronOf(CronJobSpec{Schedule: "0 * * * *", SuccessfulJobsHistoryLimit: &none})
	w.Create(cron)
	waitUntil(w, 70*time.Minute)
	end(w, jobAt(time.Hour), batchv1.JobComplete)
	waitUntil(w, 80*time.Minute)
	suspend(w, cron)
}

// TestTheTutorialRunsAJobAgain if it keeps no completed ones: the status forgets the scheduled time
// with the last Job that had it.
func TestTheTutorialRunsAJobAgain(t *testing.T) {
	found := cronScenario(false, withoutHistory).Explore(t).Findings()
	if len(found) != 1 || found[0].Point != "no-fault" || !strings.Contains(strings.Join(found[0].Failures, "\n"), "there were two Jobs for 2000-01-01T01:00:00Z") {
		t.Errorf("found %q", found)
	}
	frameworktest.Everywhere(t, cronScenario(true, withoutHistory))
}

// TestTheTutorialWritesAtRest: a run that finds everything as it was, here at the time for which
// one was asked before the suspension, sends the status again.
func TestTheTutorialWritesAtRest(t *testing.T) {
	story := func(w *frameworktest.World) {
		cron := cronOf(CronJobSpec{Schedule: "0 * * * *"})
		w.Create(cron)
		w.Rest()
		suspend(w, cron)
		w.Rest()
	}
	found := cronScenario(false, story).Explore(t).Findings()
	if len(found) != 1 || !strings.HasPrefix(found[0].Failures[0], "1 writes in 1h0m0s of rest, the first: update cronjobs") {
		t.Errorf("found %q", found)
	}
	frameworktest.Everywhere(t, cronScenario(true, story))
}
