package actors

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

const revisionAnnotation = "deployment.kubernetes.io/revision"

// deployments rolls ReplicaSets out: the new one grows to its whole size, then the old ones shrink;
// the other way round with the strategy Recreate.
type deployments struct{ workload }

// rollout is a Deployment with its ReplicaSets.
type rollout struct {
	appsv1.Deployment
	of      id
	o       *unstructured.Unstructured
	current *appsv1.ReplicaSet // with the template of the Deployment; nil if there is none yet
	old     []*appsv1.ReplicaSet
}

func (d deployments) act(ctx context.Context, of id, o *unstructured.Unstructured) (time.Duration, error) {
	if o == nil {
		return 0, nil
	}
	typed, err := typedAs[appsv1.Deployment](d.state, o)
	if err != nil {
		return 0, err
	}
	r := &rollout{Deployment: *typed, of: of, o: o}
	if err := d.findSets(r); err != nil {
		return 0, err
	}
	if r.DeletionTimestamp == nil {
		if changed, err := d.roll(ctx, r); changed || err != nil {
			return 0, err // its ReplicaSets are news
		}
	}
	return 0, d.writeStatus(ctx, of, o, r.Status, r.newStatus())
}

func (d deployments) findSets(r *rollout) error {
	for _, found := range d.controlled(r.UID, "replicasets") {
		set, err := typedAs[appsv1.ReplicaSet](d.state, found)
		if err != nil {
			return err
		}
		template := set.Spec.Template.DeepCopy()
		delete(template.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
		if r.current == nil && equality.Semantic.DeepEqual(*template, r.Spec.Template) {
			r.current = set
			continue
		}
		r.old = append(r.old, set)
	}
	slices.SortFunc(r.old, func(a, b *appsv1.ReplicaSet) int { return revisionOf(a) - revisionOf(b) })
	return nil
}

func revisionOf(set *appsv1.ReplicaSet) int {
	revision, _ := strconv.Atoi(set.Annotations[revisionAnnotation])
	return revision
}

// roll makes the next change to the ReplicaSets, and reports whether there was one to make.
func (d deployments) roll(ctx context.Context, r *rollout) (changed bool, err error) {
	wanted := ptr.Deref(r.Spec.Replicas, 1)
	recreate := r.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType
	switch {
	case r.Spec.Paused && r.current == nil:
		return false, nil
	case recreate && r.hasOldPods(d.state):
		return d.shrink(ctx, r)
	case r.current == nil:
		return true, d.newSet(ctx, r, wanted)
	case ptr.Deref(r.current.Spec.Replicas, 1) != wanted || revisionOf(r.current) < r.newest():
		return true, d.resize(ctx, r, r.current, wanted)
	case r.Annotations[revisionAnnotation] != r.current.Annotations[revisionAnnotation]:
		return true, d.mergePatch(ctx, manager, r.of, map[string]any{"metadata": map[string]any{
			"annotations": map[string]any{revisionAnnotation: r.current.Annotations[revisionAnnotation]},
		}})
	case r.current.Status.AvailableReplicas >= wanted:
		if changed, err := d.shrink(ctx, r); changed || err != nil {
			return changed, err
		}
		return d.forgetOld(ctx, r)
	}
	return false, nil
}

func (r *rollout) hasOldPods(s *state) bool {
	return slices.ContainsFunc(r.old, func(set *appsv1.ReplicaSet) bool {
		return ptr.Deref(set.Spec.Replicas, 1) > 0 || len(s.podsOf(set.UID).that(func(p *unstructured.Unstructured) bool { return !hasEnded(p) })) > 0
	})
}

// newest is the highest revision of the ReplicaSets.
func (r *rollout) newest() int {
	newest := 0
	for _, set := range r.old {
		newest = max(newest, revisionOf(set))
	}
	return newest
}

func (d deployments) newSet(ctx context.Context, r *rollout, replicas int32) error {
	hash := hashOf(r.Spec.Template)
	labels := map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: hash}
	template := *r.Spec.Template.DeepCopy()
	template.Labels = with(template.Labels, labels)
	selector := r.Spec.Selector.DeepCopy()
	selector.MatchLabels = with(selector.MatchLabels, labels)
	set := &appsv1.ReplicaSet{
		TypeMeta: metav1.TypeMeta{APIVersion: d.apiVersion, Kind: "ReplicaSet"},
		ObjectMeta: metav1.ObjectMeta{
			Name: r.Name + "-" + hash, Labels: template.Labels, OwnerReferences: []metav1.OwnerReference{d.controllerOf(r.o)},
			Annotations: with(r.copied(), r.counts(replicas)),
		},
		Spec: appsv1.ReplicaSetSpec{Replicas: &replicas, MinReadySeconds: r.Spec.MinReadySeconds, Selector: selector, Template: template},
	}
	return d.create(ctx, manager, id{d.apiVersion, "replicasets", r.Namespace, ""}, set)
}

// copied are the annotations that a ReplicaSet takes from its Deployment.
func (r *rollout) copied() map[string]string {
	copied := with(r.Annotations, nil)
	for _, name := range []string{revisionAnnotation, corev1.LastAppliedConfigAnnotation, appsv1.DeprecatedRollbackTo} {
		delete(copied, name)
	}
	return copied
}

// counts are the annotations that tell about a ReplicaSet's place in the rollout.
func (r *rollout) counts(replicas int32) map[string]string {
	revision := 1 + r.newest()
	if r.current != nil && revisionOf(r.current) > r.newest() {
		revision = revisionOf(r.current)
	}
	return map[string]string{
		revisionAnnotation:                          strconv.Itoa(revision),
		"deployment.kubernetes.io/desired-replicas": fmt.Sprint(replicas),
		"deployment.kubernetes.io/max-replicas":     fmt.Sprint(replicas + r.surge(replicas)),
	}
}

