package ready_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/framework/conditions"
	"github.com/evenkeel/evenkeel/framework/ready"
	"github.com/evenkeel/evenkeel/framework/workflow"
)

// condition is a row of a table: an object and its verdict. want is "met", "not met" or "stalled",
// with the reason.
type condition[S any] struct {
	name   string
	object S
	want   string
}

func said(v workflow.Verdict) string {
	switch {
	case v.Met && v.Stalled:
		return "both"
	case v.Met:
		return "met: " + v.Reason
	case v.Stalled:
		return "stalled: " + v.Reason
	}
	return "not met: " + v.Reason
}

func checkRows[S any](t *testing.T, ask func(S) workflow.Verdict, rows []condition[S]) {
	t.Helper()
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			if got := said(ask(row.object)); got != row.want {
				t.Errorf("says %q, want %q", got, row.want)
			}
		})
	}
}

// second is the metadata of an object in its second generation.
var second = metav1.ObjectMeta{Name: "x", Generation: 2}

func deleted(meta metav1.ObjectMeta) metav1.ObjectMeta {
	meta.DeletionTimestamp = ptr.To(metav1.Now())
	return meta
}

func TestC102Deployment(t *testing.T) {
	checkRows(t, ready.Deployment, deployments)
	t.Run("MarkVerdict shows the same rule", func(t *testing.T) {
		for _, row := range deployments {
			var conds []metav1.Condition
			conditions.MarkVerdict(&conds, 1, ready.Deployment(row.object))
			v := ready.Deployment(row.object)
			for _, c := range conds {
				if want := map[string]bool{"Ready": v.Met, "Stalled": v.Stalled, "Reconciling": !v.Met && !v.Stalled}[c.Type]; want != (c.Status == "True") {
					t.Errorf("%s: %s is %s", row.name, c.Type, c.Status)
				}
			}
		}
	})
}

func deployment(replicas *int32, status appsv1.DeploymentStatus, change ...func(*appsv1.Deployment)) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: second, Spec: appsv1.DeploymentSpec{Replicas: replicas}, Status: status}
	d.Status.ObservedGeneration = 2
	for _, f := range change {
		f(d)
	}
	return d
}

func paused(d *appsv1.Deployment) { d.Spec.Paused = true }

var (
	three       = ptr.To[int32](3)
	deployments = []condition[*appsv1.Deployment]{
		{"nil does not exist", nil, "not met: does not exist yet"},
		{
			"all replicas of the present template are available",
			deployment(three, appsv1.DeploymentStatus{Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 3}), "met: 3 of 3 replicas are available",
		},
		{"zero replicas are wanted and there", deployment(ptr.To[int32](0), appsv1.DeploymentStatus{}), "met: 0 of 0 replicas are available"},
		{
			"zero replicas are wanted and one is left",
			deployment(ptr.To[int32](0), appsv1.DeploymentStatus{Replicas: 1, AvailableReplicas: 1}), "not met: 1 replicas too many are not gone yet",
		},
		{"no number of replicas is one", deployment(nil, appsv1.DeploymentStatus{}), "not met: 0 of 1 replicas are up to date and available"},
		{
			"one of three is available", deployment(three, appsv1.DeploymentStatus{Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 1}),
			"not met: 1 of 3 replicas are up to date and available",
		},
		{
			"one of three is of the present template", deployment(three, appsv1.DeploymentStatus{Replicas: 3, UpdatedReplicas: 1, AvailableReplicas: 3}),
			"not met: 1 of 3 replicas are up to date and available",
		},
		{
			"old replicas are left", deployment(three, appsv1.DeploymentStatus{Replicas: 4, UpdatedReplicas: 3, AvailableReplicas: 4}),
			"not met: 1 replicas too many are not gone yet",
		},
		{
			"the present generation is not observed",
			deployment(three, appsv1.DeploymentStatus{Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 3}, func(d *appsv1.Deployment) { d.Generation = 3 }),
			"not met: 0 of 3 replicas are up to date and available",
		},
		{
			"the progress deadline is exceeded", deployment(three, appsv1.DeploymentStatus{Conditions: []appsv1.DeploymentCondition{{
				Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded", Message: "too slow",
			}}}), "stalled: ProgressDeadlineExceeded: too slow",
		},
		{
			"the progress deadline of another generation was exceeded", deployment(three, appsv1.DeploymentStatus{Conditions: []appsv1.DeploymentCondition{{
				Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded", Message: "too slow",
			}}}, func(d *appsv1.Deployment) { d.Generation = 3 }), "not met: 0 of 3 replicas are up to date and available",
		},
		{
			"it progresses", deployment(three, appsv1.DeploymentStatus{Replicas: 3, UpdatedReplicas: 2, Conditions: []appsv1.DeploymentCondition{{
				Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue,
			}}}), "not met: 0 of 3 replicas are up to date and available",
		},
		{
			"it is paused on its way", deployment(three, appsv1.DeploymentStatus{Replicas: 3, UpdatedReplicas: 1, AvailableReplicas: 3}, paused),
			"stalled: paused: 1 of 3 replicas are up to date",
		},
		{
			"it is paused and scales", deployment(three, appsv1.DeploymentStatus{Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1}, paused),
			"not met: 1 of 3 replicas are up to date and available",
		},
		{
			"it is paused when all is done", deployment(three, appsv1.DeploymentStatus{Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 3}, paused),
			"met: 3 of 3 replicas are available",
		},
		{
			"it is being deleted",
			deployment(three, appsv1.DeploymentStatus{Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 3}, func(d *appsv1.Deployment) { d.ObjectMeta = deleted(second) }),
			"not met: is being deleted",
		},
	}
)

