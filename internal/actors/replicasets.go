package actors

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
)

// replicaSets makes as many Pods as a ReplicaSet wants. It adopts none.
type replicaSets struct{ workload }

func (r replicaSets) act(ctx context.Context, of id, o *unstructured.Unstructured) (time.Duration, error) {
	if o == nil {
		return 0, nil
	}
	set, err := typedAs[appsv1.ReplicaSet](r.state, o)
	if err != nil {
		return 0, err
	}
	all := r.podsOf(set.UID)
	active := all.that(isActive)
	status := set.Status
	status.ObservedGeneration = set.Generation
	status.Replicas, status.FullyLabeledReplicas = countOf(active), countOf(active)
	status.ReadyReplicas = countOf(active.that(isReady))
	available, again := active.available(set.Spec.MinReadySeconds)
	status.AvailableReplicas = available
	status.TerminatingReplicas = ptr.To(countOf(all.that(isTerminating)))
	if err := r.writeStatus(ctx, of, o, set.Status, status); err != nil || set.DeletionTimestamp != nil {
		return again, err
	}
	missing := int(ptr.Deref(set.Spec.Replicas, 1)) - len(active)
	for range missing {
		if err := r.newPod(ctx, o, "", set.Spec.Template, nil); err != nil {
			return 0, err
		}
	}
	if missing < 0 {
		return again, r.removePods(ctx, active.worstFirst()[:-missing])
	}
	return again, nil
}