// surge is how many Pods more than wanted the strategy allows.
func (r *rollout) surge(replicas int32) int32 {
	if r.Spec.Strategy.RollingUpdate == nil || r.Spec.Strategy.RollingUpdate.MaxSurge == nil || replicas == 0 {
		return 0
	}
	return scaled(*r.Spec.Strategy.RollingUpdate.MaxSurge, replicas, true)
}

func (d deployments) resize(ctx context.Context, r *rollout, set *appsv1.ReplicaSet, replicas int32) error {
	next := set.DeepCopy()
	next.APIVersion, next.Kind = d.apiVersion, "ReplicaSet"
	next.Spec.Replicas = &replicas
	wanted := ptr.Deref(r.Spec.Replicas, 1)
	counts := r.counts(wanted)
	if set != r.current {
		delete(counts, revisionAnnotation)
	}
	next.Annotations = with(next.Annotations, counts)
	of := id{d.apiVersion, "replicasets", set.Namespace, set.Name}
	return d.send(ctx, manager, http.MethodPut, of.path(""), runtime.ContentTypeJSON, next)
}

// shrink takes one old ReplicaSet down to nothing.
func (d deployments) shrink(ctx context.Context, r *rollout) (changed bool, err error) {
	for _, set := range r.old {
		if ptr.Deref(set.Spec.Replicas, 1) > 0 {
			return true, d.resize(ctx, r, set, 0)
		}
	}
	return false, nil
}

// forgetOld deletes one of the ReplicaSets that exceed the history.
func (d deployments) forgetOld(ctx context.Context, r *rollout) (changed bool, err error) {
	surplus := len(r.old) - int(ptr.Deref(r.Spec.RevisionHistoryLimit, 10))
	for _, set := range r.old {
		if surplus > 0 && set.Status.Replicas == 0 && set.DeletionTimestamp == nil {
			return true, d.remove(ctx, manager, id{d.apiVersion, "replicasets", set.Namespace, set.Name}, metav1.DeleteOptions{})
		}
	}
	return false, nil
}

func (r *rollout) newStatus() appsv1.DeploymentStatus {
	status := *r.Status.DeepCopy()
	status.ObservedGeneration = r.Generation
	status.Replicas, status.ReadyReplicas, status.AvailableReplicas, status.UpdatedReplicas = 0, 0, 0, 0
	var terminating int32
	sets := r.old
	if r.current != nil {
		sets = append(slices.Clone(sets), r.current)
		status.UpdatedReplicas = r.current.Status.Replicas
	}
	for _, set := range sets {
		status.Replicas += set.Status.Replicas
		status.ReadyReplicas += set.Status.ReadyReplicas
		status.AvailableReplicas += set.Status.AvailableReplicas
		terminating += ptr.Deref(set.Status.TerminatingReplicas, 0)
	}
	wanted := ptr.Deref(r.Spec.Replicas, 1)
	status.TerminatingReplicas = &terminating
	status.UnavailableReplicas = max(0, wanted-status.AvailableReplicas)
	r.setConditions(&status, wanted)
	return status
}

func (r *rollout) setConditions(status *appsv1.DeploymentStatus, wanted int32) {
	available := appsv1.DeploymentCondition{
		Type: appsv1.DeploymentAvailable, Status: corev1.ConditionFalse,
		Reason: "MinimumReplicasUnavailable", Message: "Deployment does not have minimum availability.",
	}
	if status.AvailableReplicas >= wanted-r.unavailable(wanted) {
		available.Status, available.Reason, available.Message = corev1.ConditionTrue, "MinimumReplicasAvailable", "Deployment has minimum availability."
	}
	setDeploymentCondition(status, available)
	if r.current == nil {
		return
	}
	progressing := appsv1.DeploymentCondition{
		Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue,
		Reason: "ReplicaSetUpdated", Message: fmt.Sprintf("ReplicaSet %q is progressing.", r.current.Name),
	}
	if status.UpdatedReplicas == wanted && status.Replicas == wanted && status.AvailableReplicas == wanted {
		progressing.Reason, progressing.Message = "NewReplicaSetAvailable", fmt.Sprintf("ReplicaSet %q has successfully progressed.", r.current.Name)
	}
	setDeploymentCondition(status, progressing)
}

// unavailable is how many Pods may be missing.
func (r *rollout) unavailable(wanted int32) int32 {
	rolling := r.Spec.Strategy.RollingUpdate
	if rolling == nil || rolling.MaxUnavailable == nil || wanted == 0 {
		return 0
	}
	n := scaled(*rolling.MaxUnavailable, wanted, false)
	if n == 0 && r.surge(wanted) == 0 {
		return 1
	}
	return min(n, wanted)
}

func setDeploymentCondition(status *appsv1.DeploymentStatus, next appsv1.DeploymentCondition) {
	now := metav1.Now().Rfc3339Copy()
	next.LastUpdateTime, next.LastTransitionTime = now, now
	for i, c := range status.Conditions {
		if c.Type != next.Type {
			continue
		}
		if c.Status == next.Status {
			next.LastTransitionTime = c.LastTransitionTime
		}
		if c.Status == next.Status && c.Reason == next.Reason && c.Message == next.Message {
			next.LastUpdateTime = c.LastUpdateTime
		}
		status.Conditions[i] = next
		return
	}
	status.Conditions = append(status.Conditions, next)
}

// scaled is the number, or the part of replicas.
func scaled(of intstr.IntOrString, replicas int32, up bool) int32 {
	n, err := intstr.GetScaledValueFromIntOrPercent(&of, int(replicas), up)
	if err != nil {
		return 0
	}
	return int32(n)
}
