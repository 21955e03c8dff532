package ready

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/framework/workflow"
)

// The conditions here are pure functions of the object as it is read: they serve as the Ready of a dependent, and anywhere else. All of them
// say "not met" of nil and of what is being deleted.

// StatefulSet is met by a StatefulSet that is rolled out and ready, by the rules of kubectl rollout status: its controller has seen the
// present generation, all replicas are ready, for minReadySeconds if there are such, and up to date; with a partition, those from there on. Where Pods are
// updated only as somebody deletes them (OnDelete), old ones count as well.
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

// DaemonSet is met by a DaemonSet that is rolled out and available on all nodes that it is for, by the rules of kubectl rollout status; no
// nodes are no hindrance. Where Pods are updated only as somebody deletes them (OnDelete), old ones count as well.
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

// replicaSetAvailable is part of Current: those who have one mostly have a Deployment around it.
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

// outdated tells of an object whose status says nothing about what it is to be now.
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

// met is a verdict with a reason, which people like to read as well.
func met(reason string, arguments ...any) workflow.Verdict {
	return workflow.Verdict{Met: true, Reason: fmt.Sprintf(reason, arguments...)}
}

// orOne is a number of replicas or the default of the API.
func orOne(replicas *int32) int32 {
	if replicas == nil {
		return 1
	}
	return *replicas
}