func statefulSet(status appsv1.StatefulSetStatus, change ...func(*appsv1.StatefulSet)) *appsv1.StatefulSet {
	s := &appsv1.StatefulSet{ObjectMeta: second, Spec: appsv1.StatefulSetSpec{Replicas: three}, Status: status}
	s.Status.ObservedGeneration = 2
	for _, f := range change {
		f(s)
	}
	return s
}

func TestC102StatefulSetReady(t *testing.T) {
	all := appsv1.StatefulSetStatus{Replicas: 3, ReadyReplicas: 3, UpdatedReplicas: 3, AvailableReplicas: 3}
	with := func(f func(*appsv1.StatefulSetStatus)) appsv1.StatefulSetStatus { s := all; f(&s); return s }
	partition := func(from int32) func(*appsv1.StatefulSet) {
		return func(s *appsv1.StatefulSet) {
			s.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: &from}
		}
	}
	checkRows(t, ready.StatefulSet, []condition[*appsv1.StatefulSet]{
		{"nil does not exist", nil, "not met: does not exist yet"},
		{"all replicas are ready and up to date", statefulSet(all), "met: 3 of 3 replicas are ready"},
		{"zero replicas are wanted", statefulSet(appsv1.StatefulSetStatus{}, func(s *appsv1.StatefulSet) { s.Spec.Replicas = ptr.To[int32](0) }), "met: 0 of 0 replicas are ready"},
		{"no number of replicas is one", statefulSet(appsv1.StatefulSetStatus{}, func(s *appsv1.StatefulSet) { s.Spec.Replicas = nil }), "not met: 0 of 1 replicas are up to date"},
		{"the present generation is not observed", statefulSet(all, func(s *appsv1.StatefulSet) { s.Generation = 3 }), "not met: generation 3 is not observed yet"},
		{"two of three are ready", statefulSet(with(func(s *appsv1.StatefulSetStatus) { s.ReadyReplicas = 2 })), "not met: 2 of 3 replicas are ready"},
		{"two of three are up to date", statefulSet(with(func(s *appsv1.StatefulSetStatus) { s.UpdatedReplicas = 2 })), "not met: 2 of 3 replicas are up to date"},
		{"one is too many", statefulSet(with(func(s *appsv1.StatefulSetStatus) { s.Replicas = 4 })), "not met: 1 replicas too many are not gone yet"},
		{
			"a partition leaves the others as they are",
			statefulSet(with(func(s *appsv1.StatefulSetStatus) { s.UpdatedReplicas = 1 }), partition(2)), "met: 3 of 3 replicas are ready",
		},
		{
			"a partition is not rolled out",
			statefulSet(with(func(s *appsv1.StatefulSetStatus) { s.UpdatedReplicas = 1 }), partition(1)), "not met: 1 of 2 replicas are up to date",
		},
		{
			"a partition beyond all replicas leaves all as they are",
			statefulSet(with(func(s *appsv1.StatefulSetStatus) { s.UpdatedReplicas = 0 }), partition(9)), "met: 3 of 3 replicas are ready",
		},
		{"with OnDelete, old Pods count", statefulSet(with(func(s *appsv1.StatefulSetStatus) { s.UpdatedReplicas = 0 }), func(s *appsv1.StatefulSet) {
			s.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType
		}), "met: 3 of 3 replicas are ready"},
		{"with minReadySeconds, ready is not enough", statefulSet(with(func(s *appsv1.StatefulSetStatus) { s.AvailableReplicas = 1 }), func(s *appsv1.StatefulSet) {
			s.Spec.MinReadySeconds = 10
		}), "not met: 1 of 3 replicas are available"},
		{"it is being deleted", statefulSet(all, func(s *appsv1.StatefulSet) { s.ObjectMeta = deleted(second) }), "not met: is being deleted"},
	})
}

