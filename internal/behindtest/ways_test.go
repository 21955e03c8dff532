package behindtest

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework/workflow"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

// step is something that others do, or wait for.
type step = func(*life, context.Context) error

// way is how an app comes to leave its database.
type way struct {
	name, key string
	// steps lead to where nothing but the Pods keeps the database.
	steps []step
	// after is done then, before all else is deleted and freed.
	after []step
}

// ways are those of the specs. A database is always deleted while Pods on it are there.
var ways = []way{
	{
		name:  "the app is deleted",
		key:   "deleted",
		steps: []step{(*life).deleteApp, (*life).deleteDatabase, (*life).podsAreGoing},
	},
	{
		name:  "the app refers to another database",
		key:   "moved",
		steps: []step{(*life).referToSecond, (*life).deleteDatabase, (*life).podsAreReplaced},
		after: []step{(*life).endPods, (*life).databaseIsGone},
	},
	{
		name:  "the app is deleted, and what it owns is orphaned",
		key:   "orphaned",
		steps: []step{(*life).orphanApp, (*life).deleteDatabase, (*life).podsAreGoing},
	},
	{
		name:  "the owner of the workload is removed, then the app is deleted",
		key:   "stripped",
		steps: []step{(*life).strip, (*life).deleteApp, (*life).deleteDatabase, (*life).podsAreGoing},
	},
	{
		name: "the owner of the workload is removed while the gate is closed, then the app is deleted",
		key:  "closed",
		steps: []step{
			(*life).closeGate, (*life).strip, (*life).deleteApp, (*life).deleteDatabase,
			(*life).podsAreGoing,
		},
	},
	{
		name: "the workload is deleted in the background, then the app is deleted",
		key:  "background",
		steps: []step{
			(*life).deleteWorkload, (*life).aPodIsGoing, (*life).deleteApp, (*life).deleteDatabase,
			(*life).podsAreGoing,
		},
	},
	{
		name: "the workload is deleted and what it owns is orphaned, while the app is deleted",
		key:  "abandoned",
		steps: []step{
			(*life).orphanPods, (*life).deleteApp, (*life).cleanupHasBegun, (*life).freeWorkload,
			(*life).deleteDatabase,
		},
		after: []step{(*life).deleteOrphans},
	},
}

// undisturbed is the way of those whose Pods are free.
var undisturbed = way{key: "free"}

const background = client.PropagationPolicy(metav1.DeletePropagationBackground)

func (l *life) deleteApp(ctx context.Context) error { return l.delete(ctx, appKind, l.name) }
func (l *life) deleteDatabase(ctx context.Context) error {
	return l.delete(ctx, databaseKind, l.first())
}

// orphanApp is kubectl delete --cascade=orphan.
func (l *life) orphanApp(ctx context.Context) error {
	return l.delete(ctx, appKind, l.name, client.PropagationPolicy(metav1.DeletePropagationOrphan))
}

func (l *life) strip(ctx context.Context) error {
	patch := `{"metadata":{"ownerReferences":null}}`
	return l.patch(ctx, l.GroupVersionKind, l.name, types.MergePatchType, patch)
}

// closeGate has the app refer to a database that does not exist. Until that is granted, what is
// implemented stays as it is, and is not repaired.
func (l *life) closeGate(ctx context.Context) error {
	const missing = "missing"
	if err := l.refer(ctx, missing); err != nil {
		return err
	}
	return l.until(ctx, "the app claims what is missing", func(all []*thing) bool {
		return slices.ContainsFunc(those(all, appKind.Kind), func(t *thing) bool {
			return slices.ContainsFunc(relation.Claims(t.now), func(key types.NamespacedName) bool {
				return key.Name == missing
			})
		})
	})
}

func (l *life) deleteWorkload(ctx context.Context) error {
	return l.delete(ctx, l.GroupVersionKind, l.name, background)
}

// aPodIsGoing waits until one is in deletion. More may come, as the workload is made again.
func (l *life) aPodIsGoing(ctx context.Context) error {
	return l.until(ctx, "a Pod is in deletion", func(all []*thing) bool {
		isGoing := func(t *thing) bool { return t.leaving != 0 }
		return slices.ContainsFunc(podsOf(all, l.first()), isGoing) || l.hasNoDatabase(all)
	})
}

// podsAreGoing waits until all Pods on the first database are in deletion, and one is there. If
// that database is gone, there is nothing to wait for: the verdict will tell.
func (l *life) podsAreGoing(ctx context.Context) error {
	return l.until(ctx, "all Pods are in deletion", func(all []*thing) bool {
		pods := podsOf(all, l.first())
		stays := func(t *thing) bool { return t.leaving == 0 }
		areGoing := len(pods) > 0 && !slices.ContainsFunc(pods, stays)
		return areGoing || l.hasNoDatabase(all)
	})
}

func (l *life) hasNoDatabase(all []*thing) bool {
	isFirst := func(t *thing) bool { return t.name == l.first() }
	return !slices.ContainsFunc(those(all, databaseKind.Kind), isFirst)
}

