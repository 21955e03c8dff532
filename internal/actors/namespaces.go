package actors

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/internal/apimodel"
)

// emptier deletes what is in namespaces that are deleted.
type emptier struct{ *loop }

// concerned is the namespace that is deleted, or from which something went.
func (e *emptier) concerned(c apimodel.Commit) []id {
	of := id{"v1", "namespaces", "", c.Object.GetNamespace()}
	if c.Resource == "namespaces" && c.Event != watch.Deleted {
		of = idOf(c)
	} else if c.Event != watch.Deleted {
		return nil
	}
	if o := e.objects[of]; o == nil || o.GetDeletionTimestamp() == nil {
		return nil
	}
	return []id{of}
}

func (e *emptier) act(ctx context.Context, of id, o *unstructured.Unstructured) (time.Duration, error) {
	if o == nil || o.GetDeletionTimestamp() == nil {
		return 0, nil
	}
	content := slices.SortedFunc(maps.Keys(e.objects), compareIDs)
	content = slices.DeleteFunc(content, func(in id) bool { return in.namespace != of.name })
	isPod := func(in id) bool { return in.apiVersion == "v1" && in.plural == "pods" }
	hasPods := slices.ContainsFunc(content, isPod)
	for _, in := range content {
		found := e.objects[in]
		if hasPods && !isPod(in) || found == nil || found.GetDeletionTimestamp() != nil {
			continue
		}
		policy := metav1.DeletePropagationBackground
		options := metav1.DeleteOptions{PropagationPolicy: &policy, Preconditions: &metav1.Preconditions{UID: ptr.To(found.GetUID())}}
		if err := e.remove(ctx, manager, in, options); err != nil {
			return 0, err
		}
	}
	finalizers, _, _ := unstructured.NestedStringSlice(o.Object, "spec", "finalizers")
	if len(content) > 0 || !slices.Contains(finalizers, "kubernetes") {
		return 0, nil // until something is gone
	}
	final := o.DeepCopy()
	kept := slices.DeleteFunc(finalizers, func(f string) bool { return f == "kubernetes" })
	_ = unstructured.SetNestedStringSlice(final.Object, kept, "spec", "finalizers")
	return 0, ignoreNotFound(e.send(ctx, manager, http.MethodPut, of.path("finalize"), runtime.ContentTypeJSON, final.Object))
}
