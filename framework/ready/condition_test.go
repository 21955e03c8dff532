package ready_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/ready"
	v1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

// custom returns an object of an unknown kind, in its second generation.
func custom(status map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": map[string]any{"name": "g", "generation": int64(2)}, "status": status,
	}}
}

// is is a condition of an unstructured object.
func is(kind, status string, more ...any) map[string]any {
	c := map[string]any{"type": kind, "status": status, "reason": "Because", "message": "it says so"}
	for i := 0; i < len(more); i += 2 {
		c[more[i].(string)] = more[i+1]
	}
	return c
}

func withConditions(all ...any) map[string]any { return map[string]any{"conditions": all} }

func TestC102ConditionTrueOfUntypedObjects(t *testing.T) {
	checkRows(t, ready.Condition[*unstructured.Unstructured]("Ready"), []condition[*unstructured.Unstructured]{
		{"nil does not exist", nil, "not met: does not exist yet"},
		{"there is no status", custom(nil), "not met: has no condition Ready yet"},
		{"there are other conditions", custom(withConditions(is("Other", "True"))), "not met: has no condition Ready yet"},
		{"it is true", custom(withConditions(is("Other", "False"), is("Ready", "True"))), "met: Ready is True: Because: it says so"},
		{"it is false", custom(withConditions(is("Ready", "False"))), "not met: Ready is False: Because: it says so"},
		{"it is unknown", custom(withConditions(is("Ready", "Unknown"))), "not met: Ready is Unknown: Because: it says so"},
		{"a percent sign in the message is one", custom(withConditions(is("Ready", "False", "message", "50%d"))), "not met: Ready is False: Because: 50%d"},
		{"it is of another generation", custom(withConditions(is("Ready", "True", "observedGeneration", int64(1)))), "not met: generation 2 is not observed yet"},
		{"it is of the present generation", custom(withConditions(is("Ready", "True", "observedGeneration", int64(2)))), "met: Ready is True: Because: it says so"},
		{
			"the status is of another generation", custom(map[string]any{"observedGeneration": int64(1), "conditions": []any{is("Ready", "True")}}),
			"not met: generation 2 is not observed yet",
		},
		{
			"numbers may be of any form", custom(map[string]any{"observedGeneration": 1.0, "conditions": []any{is("Ready", "True")}}),
			"not met: generation 2 is not observed yet",
		},
		{"conditions of another form are none", custom(map[string]any{"conditions": map[string]any{"Ready": true}}), "not met: has no condition Ready yet"},
		{"it is being deleted", func() *unstructured.Unstructured {
			u := custom(withConditions(is("Ready", "True")))
			u.SetDeletionTimestamp(deleted(second).DeletionTimestamp)
			return u
		}(), "not met: is being deleted"},
	})
}

func TestC102ConditionTrueOfTypedObjects(t *testing.T) {
	page := func(conditions ...metav1.Condition) *v1.WebPage {
		return &v1.WebPage{ObjectMeta: second, Status: v1.WebPageStatus{Conditions: conditions}}
	}
	checkRows(t, ready.Condition[*v1.WebPage]("Ready"), []condition[*v1.WebPage]{
		{"nil does not exist", nil, "not met: does not exist yet"},
		{"there are no conditions", page(), "not met: has no condition Ready yet"},
		{"it is true", page(metav1.Condition{Type: "Ready", Status: "True", Reason: "Done"}), "met: Ready is True: Done"},
		{"it is of another generation", page(metav1.Condition{Type: "Ready", Status: "True", ObservedGeneration: 1}), "not met: generation 2 is not observed yet"},
	})
	checkRows(t, ready.Condition[*appsv1.Deployment]("Available"), []condition[*appsv1.Deployment]{
		{"conditions may be of a type of their own", deployment(three, appsv1.DeploymentStatus{Conditions: []appsv1.DeploymentCondition{
			{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, Reason: "MinimumReplicasAvailable"},
		}}), "met: Available is True: MinimumReplicasAvailable"},
		{"the status may be of another generation", deployment(three, appsv1.DeploymentStatus{Conditions: []appsv1.DeploymentCondition{
			{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue},
		}}, func(d *appsv1.Deployment) { d.Generation = 3 }), "not met: generation 3 is not observed yet"},
	})
	checkRows(t, ready.Condition[*corev1.ConfigMap]("Ready"), []condition[*corev1.ConfigMap]{
		{"a kind may have no status", &corev1.ConfigMap{}, "not met: has no condition Ready yet"},
	})
	checkRows(t, ready.Condition[*metav1.PartialObjectMetadata]("Ready"), []condition[*metav1.PartialObjectMetadata]{
		{"metadata tells nothing", &metav1.PartialObjectMetadata{}, "stalled: only its metadata is read, which does not show readiness"},
	})
	checkRows(t, ready.Condition[framework.Object]("Ready"), []condition[framework.Object]{
		{"nil of no type does not exist", nil, "not met: does not exist yet"},
	})
}

