package actors

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// daemonSets makes one Pod, for the only node, and replaces it when the template changes.
type daemonSets struct{ workload }

func (d daemonSets) act(ctx context.Context, of id, o *unstructured.Unstructured) (time.Duration, error) {
	if o == nil || o.GetDeletionTimestamp() != nil {
		return 0, nil
	}
	set, err := typedAs[appsv1.DaemonSet](d.state, o)
	if err != nil {
		return 0, err
	}
	hash := hashOf(set.Spec.Template)
	isUpdated := func(p *unstructured.Unstructured) bool {
		return p.GetLabels()[appsv1.DefaultDaemonSetUniqueLabelKey] == hash
	}
	all := d.podsOf(set.UID)
	active := all.that(isActive)
	status := *set.Status.DeepCopy()
	status.ObservedGeneration, status.DesiredNumberScheduled = set.Generation, 1
	status.CurrentNumberScheduled, status.NumberReady = countOf(active), countOf(active.that(isReady))
	available, again := active.available(set.Spec.MinReadySeconds)
	status.NumberAvailable, status.NumberUnavailable = available, 1-min(1, available)
	status.UpdatedNumberScheduled = countOf(active.that(isUpdated))
	if err := d.writeStatus(ctx, of, o, set.Status, status); err != nil {
		return 0, err
	}
	switch old := active.that(func(p *unstructured.Unstructured) bool { return !isUpdated(p) }); {
	case len(active) == 0 && len(all.that(isTerminating)) == 0:
		return again, d.newPod(ctx, o, "", set.Spec.Template, map[string]string{appsv1.DefaultDaemonSetUniqueLabelKey: hash})
	case len(old) > 0 && set.Spec.UpdateStrategy.Type != appsv1.OnDeleteDaemonSetStrategyType:
		return again, d.removePods(ctx, old)
	}
	return again, nil
}
