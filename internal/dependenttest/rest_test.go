package dependenttest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/dependent"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

const gizmoDefinition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gizmos.dependents.evenkeel.dev}
spec:
  group: dependents.evenkeel.dev
  names: {kind: Gizmo, listKind: GizmoList, plural: gizmos, singular: gizmo}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              size: {type: integer}
              color: {type: string, default: red}
              parts:
                type: array
                items: {type: object, properties: {name: {type: string}, count: {type: integer, default: 1}}}`

// The policy changes what is applied, of all who apply.
const policy = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: forced.dependents.evenkeel.dev}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: ["v1"], operations: ["CREATE", "UPDATE"], resources: ["configmaps"]}
  matchConditions:
  - {name: named, expression: 'object.metadata.name.endsWith("-mutated")'}
  failurePolicy: Fail
  reinvocationPolicy: Never
  mutations:
  - patchType: JSONPatch
    jsonPatch:
      expression: '[JSONPatch{op: "add", path: "/data/data", value: "the policy says so"}, JSONPatch{op: "add", path: "/data/more", value: "x"}]'
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: forced.dependents.evenkeel.dev}
spec: {policyName: forced.dependents.evenkeel.dev}`

var gizmoKind = webPageKind.GroupVersion().WithKind("Gizmo")

func init() { gizmoKind.Group = "dependents.evenkeel.dev" }

var installGizmos = sync.OnceFunc(func() { install(gizmoDefinition) })

// meta is that of an object of a page, with a label that others may scribble on.
func meta(page *Page) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: page.Namespace, Name: page.Name, Labels: map[string]string{"ours": "yes"}}
}

// podOf is written in ways that the server normalises, or drops.
func podOf(page *Page) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": page.Name}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "c", Image: "nginx",
			Env: []corev1.EnvVar{{Name: "EMPTY", Value: ""}, {Name: "FULL", Value: "x"}},
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("1000m"), corev1.ResourceMemory: resource.MustParse("1024Mi"),
			}},
		}}},
	}
}

// desiring is a node of a kind, whose object a function completes.
func desiring[S framework.Object](name string, made func(page *Page) S) *dependent.Kubernetes[*Page, S] {
	return &dependent.Kubernetes[*Page, S]{Name: name, Desired: func(_ context.Context, page *Page, _ *pageContext) (S, error) {
		return made(page), nil
	}}
}

func deploymentOf(page *Page) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: meta(page), Spec: appsv1.DeploymentSpec{
		Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": page.Name}}, Template: podOf(page),
	}}
}

func statefulSetOf(page *Page) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{ObjectMeta: meta(page), Spec: appsv1.StatefulSetSpec{
		Replicas: new(int32(0)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": page.Name}}, Template: podOf(page),
		ServiceName: page.Name,
		VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
			ObjectMeta: metav1.ObjectMeta{Name: "data"},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1024Mi")}},
			},
		}},
	}}
}

func serviceOf(page *Page) *corev1.Service {
	return &corev1.Service{ObjectMeta: meta(page), Spec: corev1.ServiceSpec{
		Selector: map[string]string{"app": page.Name}, Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromString("http")}},
	}}
}

func ingressOf(page *Page) *networkingv1.Ingress {
	return &networkingv1.Ingress{ObjectMeta: meta(page), Spec: networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{{
		Host: "x.example.com", IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{{
			Path: "/", PathType: new(networkingv1.PathTypePrefix), Backend: networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
				Name: page.Name, Port: networkingv1.ServiceBackendPort{Number: 80},
			}},
		}}}},
	}}}}
}

func jobOf(page *Page) *batchv1.Job {
	j := &batchv1.Job{ObjectMeta: meta(page), Spec: batchv1.JobSpec{Template: podOf(page)}}
	j.Spec.Template.Labels = nil
	j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	j.Spec.Template.Spec.Containers[0].Args = []string{page.Spec.HTML}
	return j
}

func secretOf(page *Page) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: meta(page), StringData: map[string]string{"said": "x"}, Data: map[string][]byte{"raw": []byte("y")}}
}

func autoscalerOf(page *Page) *autoscalingv2.HorizontalPodAutoscaler {
	return &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: meta(page), Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: page.Name},
		MinReplicas:    new(int32(1)), MaxReplicas: 1,
	}}
}

func gizmoOf(page *Page) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": 3, "parts": []any{map[string]any{"name": "wheel"}}}}}
	u.SetGroupVersionKind(gizmoKind)
	u.SetNamespace(page.Namespace)
	u.SetName(page.Name)
	u.SetLabels(map[string]string{"ours": "yes"})
	return u
}

func mutatedOf(page *Page) *corev1.ConfigMap {
	o := &corev1.ConfigMap{ObjectMeta: meta(page), Data: map[string]string{"data": "ours"}}
	o.Name += "-mutated"
	return o
}

// everyKind are dependents of all the kinds that other frameworks have had endless loops with.
func everyKind() []framework.Dependent[*Page] {
	gizmo := desiring("gizmo", gizmoOf)
	gizmo.Secondary.GroupVersionKind = gizmoKind
	return []framework.Dependent[*Page]{
		desiring("deployment", deploymentOf), desiring("statefulset", statefulSetOf), desiring("service", serviceOf),
		desiring("ingress", ingressOf), desiring("job", jobOf), desiring("secret", secretOf), desiring("autoscaler", autoscalerOf),
		desiring("serviceaccount", func(page *Page) *corev1.ServiceAccount { return &corev1.ServiceAccount{ObjectMeta: meta(page)} }),
		desiring("configmap", func(page *Page) *corev1.ConfigMap {
			return &corev1.ConfigMap{ObjectMeta: meta(page), Data: map[string]string{"data": "x", "empty": ""}}
		}),
		gizmo, desiring("mutated", mutatedOf),
	}
}