func TestC102CurrentOfCustomKinds(t *testing.T) {
	checkRows(t, ready.Current[*unstructured.Unstructured], []condition[*unstructured.Unstructured]{
		{"nil does not exist", nil, "not met: does not exist yet"},
		{"what tells nothing is current", custom(nil), "met: "},
		{"the present generation is not observed", custom(map[string]any{"observedGeneration": int64(1)}), "not met: generation 2 is not observed yet"},
		{"the present generation is observed", custom(map[string]any{"observedGeneration": int64(2)}), "met: "},
		{"it is reconciling", custom(withConditions(is("Ready", "True"), is("Reconciling", "True"))), "not met: Reconciling is True: Because: it says so"},
		{"it is not reconciling", custom(withConditions(is("Reconciling", "False"))), "met: "},
		{"it is stalled", custom(withConditions(is("Stalled", "True"))), "stalled: Stalled is True: Because: it says so"},
		{"it is not stalled", custom(withConditions(is("Stalled", "False"))), "met: "},
		{"it is ready", custom(withConditions(is("Ready", "True"))), "met: "},
		{"it is not ready", custom(withConditions(is("Ready", "False"))), "not met: Ready is False: Because: it says so"},
		{"nobody knows whether it is ready", custom(withConditions(is("Ready", "Unknown"))), "not met: Ready is Unknown: Because: it says so"},
		{"other conditions do not count", custom(withConditions(is("Available", "False"))), "met: "},
		{"it is being deleted", func() *unstructured.Unstructured {
			u := custom(nil)
			u.SetDeletionTimestamp(deleted(second).DeletionTimestamp)
			return u
		}(), "not met: is being deleted"},
	})
}

