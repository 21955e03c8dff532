package ready

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/framework/workflow"
)

// The functions here are pure functions of the object. They can be the Ready of a dependent, or be
// called anywhere else. All of them are not met by nil and by an object that is being deleted.

// StatefulSet is met by a StatefulSet that is rolled out and ready, by the rules of kubectl rollout
// status. Its controller has observed the present generation, and all replicas are ready, for
// minReadySeconds if that is set, and up to date; with a partition, only those from there on. If
// Pods are updated only when somebody deletes them (OnDelete), old ones count, too.
func StatefulSet(s *appsv1.StatefulSet) workflow.Verdict {
	if s == nil {
		return nonexistent()
	}
	if v, wrong := outdated(s, s.Status.ObservedGeneration); wrong {
		return v
	}
	wanted, updated := orOne(s.Spec.Replicas), int32(0)
	if strategy := s.Spec.UpdateStrategy; strategy.Type != appsv1.OnDeleteStatefulSetStrategyType {
		updated = wanted
		if rolling := strategy.RollingUpdate; rolling != nil && rolling.Partition != nil {
			updated = max(0, wanted-*rolling.Partition)
		}
	}
	switch now := s.Status; {
	case now.UpdatedReplicas < updated:
		return workflow.NotMet("%d of %d replicas are up to date", now.UpdatedReplicas, updated)
	case now.Replicas > wanted:
		return workflow.NotMet("%d replicas too many are not gone yet", now.Replicas-wanted)
	case now.ReadyReplicas < wanted:
		return workflow.NotMet("%d of %d replicas are ready", now.ReadyReplicas, wanted)
	case s.Spec.MinReadySeconds > 0 && now.AvailableReplicas < wanted:
		return workflow.NotMet("%d of %d replicas are available", now.AvailableReplicas, wanted)
	}
	return met("%d of %d replicas are ready", wanted, wanted)
}

// DaemonSet is met by a DaemonSet that is rolled out and available on all its nodes, by the rules
// of kubectl rollout status. It is also met if there are no such nodes. If Pods are updated only
// when somebody deletes them (OnDelete), old ones count, too.
func DaemonSet(d *appsv1.DaemonSet) workflow.Verdict {
	if d == nil {
		return nonexistent()
	}
	if v, wrong := outdated(d, d.Status.ObservedGeneration); wrong {
		return v
	}
	now := d.Status
	wanted := now.DesiredNumberScheduled
	switch updates := d.Spec.UpdateStrategy.Type != appsv1.OnDeleteDaemonSetStrategyType; {
	case updates && now.UpdatedNumberScheduled < wanted:
		return workflow.NotMet("%d of %d nodes are up to date", now.UpdatedNumberScheduled, wanted)
	case now.NumberAvailable < wanted:
		return workflow.NotMet("available on %d of %d nodes", now.NumberAvailable, wanted)
	}
	return met("available on %d of %d nodes", wanted, wanted)
}

// replicaSetAvailable is the rule of Current. ReplicaSets usually belong to a Deployment.
func replicaSetAvailable(r *appsv1.ReplicaSet) workflow.Verdict {
	if v, wrong := outdated(r, r.Status.ObservedGeneration); wrong {
		return v
	}
	wanted := orOne(r.Spec.Replicas)
	for _, c := range r.Status.Conditions {
		if c.Type == appsv1.ReplicaSetReplicaFailure && c.Status == "True" {
			return workflow.NotMet("%s: %s", c.Reason, c.Message)
		}
	}
	switch now := r.Status; {
	case now.Replicas > wanted:
		return workflow.NotMet("%d replicas too many are not gone yet", now.Replicas-wanted)
	case now.AvailableReplicas < wanted:
		return workflow.NotMet("%d of %d replicas are available", now.AvailableReplicas, wanted)
	}
	return met("%d of %d replicas are available", wanted, wanted)
}

// outdated returns a verdict if the object is being deleted, or its status is about an earlier
// generation.
func outdated(o metav1.Object, observed int64) (workflow.Verdict, bool) {
	switch {
	case o.GetDeletionTimestamp() != nil:
		return leaving(), true
	case observed < o.GetGeneration():
		return workflow.NotMet("generation %d is not observed yet", o.GetGeneration()), true
	}
	return workflow.Verdict{}, false
}

func nonexistent() workflow.Verdict { return workflow.NotMet("does not exist yet") }
func leaving() workflow.Verdict     { return workflow.NotMet("is being deleted") }

// met returns a verdict that is met, with a reason for people to read.
func met(reason string, arguments ...any) workflow.Verdict {
	return workflow.Verdict{Met: true, Reason: fmt.Sprintf(reason, arguments...)}
}

// orOne returns a number of replicas, or the default of the API.
func orOne(replicas *int32) int32 {
	if replicas == nil {
		return 1
	}
	return *replicas
}
