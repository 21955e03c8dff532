package actors

import (
	"context"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/internal/apimodel"
)

// collector is the garbage collector. It decides as pkg/controller/garbagecollector of Kubernetes.
type collector struct{ *loop }

// concerned are the dependents of an object that is deleted, the object, and its owners that may
// wait for it. The dependents come first: a foreground deletion is over when none of them blocks
// it, but those that do not block go with it.
func (g *collector) concerned(c apimodel.Commit) (all []id) {
	o, gone := c.Object, c.Event == watch.Deleted
	if gone || o.GetDeletionTimestamp() != nil {
		all = g.dependents(o.GetUID())
	}
	owners := o.GetOwnerReferences()
	if !gone && (len(owners) > 0 || o.GetDeletionTimestamp() != nil) {
		all = append(all, idOf(c))
	}
	if c.Previous != nil {
		owners = append(owners, c.Previous.GetOwnerReferences()...)
	}
	for _, owner := range owners {
		if of, exists := g.byUID[owner.UID]; exists && g.objects[of].GetDeletionTimestamp() != nil {
			all = append(all, of)
		}
	}
	return all
}

func (g *collector) act(ctx context.Context, of id, o *unstructured.Unstructured) (time.Duration, error) {
	switch {
	case o == nil:
		return 0, nil
	case isDeletedWith(o, metav1.FinalizerOrphanDependents):
		return 0, g.orphan(ctx, of, o)
	case isDeletedWith(o, metav1.FinalizerDeleteDependents):
		return 0, g.deleteDependents(ctx, of, o)
	case o.GetDeletionTimestamp() != nil:
		return 0, nil
	}
	return 0, g.collect(ctx, of, o)
}

func isDeletedWith(o *unstructured.Unstructured, finalizer string) bool {
	return o.GetDeletionTimestamp() != nil && slices.Contains(o.GetFinalizers(), finalizer)
}

// orphan makes the dependents forget their owner, which then goes.
func (g *collector) orphan(ctx context.Context, of id, o *unstructured.Unstructured) error {
	for _, dependent := range g.dependents(o.GetUID()) {
		if err := g.forget(ctx, dependent, g.objects[dependent], o.GetUID()); err != nil {
			return err
		}
	}
	return g.removeFinalizer(ctx, of, o, metav1.FinalizerOrphanDependents)
}

// forget takes references to owners off.
func (g *collector) forget(ctx context.Context, of id, o *unstructured.Unstructured, owners ...types.UID) error {
	kept := slices.DeleteFunc(o.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return slices.Contains(owners, r.UID) })
	return g.patchReferences(ctx, of, o, kept)
}

func (g *collector) patchReferences(ctx context.Context, of id, o *unstructured.Unstructured, references []metav1.OwnerReference) error {
	return ignoreNotFound(g.mergePatch(ctx, manager, of, map[string]any{"metadata": map[string]any{
		"resourceVersion": o.GetResourceVersion(), "uid": o.GetUID(), "ownerReferences": references,
	}}))
}

func (g *collector) removeFinalizer(ctx context.Context, of id, o *unstructured.Unstructured, finalizer string) error {
	kept := slices.DeleteFunc(o.GetFinalizers(), func(f string) bool { return f == finalizer })
	return ignoreNotFound(g.mergePatch(ctx, manager, of, map[string]any{"metadata": map[string]any{
		"resourceVersion": o.GetResourceVersion(), "uid": o.GetUID(), "finalizers": kept,
	}}))
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// deleteDependents lets an owner go once no dependent blocks it. They are deleted as any
// that has such an owner.
func (g *collector) deleteDependents(ctx context.Context, of id, o *unstructured.Unstructured) error {
	for _, dependent := range g.dependents(o.GetUID()) {
		for _, owner := range g.objects[dependent].GetOwnerReferences() {
			if owner.UID == o.GetUID() && ptr.Deref(owner.BlockOwnerDeletion, false) {
				return nil
			}
		}
	}
	return g.removeFinalizer(ctx, of, o, metav1.FinalizerDeleteDependents)
}

// collect deletes the object if no owner keeps it.
func (g *collector) collect(ctx context.Context, of id, o *unstructured.Unstructured) error {
	found, known := g.classify(of, o)
	if !known || len(found.lost)+len(found.waiting) == 0 {
		return nil
	}
	if found.solid > 0 {
		return g.forget(ctx, of, o, slices.Concat(found.lost, found.waiting)...)
	}
	same := &metav1.Preconditions{UID: ptr.To(o.GetUID()), ResourceVersion: ptr.To(o.GetResourceVersion())}
	policy := metav1.DeletePropagationBackground
	dependents := g.dependents(o.GetUID())
	switch finalizers := o.GetFinalizers(); {
	case len(found.waiting) > 0 && len(dependents) > 0:
		policy = metav1.DeletePropagationForeground
		// A circle, which nothing else would break.
		if slices.ContainsFunc(dependents, g.isDeletedInForeground) {
			if err := g.unblock(ctx, of, o); err != nil {
				return err
			}
			same.ResourceVersion = nil // it has a new one
		}
	case slices.Contains(finalizers, metav1.FinalizerOrphanDependents):
		policy = metav1.DeletePropagationOrphan
	case slices.Contains(finalizers, metav1.FinalizerDeleteDependents):
		policy = metav1.DeletePropagationForeground
	}
	return g.remove(ctx, manager, of, metav1.DeleteOptions{PropagationPolicy: &policy, Preconditions: same})
}

func (g *collector) isDeletedInForeground(of id) bool {
	return isDeletedWith(g.objects[of], metav1.FinalizerDeleteDependents)
}

// unblock lets the owners of the object go before it.
func (g *collector) unblock(ctx context.Context, of id, o *unstructured.Unstructured) error {
	references := o.GetOwnerReferences()
	for i := range references {
		references[i].BlockOwnerDeletion = ptr.To(false)
	}
	return g.patchReferences(ctx, of, o, references)
}

// owners are those of one object.
type owners struct {
	solid   int
	lost    []types.UID
	waiting []types.UID // for their dependents to go
}

// classify is not known if the object refers to a kind that is not served, or to a namespaced owner
// though it has no namespace: Kubernetes leaves such objects alone.
func (g *collector) classify(of id, o *unstructured.Unstructured) (found owners, known bool) {
	for _, reference := range o.GetOwnerReferences() {
		kind := schema.FromAPIVersionAndKind(reference.APIVersion, reference.Kind).GroupKind()
		namespaced, served := g.namespaced[kind]
		if !served || namespaced && of.namespace == "" {
			return owners{}, false
		}
		namespace := of.namespace
		if !namespaced {
			namespace = ""
		}
		at, exists := g.byUID[reference.UID]
		owner := g.objects[at]
		switch {
		case !exists || at.namespace != namespace || at.name != reference.Name || owner.GroupVersionKind().GroupKind() != kind:
			found.lost = append(found.lost, reference.UID)
		case isDeletedWith(owner, metav1.FinalizerDeleteDependents):
			found.waiting = append(found.waiting, reference.UID)
		default:
			found.solid++
		}
	}
	return found, true
}
