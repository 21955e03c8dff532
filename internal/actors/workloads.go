package actors

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/internal/apimodel"
)

// workload is the kind that a controller looks after.
type workload struct {
	*loop
	apiVersion, plural, kind string
}

// concerned is the object, or the one that controls the object.
func (w workload) concerned(c apimodel.Commit) []id {
	if c.Resource == w.plural && c.Object.GetAPIVersion() == w.apiVersion {
		if c.Event == watch.Deleted {
			return nil
		}
		return []id{idOf(c)}
	}
	if owner := metav1.GetControllerOf(c.Object); owner != nil && owner.Kind == w.kind && owner.APIVersion == w.apiVersion {
		return []id{{w.apiVersion, w.plural, c.Object.GetNamespace(), owner.Name}}
	}
	return nil
}

// writeStatus replaces the status of an object, unless it is that already.
func (w workload) writeStatus(ctx context.Context, of id, o *unstructured.Unstructured, before, status any) error {
	was, err := json.Marshal(before)
	if err != nil {
		return fmt.Errorf("actors: encode a status: %w", err)
	}
	is, err := json.Marshal(status)
	if err != nil {
		return fmt.Errorf("actors: encode a status: %w", err)
	}
	if string(was) == string(is) {
		return nil
	}
	return ignoreNotFound(w.putStatus(ctx, manager, of, o, status))
}

// controllerOf is the reference to the object that controls what it makes.
func (w workload) controllerOf(o *unstructured.Unstructured) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: w.apiVersion, Kind: w.kind, Name: o.GetName(), UID: o.GetUID(),
		Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
	}
}

// newPod creates a Pod of a template. The name is generated if it is empty.
func (w workload) newPod(ctx context.Context, owner *unstructured.Unstructured, name string, template corev1.PodTemplateSpec, labels map[string]string) error {
	pod := corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: with(template.Labels, labels), Annotations: template.Annotations, Finalizers: template.Finalizers,
			OwnerReferences: []metav1.OwnerReference{w.controllerOf(owner)},
		},
		Spec: template.Spec,
	}
	if name == "" {
		pod.GenerateName = owner.GetName() + "-"
	}
	err := w.create(ctx, manager, id{"v1", "pods", owner.GetNamespace(), ""}, pod)
	if name != "" && apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

func with(labels, more map[string]string) map[string]string {
	all := make(map[string]string, len(labels)+len(more))
	for _, some := range []map[string]string{labels, more} {
		for name, value := range some {
			all[name] = value
		}
	}
	return all
}

// pods are those that a workload controls.
type pods []*unstructured.Unstructured

func (s *state) podsOf(owner types.UID) pods { return s.controlled(owner, "pods") }

func (p pods) that(holds func(*unstructured.Unstructured) bool) (some pods) {
	for _, pod := range p {
		if holds(pod) {
			some = append(some, pod)
		}
	}
	return some
}

func phaseOf(pod *unstructured.Unstructured) corev1.PodPhase {
	phase, _, _ := unstructured.NestedString(pod.Object, "status", "phase")
	return corev1.PodPhase(phase)
}

func hasEnded(pod *unstructured.Unstructured) bool {
	phase := phaseOf(pod)
	return phase == corev1.PodSucceeded || phase == corev1.PodFailed
}

func isActive(pod *unstructured.Unstructured) bool {
	return !hasEnded(pod) && pod.GetDeletionTimestamp() == nil
}

// isTerminating reports whether the Pod is deleted and has not ended.
func isTerminating(pod *unstructured.Unstructured) bool {
	return !hasEnded(pod) && pod.GetDeletionTimestamp() != nil
}

func isReady(pod *unstructured.Unstructured) bool { return !readySince(pod).IsZero() }

// readySince is when the Pod became ready, zero if it is not.
func readySince(pod *unstructured.Unstructured) time.Time {
	conditions, _, _ := unstructured.NestedSlice(pod.Object, "status", "conditions")
	for _, c := range conditions {
		c := c.(map[string]any)
		if c["type"] == string(corev1.PodReady) && c["status"] == string(corev1.ConditionTrue) {
			text, _ := c["lastTransitionTime"].(string)
			at, _ := time.Parse(time.RFC3339, text)
			return at
		}
	}
	return time.Time{}
}

// available counts the Pods that are ready for some seconds. It returns when to look again for the
// others.
func (p pods) available(seconds int32) (n int32, again time.Duration) {
	for _, pod := range p {
		since := readySince(pod)
		if since.IsZero() {
			continue
		}
		left := time.Until(since.Add(time.Duration(seconds) * time.Second))
		switch {
		case seconds == 0 || left <= 0:
			n++
		case again == 0 || left < again:
			again = left
		}
	}
	return n, again
}

// removePods deletes Pods gracefully.
func (w workload) removePods(ctx context.Context, some pods) error {
	for _, pod := range some {
		of := id{"v1", "pods", pod.GetNamespace(), pod.GetName()}
		if err := w.remove(ctx, manager, of, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(pod.GetUID())}}); err != nil {
			return err
		}
	}
	return nil
}

// worstFirst orders Pods by how little is lost with them.
func (p pods) worstFirst() pods {
	sorted := slices.Clone(p)
	slices.SortStableFunc(sorted, func(a, b *unstructured.Unstructured) int {
		readyA, readyB := isReady(a), isReady(b)
		switch {
		case readyA != readyB && readyB:
			return -1
		case readyA != readyB:
			return 1
		}
		return b.GetCreationTimestamp().Compare(a.GetCreationTimestamp().Time)
	})
	return sorted
}

// hashOf names a template.
func hashOf(template corev1.PodTemplateSpec) string {
	encoded, _ := json.Marshal(template)
	hash := fnv.New32a()
	_, _ = hash.Write(encoded)
	return rand.SafeEncodeString(fmt.Sprint(hash.Sum32()))
}

func countOf(p pods) int32 { return int32(len(p)) }