func TestC102DaemonSetReady(t *testing.T) {
	daemonSet := func(status appsv1.DaemonSetStatus, change ...func(*appsv1.DaemonSet)) *appsv1.DaemonSet {
		d := &appsv1.DaemonSet{ObjectMeta: second, Status: status}
		d.Status.ObservedGeneration = 2
		for _, f := range change {
			f(d)
		}
		return d
	}
	checkRows(t, ready.DaemonSet, []condition[*appsv1.DaemonSet]{
		{"nil does not exist", nil, "not met: does not exist yet"},
		{
			"available everywhere", daemonSet(appsv1.DaemonSetStatus{DesiredNumberScheduled: 3, UpdatedNumberScheduled: 3, NumberAvailable: 3}),
			"met: available on 3 of 3 nodes",
		},
		{"there are no nodes for it", daemonSet(appsv1.DaemonSetStatus{}), "met: available on 0 of 0 nodes"},
		{
			"nobody has seen it yet", daemonSet(appsv1.DaemonSetStatus{}, func(d *appsv1.DaemonSet) { d.Status.ObservedGeneration = 0 }),
			"not met: generation 2 is not observed yet",
		},
		{
			"one node is not up to date", daemonSet(appsv1.DaemonSetStatus{DesiredNumberScheduled: 3, UpdatedNumberScheduled: 2, NumberAvailable: 3}),
			"not met: 2 of 3 nodes are up to date",
		},
		{
			"one node is not available", daemonSet(appsv1.DaemonSetStatus{DesiredNumberScheduled: 3, UpdatedNumberScheduled: 3, NumberAvailable: 2}),
			"not met: available on 2 of 3 nodes",
		},
		{
			"with OnDelete, old Pods count", daemonSet(appsv1.DaemonSetStatus{DesiredNumberScheduled: 3, NumberAvailable: 3}, func(d *appsv1.DaemonSet) {
				d.Spec.UpdateStrategy.Type = appsv1.OnDeleteDaemonSetStrategyType
			}), "met: available on 3 of 3 nodes",
		},
		{"it is being deleted", daemonSet(appsv1.DaemonSetStatus{}, func(d *appsv1.DaemonSet) { d.ObjectMeta = deleted(second) }), "not met: is being deleted"},
	})
}

func TestC102PodReady(t *testing.T) { checkRows(t, ready.Pod, pods) }

func pod(status corev1.PodStatus) *corev1.Pod { return &corev1.Pod{ObjectMeta: second, Status: status} }

var pods = []condition[*corev1.Pod]{
	{"nil does not exist", nil, "not met: does not exist yet"},
	{"nobody has seen it yet", pod(corev1.PodStatus{}), "not met: is not ready"},
	{"it is ready", pod(corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}), "met: is ready"},
	{"it runs and is not ready", pod(corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}}), "not met: is not ready"},
	{
		"no node takes it", pod(corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/2 nodes are available",
		}}}), "not met: is not scheduled: Unschedulable: 0/2 nodes are available",
	},
	{
		"its image cannot be pulled", pod(corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{
			{Name: "a", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}},
			{Name: "b", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"}}},
		}}), "not met: container b waits: ImagePullBackOff: no such image",
	},
	{"it has failed", pod(corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "disk is full"}), "stalled: has failed: Evicted: disk is full"},
	{"it is being deleted", &corev1.Pod{ObjectMeta: deleted(second)}, "not met: is being deleted"},
}