func TestC102CurrentOfBuiltInKinds(t *testing.T) {
	one := int32(1)
	for _, row := range []struct {
		name, apiVersion, kind string
		object                 framework.Object
		want                   string
	}{
		{"a ConfigMap is always current", "v1", "ConfigMap", &corev1.ConfigMap{}, "met: "},
		{"an Ingress is always current", "networking.k8s.io/v1", "Ingress", &networkingv1.Ingress{}, "met: "},
		{"a Deployment by its rule", "apps/v1", "Deployment", deployment(three, appsv1.DeploymentStatus{Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 1}), "not met: 1 of 3 replicas are up to date and available"},
		{"a Deployment that nobody has seen yet", "apps/v1", "Deployment", &appsv1.Deployment{ObjectMeta: second}, "not met: 0 of 1 replicas are up to date and available"},
		{"a StatefulSet by its rule", "apps/v1", "StatefulSet", statefulSet(appsv1.StatefulSetStatus{Replicas: 3, UpdatedReplicas: 3, ReadyReplicas: 1}), "not met: 1 of 3 replicas are ready"},
		{"a DaemonSet by its rule", "apps/v1", "DaemonSet", &appsv1.DaemonSet{ObjectMeta: second}, "not met: generation 2 is not observed yet"},
		{"a ReplicaSet that nobody has seen yet", "apps/v1", "ReplicaSet", &appsv1.ReplicaSet{ObjectMeta: second}, "not met: generation 2 is not observed yet"},
		{"a ReplicaSet that is available", "apps/v1", "ReplicaSet", &appsv1.ReplicaSet{Status: appsv1.ReplicaSetStatus{Replicas: 1, AvailableReplicas: 1}}, "met: 1 of 1 replicas are available"},
		{"a ReplicaSet that is not available", "apps/v1", "ReplicaSet", &appsv1.ReplicaSet{Status: appsv1.ReplicaSetStatus{Replicas: 1}}, "not met: 0 of 1 replicas are available"},
		{"a ReplicaSet with one too many", "apps/v1", "ReplicaSet", &appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Replicas: &one}, Status: appsv1.ReplicaSetStatus{Replicas: 2, AvailableReplicas: 2}}, "not met: 1 replicas too many are not gone yet"},
		{"a ReplicaSet that cannot create Pods", "apps/v1", "ReplicaSet", &appsv1.ReplicaSet{Status: appsv1.ReplicaSetStatus{Conditions: []appsv1.ReplicaSetCondition{
			{Type: appsv1.ReplicaSetReplicaFailure, Status: "True", Reason: "FailedCreate", Message: "quota"},
		}}}, "not met: FailedCreate: quota"},
		{"a Pod by its rule", "v1", "Pod", pod(corev1.PodStatus{Phase: corev1.PodFailed}), "stalled: has failed"},
		{"a Job that has not started", "batch/v1", "Job", job(&one, batchv1.JobStatus{}), "not met: has not started yet"},
		{"a Job that runs", "batch/v1", "Job", job(&one, batchv1.JobStatus{StartTime: deleted(second).DeletionTimestamp}), "met: 0 of 1 Pods have succeeded"},
		{"a Job that is suspended", "batch/v1", "Job", job(&one, batchv1.JobStatus{}, suspended), "met: is suspended"},
		{"a Job that has failed", "batch/v1", "Job", job(&one, jobIs(batchv1.JobFailed)), "stalled: has failed: BackoffLimitExceeded: too often"},
		{"a claim by its rule", "v1", "PersistentVolumeClaim", &corev1.PersistentVolumeClaim{}, "not met: is not bound"},
		{"a Service within the cluster", "v1", "Service", &corev1.Service{}, "met: "},
		{"a Service without an address", "v1", "Service", &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}}, "not met: has no address of a load balancer yet"},
		{"a Service with an address of its own", "v1", "Service", &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, ExternalIPs: []string{"192.0.2.1"}}}, "met: "},
		{"a Service with an address", "v1", "Service", &corev1.Service{
			Spec:   corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer},
			Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}}},
		}, "met: "},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := said(ready.Current(row.object)); got != row.want {
				t.Errorf("typed: says %q, want %q", got, row.want)
			}
			untyped := &unstructured.Unstructured{Object: unstructuredly(t, row.object, row.apiVersion, row.kind)}
			if got := said(ready.Current(untyped)); got != row.want {
				t.Errorf("untyped: says %q, want %q", got, row.want)
			}
		})
	}
	t.Run("a built-in kind of another form is not read", func(t *testing.T) {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Service", "spec": "none"}}
		if v := ready.Current(u); v.Met {
			t.Error(said(v))
		}
	})
	t.Run("the same kind of another group has no such rule", func(t *testing.T) {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "serving.knative.dev/v1", "kind": "Service", "spec": map[string]any{"type": "LoadBalancer"}}}
		if v := ready.Current(u); !v.Met {
			t.Error(said(v))
		}
	})
}

func TestC102CurrentOfDefinitions(t *testing.T) {
	definition := func(all ...any) *unstructured.Unstructured {
		u := custom(withConditions(all...))
		u.SetAPIVersion("apiextensions.k8s.io/v1")
		u.SetKind("CustomResourceDefinition")
		return u
	}
	checkRows(t, ready.Current[*unstructured.Unstructured], []condition[*unstructured.Unstructured]{
		{"nobody has seen it yet", definition(), "not met: g is not served yet"},
		{"it is established", definition(is("NamesAccepted", "True"), is("Established", "True")), "met: g is served"},
		{"it is not established yet", definition(is("NamesAccepted", "True"), is("Established", "False")), "not met: g is not served yet"},
		{"its names are taken", definition(is("NamesAccepted", "False"), is("Established", "False")), "stalled: g is not served: NamesAccepted is False: Because: it says so"},
	})
}
