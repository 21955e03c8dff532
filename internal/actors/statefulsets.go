package actors

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
)

// statefulSets makes Pods with numbers, one after another or all at a time, and the claims of each.
// It replaces Pods from the highest number on, ignores partitions and keeps claims for ever.
type statefulSets struct{ workload }

func (s statefulSets) act(ctx context.Context, of id, o *unstructured.Unstructured) (time.Duration, error) {
	if o == nil || o.GetDeletionTimestamp() != nil {
		return 0, nil
	}
	set, err := typedAs[appsv1.StatefulSet](s.state, o)
	if err != nil {
		return 0, err
	}
	revision := set.Name + "-" + hashOf(set.Spec.Template)
	isUpdated := func(p *unstructured.Unstructured) bool {
		return p.GetLabels()[appsv1.StatefulSetRevisionLabel] == revision
	}
	all := s.podsOf(set.UID)
	status := *set.Status.DeepCopy()
	status.ObservedGeneration, status.CollisionCount = set.Generation, ptr.To[int32](0)
	status.Replicas, status.ReadyReplicas = countOf(all), countOf(all.that(isReady))
	available, again := all.available(set.Spec.MinReadySeconds)
	status.AvailableReplicas = available
	updated := countOf(all.that(isUpdated))
	status.UpdateRevision, status.UpdatedReplicas = revision, updated
	if status.CurrentRevision == "" || updated == countOf(all) && updated == ptr.Deref(set.Spec.Replicas, 1) {
		status.CurrentRevision = revision
	}
	status.CurrentReplicas = countOf(all.that(func(p *unstructured.Unstructured) bool {
		return p.GetLabels()[appsv1.StatefulSetRevisionLabel] == status.CurrentRevision
	}))
	if err := s.writeStatus(ctx, of, o, set.Status, status); err != nil {
		return 0, err
	}
	return again, s.change(ctx, o, set, revision, all, isUpdated)
}

// change makes the next Pods, or deletes one.
func (s statefulSets) change(ctx context.Context, o *unstructured.Unstructured, set *appsv1.StatefulSet, revision string, all pods, isUpdated func(*unstructured.Unstructured) bool) error {
	wanted := int(ptr.Deref(set.Spec.Replicas, 1))
	present := map[string]*unstructured.Unstructured{}
	for _, pod := range all {
		present[pod.GetName()] = pod
	}
	oneByOne := set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement
	for i := range wanted {
		pod := present[numbered(set.Name, i)]
		if pod == nil {
			if err := s.newMember(ctx, o, set, revision, i); err != nil || oneByOne {
				return err
			}
		} else if oneByOne && !isReady(pod) {
			return nil
		}
	}
	for i := wanted; ; i++ {
		if present[numbered(set.Name, i+1)] != nil {
			continue
		}
		if pod := present[numbered(set.Name, i)]; pod != nil && pod.GetDeletionTimestamp() == nil {
			return s.removePods(ctx, pods{pod})
		}
		break
	}
	if set.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType || len(all.that(isReady)) < len(all) {
		return nil
	}
	for i := wanted - 1; i >= 0; i-- {
		if pod := present[numbered(set.Name, i)]; pod != nil && !isUpdated(pod) && pod.GetDeletionTimestamp() == nil {
			return s.removePods(ctx, pods{pod})
		}
	}
	return nil
}

func numbered(name string, i int) string { return fmt.Sprintf("%s-%d", name, i) }

// newMember creates a Pod with its claims.
func (s statefulSets) newMember(ctx context.Context, o *unstructured.Unstructured, set *appsv1.StatefulSet, revision string, i int) error {
	name := numbered(set.Name, i)
	template := *set.Spec.Template.DeepCopy()
	for _, claim := range set.Spec.VolumeClaimTemplates {
		claim := *claim.DeepCopy()
		volume := claim.Name
		claim.APIVersion, claim.Kind = "v1", "PersistentVolumeClaim"
		claim.Name, claim.Labels = volume+"-"+name, with(claim.Labels, set.Spec.Selector.MatchLabels)
		if err := s.create(ctx, manager, id{"v1", "persistentvolumeclaims", set.Namespace, ""}, claim); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		template.Spec.Volumes = append(template.Spec.Volumes, corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name},
		}})
	}
	template.Spec.Hostname, template.Spec.Subdomain = name, set.Spec.ServiceName
	return s.newPod(ctx, o, name, template, map[string]string{
		appsv1.StatefulSetRevisionLabel: revision, appsv1.StatefulSetPodNameLabel: name, appsv1.PodIndexLabel: fmt.Sprint(i),
	})
}