var _ = Describe("Objects of every kind", Ordered, func() {
	var (
		r       *rig
		page    *Page
		objects map[string]client.Object
		ns      string
	)
	options := func() pageOptions {
		o := managing(everyKind()...)
		o.MaxInterval = 500 * time.Millisecond
		return o
	}
	versions := func() map[string]string {
		all := map[string]string{}
		for name, o := range objects {
			Expect(admin.Get(ctx, client.ObjectKeyFromObject(o), o)).To(Succeed())
			all[name] = o.GetResourceVersion()
		}
		return all
	}
	// settle waits until nothing has been written, and no version has changed, for a while.
	settle := func() {
		GinkgoHelper()
		quiet, last := 0, ""
		Eventually(func() int {
			now := fmt.Sprint(len(r.writes()), versions())
			if quiet++; now != last {
				quiet, last = 0, now
			}
			return quiet
		}).WithPolling(100 * time.Millisecond).WithTimeout(2 * time.Minute).Should(BeNumerically(">=", 12))
		r.forget()
	}
	BeforeAll(func() {
		installGizmos()
		install(policy)
		ns = namespace()
		Eventually(func() string { // a fresh policy takes effect a moment later
			probe := mutatedOf(&Page{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "probe"}})
			Expect(admin.Create(ctx, probe)).To(Succeed())
			Expect(admin.Delete(ctx, probe)).To(Succeed())
			return probe.Data["data"]
		}).WithPolling(100 * time.Millisecond).Should(Equal("the policy says so"))
		r = operate(ns, nothing(), options())
		page = r.create("p", "<html/>")
		objects = map[string]client.Object{
			"deployment": deploymentOf(page), "statefulset": statefulSetOf(page), "service": serviceOf(page), "ingress": ingressOf(page),
			"job": jobOf(page), "secret": secretOf(page), "autoscaler": autoscalerOf(page), "gizmo": gizmoOf(page), "mutated": mutatedOf(page),
			"serviceaccount": &corev1.ServiceAccount{ObjectMeta: meta(page)}, "configmap": &corev1.ConfigMap{ObjectMeta: meta(page)},
		}
		Eventually(r.states(page)).Should(And(HaveLen(len(objects)), HaveEach("Ready")))
		settle()
	})

	It("SpecialResourcesDependentIT come to rest: resyncs write nothing (G12)", func() {
		before, runs := versions(), len(r.op.Records("webpage"))
		Eventually(func() int { return len(r.op.Records("webpage")) }).Should(BeNumerically(">=", runs+5))
		Expect(r.writes()).To(BeEmpty())
		Expect(versions()).To(Equal(before))
	})

	It("are not written when others change their status", func() {
		for name, patch := range map[string]string{
			"deployment": `{"status":{"conditions":[{"type":"example.com/Seen","status":"True","reason":"x","message":"x"}]}}`,
			"service":    `{"status":{"conditions":[{"type":"example.com/Seen","status":"True","reason":"x","message":"x","lastTransitionTime":"2020-01-01T00:00:00Z"}]}}`,
			"ingress":    `{"status":{"loadBalancer":{"ingress":[{"ip":"10.1.2.3"}]}}}`,
		} {
			version := objects[name].GetResourceVersion()
			Expect(admin.Status().Patch(ctx, objects[name], client.RawPatch("application/merge-patch+json", []byte(patch)))).To(Succeed())
			Expect(objects[name].GetResourceVersion()).NotTo(Equal(version), name)
		}
		runs := len(r.op.Records("webpage"))
		Eventually(func() int { return len(r.op.Records("webpage")) }).Should(BeNumerically(">=", runs+3))
		Expect(r.writes()).To(BeEmpty())
	})

	It("keep what other managers add, without a request", func() {
		for name, o := range objects {
			merge(o, `{"metadata":{"annotations":{"example.com/theirs":"x"}}}`)
			Expect(o.GetAnnotations()).To(HaveKeyWithValue("example.com/theirs", "x"), name)
		}
		runs := len(r.op.Records("webpage"))
		Eventually(func() int { return len(r.op.Records("webpage")) }).Should(BeNumerically(">=", runs+3))
		Expect(r.writes()).To(BeEmpty())
		versions() // reads the objects anew
		for name, o := range objects {
			Expect(o.GetAnnotations()).To(HaveKeyWithValue("example.com/theirs", "x"), name)
		}
		settle()
	})

	It("take back what others change, at one request for each edit", func() {
		for _, name := range slices.Sorted(maps.Keys(objects)) {
			o := objects[name]
			merge(o, `{"metadata":{"labels":{"ours":"scribbled"}}}`)
			Eventually(func() map[string]string { versions(); return o.GetLabels() }).Should(HaveKeyWithValue("ours", "yes"), name)
			Consistently(r.writes).Should(HaveLen(1), name)
			settle()
		}
	})

	It("are not written by an operator that starts anew", func() {
		r.stop()
		before := versions()
		r = operate(ns, nothing(), options())
		Eventually(r.states(page)).Should(And(HaveLen(len(objects)), HaveEach("Ready")))
		runs := len(r.op.Records("webpage"))
		Eventually(func() int { return len(r.op.Records("webpage")) }).Should(BeNumerically(">=", runs+3))
		Expect(versions()).To(Equal(before), "nothing was changed")
		Expect(len(r.writes())).To(BeNumerically("<=", len(objects)), "each was asked about once: %s", strings.Join(r.writes(), "\n"))
	})
})
