package ready

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/conditions"
	"github.com/evenkeel/evenkeel/framework/workflow"
)

// Current is met by an object, typed or unstructured, that is as its specification says, by the
// rules of kstatus (https://github.com/kubernetes-sigs/cli-utils/tree/master/pkg/kstatus). Its
// controller must have observed the present generation. It must have neither the condition
// Reconciling nor Stalled; Stalled makes the verdict stalled. Built-in kinds then have their own
// rules, and all others follow their condition Ready.
//
// An object without such information is current, and so is a custom resource that its controller
// has not seen yet: for kinds that always get a condition, use [Condition]. A Job that runs is
// current, as in kstatus; see [Job]. Unlike in kstatus, a Pod that has failed stalls, and a Service
// of type LoadBalancer waits for its address. An object of which only the metadata is read never
// meets it.
func Current[S framework.Object](o S) workflow.Verdict {
	if isNil(o) {
		return nonexistent()
	}
	status, v, wrong := presentStatus(o)
	if wrong {
		return v
	}
	if c := status.condition(conditions.Reconciling); c != nil && c.status == string(metav1.ConditionTrue) {
		return workflow.NotMet(c.text())
	}
	if c := status.condition(conditions.Stalled); c != nil && c.status == string(metav1.ConditionTrue) {
		return workflow.Stalled(c.text())
	}
	typed, err := asBuiltIn(o)
	if err != nil {
		return workflow.NotMet("cannot be read: %v", err)
	}
	if v, known := currentByKind(typed); known {
		return v
	}
	if c := status.condition(conditions.Ready); c != nil && c.status != string(metav1.ConditionTrue) {
		return workflow.NotMet(c.text())
	}
	return workflow.Met()
}

// currentByKind applies the rules of built-in kinds.
func currentByKind(o framework.Object) (v workflow.Verdict, known bool) {
	switch o := o.(type) {
	case *appsv1.Deployment:
		return Deployment(o), true
	case *appsv1.StatefulSet:
		return StatefulSet(o), true
	case *appsv1.DaemonSet:
		return DaemonSet(o), true
	case *appsv1.ReplicaSet:
		return replicaSetAvailable(o), true
	case *batchv1.Job:
		return jobUnderWay(o), true
	case *corev1.Pod:
		if o.Status.Phase == corev1.PodSucceeded {
			return met("has completed"), true
		}
		return Pod(o), true
	case *corev1.PersistentVolumeClaim:
		return PersistentVolumeClaim(o), true
	case *corev1.Service:
		return serviceReachable(o), true
	case *unstructured.Unstructured:
		if o.GroupVersionKind().GroupKind() == definitionKind.GroupKind() {
			return definitionServes(o, ""), true
		}
	}
	return workflow.Verdict{}, false
}

// asBuiltIn converts an unstructured object of a kind with a rule to its Go type, and returns
// others as they are.
func asBuiltIn(o framework.Object) (framework.Object, error) {
	u, is := o.(*unstructured.Unstructured)
	if !is {
		return o, nil
	}
	typed := builtIn(u.GroupVersionKind())
	if typed == nil {
		return o, nil
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, typed); err != nil {
		return nil, fmt.Errorf("it is not a %s: %w", u.GetKind(), err)
	}
	return typed, nil
}

// builtIn returns an empty object of a kind with a rule, or nil.
func builtIn(gvk schema.GroupVersionKind) framework.Object {
	switch gvk {
	case appsv1.SchemeGroupVersion.WithKind("Deployment"):
		return &appsv1.Deployment{}
	case appsv1.SchemeGroupVersion.WithKind("StatefulSet"):
		return &appsv1.StatefulSet{}
	case appsv1.SchemeGroupVersion.WithKind("DaemonSet"):
		return &appsv1.DaemonSet{}
	case appsv1.SchemeGroupVersion.WithKind("ReplicaSet"):
		return &appsv1.ReplicaSet{}
	case batchv1.SchemeGroupVersion.WithKind("Job"):
		return &batchv1.Job{}
	case corev1.SchemeGroupVersion.WithKind("Pod"):
		return &corev1.Pod{}
	case corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"):
		return &corev1.PersistentVolumeClaim{}
	case corev1.SchemeGroupVersion.WithKind("Service"):
		return &corev1.Service{}
	}
	return nil
}
