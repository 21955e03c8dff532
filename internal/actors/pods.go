package actors

import (
	"context"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/internal/apimodel"
)

// theNode is the only node.
var theNode = id{apiVersion: "v1", plural: "nodes", name: "node"}

// nodes binds Pods to the node, runs them and ends them.
type nodes struct {
	*loop
	options Options
}

func (n *nodes) concerned(c apimodel.Commit) []id {
	if c.Resource != "pods" || c.Object.GetAPIVersion() != "v1" || c.Event == watch.Deleted {
		return nil
	}
	return []id{idOf(c)}
}

func (n *nodes) act(ctx context.Context, of id, o *unstructured.Unstructured) (time.Duration, error) {
	switch {
	case of == theNode:
		return 0, n.join(ctx)
	case o == nil:
		return 0, nil
	}
	node, _, _ := unstructured.NestedString(o.Object, "spec", "nodeName")
	switch {
	case o.GetDeletionTimestamp() != nil:
		return n.end(ctx, of, o)
	case node == "":
		return 0, n.bind(ctx, of, o)
	case phaseOf(o) == corev1.PodPending:
		return n.start(ctx, of, o)
	case phaseOf(o) == corev1.PodRunning:
		return n.runs(ctx, of, o)
	}
	return 0, nil
}

// join creates the node.
func (n *nodes) join(ctx context.Context) error {
	ready := []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"}}
	err := n.create(ctx, kubelet, theNode, corev1.Node{
		TypeMeta:   metav1.TypeMeta{APIVersion: theNode.apiVersion, Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: theNode.name, Labels: map[string]string{corev1.LabelHostname: theNode.name}},
	})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return n.mergeStatus(ctx, kubelet, theNode, map[string]any{"conditions": ready})
}

// end kills a Pod when its time has come. One that only finalizers keep is none of its business.
func (n *nodes) end(ctx context.Context, of id, o *unstructured.Unstructured) (time.Duration, error) {
	grace := ptr.Deref(o.GetDeletionGracePeriodSeconds(), 0)
	if grace == 0 {
		return 0, nil
	}
	begun := o.GetDeletionTimestamp().Add(-time.Duration(grace) * time.Second)
	stopped := begun.Add(min(n.options.StopAfter, time.Duration(grace)*time.Second))
	if left := time.Until(stopped); left > 0 {
		return left, nil
	}
	return 0, n.remove(ctx, kubelet, of, metav1.DeleteOptions{
		GracePeriodSeconds: ptr.To[int64](0), Preconditions: &metav1.Preconditions{UID: ptr.To(o.GetUID())},
	})
}

func (n *nodes) bind(ctx context.Context, of id, o *unstructured.Unstructured) error {
	binding := corev1.Binding{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Binding"},
		ObjectMeta: metav1.ObjectMeta{Name: of.name, Namespace: of.namespace, UID: o.GetUID()},
		Target:     corev1.ObjectReference{Kind: "Node", Name: theNode.name},
	}
	err := n.send(ctx, scheduler, http.MethodPost, of.path("binding"), runtime.ContentTypeJSON, binding)
	if apierrors.IsConflict(err) {
		return nil // it is bound or deleted
	}
	return ignoreNotFound(err)
}

// start makes a Pod run.
func (n *nodes) start(ctx context.Context, of id, o *unstructured.Unstructured) (time.Duration, error) {
	pod, err := typedAs[corev1.Pod](n.state, o)
	if err != nil {
		return 0, err
	}
	if left := time.Until(boundSince(pod).Add(n.options.StartAfter)); left > 0 {
		return left, nil
	}
	now := metav1.Now().Rfc3339Copy()
	status := pod.Status.DeepCopy()
	status.Phase, status.StartTime = corev1.PodRunning, &now
	status.HostIP, status.PodIP = "10.1.0.1", "10.2.0.1"
	status.HostIPs, status.PodIPs = []corev1.HostIP{{IP: status.HostIP}}, []corev1.PodIP{{IP: status.PodIP}}
	ready := n.options.Ready == nil || n.options.Ready(o)
	setRunning(pod, status, ready)
	return 0, ignoreNotFound(n.putStatus(ctx, kubelet, of, o, status))
}

func boundSince(pod *corev1.Pod) time.Time {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			return c.LastTransitionTime.Time
		}
	}
	return pod.CreationTimestamp.Time
}

// setRunning sets the conditions and the containers of a Pod that runs.
func setRunning(pod *corev1.Pod, status *corev1.PodStatus, ready bool) {
	now := metav1.Now().Rfc3339Copy()
	isReady := corev1.ConditionFalse
	if ready {
		isReady = corev1.ConditionTrue
	}
	for _, next := range []corev1.PodCondition{
		{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionTrue},
		{Type: corev1.PodInitialized, Status: corev1.ConditionTrue},
		{Type: corev1.PodReady, Status: isReady},
		{Type: corev1.ContainersReady, Status: isReady},
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
	} {
		next.LastTransitionTime = now
		found := false
		for i, c := range status.Conditions {
			if c.Type == next.Type {
				found = true
				if c.Status != next.Status {
					status.Conditions[i] = next
				}
			}
		}
		if !found {
			status.Conditions = append(status.Conditions, next)
		}
	}
	status.ContainerStatuses = nil
	for _, container := range pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{
			Name: container.Name, Image: container.Image, ImageID: container.Image, Ready: ready, Started: ptr.To(true),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		})
	}
}

// runs lets the Pod of a Job end.
func (n *nodes) runs(ctx context.Context, of id, o *unstructured.Unstructured) (time.Duration, error) {
	policy, _, _ := unstructured.NestedString(o.Object, "spec", "restartPolicy")
	if policy == "" || policy == string(corev1.RestartPolicyAlways) {
		return 0, nil
	}
	pod, err := typedAs[corev1.Pod](n.state, o)
	if err != nil {
		return 0, err
	}
	if pod.Status.StartTime != nil {
		if left := time.Until(pod.Status.StartTime.Add(n.options.RunFor)); left > 0 {
			return left, nil
		}
	}
	status := pod.Status.DeepCopy()
	setRunning(pod, status, false)
	status.Phase = corev1.PodSucceeded
	code := int32(0)
	if n.options.Fails != nil && n.options.Fails(o) {
		status.Phase, code = corev1.PodFailed, 1
	}
	for i := range status.ContainerStatuses {
		status.ContainerStatuses[i].Started = ptr.To(false)
		status.ContainerStatuses[i].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, FinishedAt: metav1.Now().Rfc3339Copy()}}
	}
	return 0, ignoreNotFound(n.putStatus(ctx, kubelet, of, o, status))
}