func (l *life) referToSecond(ctx context.Context) error { return l.refer(ctx, l.second()) }

func (l *life) refer(ctx context.Context, database string) error {
	patch := fmt.Sprintf(`{"data":{%q:%q}}`, usesKey, database)
	return l.patch(ctx, appKind, l.name, types.MergePatchType, patch)
}

// podsAreReplaced waits until the Pods on the first database are going, as far as they do in the
// lifetime of the workload.
func (l *life) podsAreReplaced(ctx context.Context) error {
	if err := l.templateIsNew(ctx); err != nil {
		return err
	}
	switch l.replacement {
	case byEnding:
		return nil
	case byOthers:
		for _, pod := range podsOf(l.observer.things(l.name), l.first()) {
			if err := l.delete(ctx, podKind, pod.name); err != nil {
				return err
			}
		}
	}
	if err := l.podsAreGoing(ctx); err != nil || l.replacement == byItself {
		return err
	}
	return l.until(ctx, "a Pod runs on the other database", func(all []*thing) bool {
		return runs(all, l.second())
	})
}

// templateIsNew waits until the workload makes Pods on the second database, or is in deletion to be
// made again.
func (l *life) templateIsNew(ctx context.Context) error {
	return l.until(ctx, "the workload has another template", func(all []*thing) bool {
		return slices.ContainsFunc(those(all, l.Kind), func(t *thing) bool {
			return t.name == l.name && (t.leaving != 0 || l.makesSecond(t.now))
		})
	})
}

// makesSecond reports whether a workload has Pods on the second database made, and its controller,
// if it says so, has seen that.
func (l *life) makesSecond(o *unstructured.Unstructured) bool {
	path := []string{"spec", "template", "metadata", "labels", databaseLabel}
	if l.Kind == "CronJob" {
		path = append([]string{"spec", "jobTemplate"}, path...)
	}
	uses, _, _ := unstructured.NestedString(o.Object, path...)
	seen, says, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
	return uses == l.second() && (!says || seen == o.GetGeneration())
}

// endPods has the Pods on the first database end, where they do not by themselves.
func (l *life) endPods(ctx context.Context) error {
	if l.replacement != byEnding {
		return nil
	}
	for _, pod := range podsOf(l.observer.things(l.name), l.first()) {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"Succeeded"}}`))
		if err := admin.Status().Patch(ctx, l.object(podKind, pod.name), patch); err != nil {
			return err
		}
	}
	return nil
}

// databaseIsGone waits until the first database is gone, while the app is there.
func (l *life) databaseIsGone(ctx context.Context) error {
	return l.freeUntil(ctx, "the database is gone", l.hasNoDatabase)
}

// orphanPods deletes the workload so that its Pods, or what makes them, have no owner any more, and
// are not in deletion. The workload stays until it is freed, or it would be made again, and adopt
// them.
func (l *life) orphanPods(ctx context.Context) error {
	hold := fmt.Sprintf(`{"metadata":{"finalizers":[%q]}}`, held)
	err := l.patch(ctx, l.GroupVersionKind, l.name, types.StrategicMergePatchType, hold)
	if err != nil {
		return err
	}
	orphan := client.PropagationPolicy(metav1.DeletePropagationOrphan)
	if err := l.delete(ctx, l.GroupVersionKind, l.name, orphan); err != nil {
		return err
	}
	return l.until(ctx, "the workload has orphaned its Pods", func(all []*thing) bool {
		return slices.ContainsFunc(those(all, l.Kind), func(t *thing) bool {
			isOrphaning := slices.Contains(t.now.GetFinalizers(), metav1.FinalizerOrphanDependents)
			return t.name == l.name && t.leaving != 0 && !isOrphaning
		})
	})
}

// cleanupHasBegun waits until the operator has seen that the app is in deletion.
func (l *life) cleanupHasBegun(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		result, ok := l.apps.WorkflowResult(l.controller(), l.key())
		if ok && result.Pass == workflow.CleaningUp {
			return nil
		}
		// Polled, as a result is no event.
		again := time.NewTimer(20 * time.Millisecond)
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return fmt.Errorf("wait until the cleanup has begun: %w", ctx.Err())
		}
	}
}

// freeWorkload has the workload go before its Pods.
func (l *life) freeWorkload(ctx context.Context) error {
	if err := l.free(ctx, l.GroupVersionKind, l.name); err != nil {
		return err
	}
	return l.until(ctx, "the workload is gone", func(all []*thing) bool {
		return !slices.ContainsFunc(those(all, l.Kind), func(t *thing) bool { return t.name == l.name })
	})
}

// deleteOrphans deletes what makes Pods, and the Pods.
func (l *life) deleteOrphans(ctx context.Context) error {
	all := l.observer.things(l.name)
	for _, kind := range []schema.GroupVersionKind{
		appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), batchv1.SchemeGroupVersion.WithKind("Job"), podKind,
	} {
		for _, t := range those(all, kind.Kind) {
			if err := l.delete(ctx, kind, t.name, background); err != nil {
				return err
			}
		}
	}
	return nil
}