func TestC102APodThatHasCompletedIsCurrentButNotReady(t *testing.T) {
	done := pod(corev1.PodStatus{Phase: corev1.PodSucceeded})
	if got := said(ready.Pod(done)); got != "stalled: has completed" {
		t.Error(got)
	}
	if got := said(ready.Current(done)); got != "met: has completed" {
		t.Error(got)
	}
}

func job(completions *int32, status batchv1.JobStatus, change ...func(*batchv1.Job)) *batchv1.Job {
	j := &batchv1.Job{ObjectMeta: second, Spec: batchv1.JobSpec{Completions: completions}, Status: status}
	for _, f := range change {
		f(j)
	}
	return j
}

func jobIs(kind batchv1.JobConditionType) batchv1.JobStatus {
	return batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: kind, Status: corev1.ConditionTrue, Reason: "BackoffLimitExceeded", Message: "too often"}}}
}

func suspended(j *batchv1.Job) { j.Spec.Suspend = ptr.To(true) }

func TestC102JobComplete(t *testing.T) {
	checkRows(t, ready.Job, []condition[*batchv1.Job]{
		{"nil does not exist", nil, "not met: does not exist yet"},
		{"it has not started", job(three, batchv1.JobStatus{}), "not met: 0 of 3 Pods have succeeded"},
		{"two of three Pods have succeeded", job(three, batchv1.JobStatus{Succeeded: 2}), "not met: 2 of 3 Pods have succeeded"},
		{"all Pods have succeeded and it is not over", job(three, batchv1.JobStatus{Succeeded: 3}), "not met: 3 of 3 Pods have succeeded"},
		{"it works through a queue", job(nil, batchv1.JobStatus{Succeeded: 2, Active: 1}), "not met: 2 Pods have succeeded, 1 are active"},
		{"it has met what it is for and is not over", job(three, jobIs(batchv1.JobSuccessCriteriaMet)), "not met: 0 of 3 Pods have succeeded"},
		{"it is complete", job(three, jobIs(batchv1.JobComplete)), "met: has completed"},
		{"it has failed", job(three, jobIs(batchv1.JobFailed)), "stalled: has failed: BackoffLimitExceeded: too often"},
		{"it is bound to fail", job(three, jobIs(batchv1.JobFailureTarget)), "stalled: has failed: BackoffLimitExceeded: too often"},
		{"it is suspended", job(three, batchv1.JobStatus{}, suspended), "not met: is suspended"},
		{"it is being deleted", job(three, jobIs(batchv1.JobComplete), func(j *batchv1.Job) { j.ObjectMeta = deleted(second) }), "not met: is being deleted"},
	})
}

func TestC102PersistentVolumeClaimBound(t *testing.T) {
	claim := func(phase corev1.PersistentVolumeClaimPhase) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{
			ObjectMeta: second, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "v"}, Status: corev1.PersistentVolumeClaimStatus{Phase: phase},
		}
	}
	checkRows(t, ready.PersistentVolumeClaim, []condition[*corev1.PersistentVolumeClaim]{
		{"nil does not exist", nil, "not met: does not exist yet"},
		{"nobody has seen it yet", claim(""), "not met: is not bound"},
		{"it waits for a volume", claim(corev1.ClaimPending), "not met: is not bound"},
		{"it is bound", claim(corev1.ClaimBound), "met: is bound"},
		{"its volume is lost", claim(corev1.ClaimLost), "stalled: has lost its volume v"},
		{"it is being deleted", &corev1.PersistentVolumeClaim{ObjectMeta: deleted(second)}, "not met: is being deleted"},
	})
}

// unstructuredly is an object as it is read without its type.
func unstructuredly(t *testing.T, o runtime.Object, apiVersion, kind string) map[string]any {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		t.Fatal(err)
	}
	content["apiVersion"], content["kind"] = apiVersion, kind
	return content
}
