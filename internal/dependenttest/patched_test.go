package dependenttest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/dependent"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

// kindOfObject is a built-in kind, whose objects are desired with lists, quantities and what else
// servers complete.
type kindOfObject struct {
	name string
	node func(access dependent.Access) framework.Dependent[*Page]
	made func(page *Page) client.Object
}

func kindNamed[S client.Object](name string, made func(page *Page) S) kindOfObject {
	node := func(access dependent.Access) framework.Dependent[*Page] {
		k := desiring(name, made)
		k.Access = access
		if made(&Page{}).GetNamespace() == "" && made(&Page{ObjectMeta: metav1.ObjectMeta{Namespace: "x"}}).GetNamespace() == "" {
			k.Tie, k.Secondary.Namespaces = dependent.Referenced, []string{framework.AllNamespaces}
		}
		return k
	}
	return kindOfObject{name, node, func(page *Page) client.Object { return made(page) }}
}

// clusterMeta is meta of a cluster-scoped object.
func clusterMeta(page *Page) metav1.ObjectMeta {
	m := meta(page)
	m.Namespace, m.Name = "", page.Namespace+"-"+page.Name
	return m
}

func webhookOf(name string) admissionv1.WebhookClientConfig {
	return admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: "default", Name: name}}
}

func podLabels(page *Page) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": page.Name}}
}

// podDefaulted has lists of all sorts, of which the server completes the items.
func podDefaulted(page *Page) corev1.PodTemplateSpec {
	pod := podOf(page)
	c := &pod.Spec.Containers[0]
	c.Ports = []corev1.ContainerPort{{Name: "dns", ContainerPort: 53}, {Name: "dns-udp", ContainerPort: 53, Protocol: corev1.ProtocolUDP}}
	c.Env = append(c.Env, corev1.EnvVar{Name: "POD", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}})
	c.LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(80)}}}
	c.VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
	pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: page.Name}, Optional: new(true),
	}}}}
	pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: "kubernetes.io/hostname", WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: podLabels(page),
	}}
	pod.Spec.Tolerations = []corev1.Toleration{{Key: "x", Operator: corev1.TolerationOpExists}}
	return pod
}

// builtInKinds are all that an operator may own.
func builtInKinds() []kindOfObject {
	storage := corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1024Mi")}}
	rules := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}}}
	subjects := func(page *Page) []rbacv1.Subject {
		return []rbacv1.Subject{{Kind: "ServiceAccount", Name: page.Name, Namespace: page.Namespace}, {Kind: "User", Name: "x"}}
	}
	webhookRules := []admissionv1.RuleWithOperations{{
		Operations: []admissionv1.OperationType{admissionv1.Create},
		Rule:       admissionv1.Rule{APIGroups: []string{"none.example.com"}, APIVersions: []string{"v1"}, Resources: []string{"nones"}},
	}}
	job := func(page *Page) batchv1.JobSpec {
		spec := batchv1.JobSpec{Template: podDefaulted(page), Suspend: new(true)}
		spec.Template.Labels, spec.Template.Spec.RestartPolicy = nil, corev1.RestartPolicyNever
		return spec
	}
	return []kindOfObject{
		kindNamed("configmap", func(page *Page) *corev1.ConfigMap {
			return &corev1.ConfigMap{ObjectMeta: meta(page), Data: map[string]string{"data": "x", "empty": ""}}
		}),
		kindNamed("secret", secretOf),
		kindNamed("service", func(page *Page) *corev1.Service {
			s := serviceOf(page)
			s.Spec.Type = corev1.ServiceTypeNodePort
			s.Spec.Ports = []corev1.ServicePort{
				{Name: "dns", Port: 53, TargetPort: intstr.FromString("dns")}, {Name: "udp", Port: 53, Protocol: corev1.ProtocolUDP},
			}
			return s
		}),
		kindNamed("serviceaccount", func(page *Page) *corev1.ServiceAccount {
			return &corev1.ServiceAccount{ObjectMeta: meta(page), ImagePullSecrets: []corev1.LocalObjectReference{{Name: "x"}}}
		}),
		kindNamed("persistentvolumeclaim", func(page *Page) *corev1.PersistentVolumeClaim {
			return &corev1.PersistentVolumeClaim{ObjectMeta: meta(page), Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, Resources: storage, StorageClassName: new("none"),
			}}
		}),
		kindNamed("persistentvolume", func(page *Page) *corev1.PersistentVolume {
			return &corev1.PersistentVolume{ObjectMeta: clusterMeta(page), Spec: corev1.PersistentVolumeSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: "none",
				Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1024Mi")},
				PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/none"}},
			}}
		}),
		kindNamed("pod", func(page *Page) *corev1.Pod {
			pod := podDefaulted(page)
			p := &corev1.Pod{ObjectMeta: meta(page), Spec: pod.Spec}
			p.Spec.SchedulerName = "nobody"
			return p
		}),
		kindNamed("podtemplate", func(page *Page) *corev1.PodTemplate {
			return &corev1.PodTemplate{ObjectMeta: meta(page), Template: podDefaulted(page)}
		}),
		kindNamed("replicationcontroller", func(page *Page) *corev1.ReplicationController {
			template := podDefaulted(page)
			return &corev1.ReplicationController{ObjectMeta: meta(page), Spec: corev1.ReplicationControllerSpec{
				Replicas: new(int32(0)), Selector: podLabels(page).MatchLabels, Template: &template,
			}}
		}),
		kindNamed("limitrange", func(page *Page) *corev1.LimitRange {
			return &corev1.LimitRange{ObjectMeta: meta(page), Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
				Type: corev1.LimitTypePersistentVolumeClaim, Max: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2048Gi")},
			}}}}
		}),
		kindNamed("resourcequota", func(page *Page) *corev1.ResourceQuota {
			return &corev1.ResourceQuota{ObjectMeta: meta(page), Spec: corev1.ResourceQuotaSpec{
				Hard: corev1.ResourceList{"count/leases.coordination.k8s.io": resource.MustParse("1000")},
			}}
		}),
		kindNamed("namespace", func(page *Page) *corev1.Namespace { return &corev1.Namespace{ObjectMeta: clusterMeta(page)} }),
		kindNamed("deployment", func(page *Page) *appsv1.Deployment {
			d := deploymentOf(page)
			d.Spec.Replicas, d.Spec.Template = new(int32(0)), podDefaulted(page)
			return d
		}),
		kindNamed("statefulset", func(page *Page) *appsv1.StatefulSet {
			s := statefulSetOf(page)
			s.Spec.Template = podDefaulted(page)
			return s
		}),
		kindNamed("daemonset", func(page *Page) *appsv1.DaemonSet {
			d := &appsv1.DaemonSet{ObjectMeta: meta(page), Spec: appsv1.DaemonSetSpec{Selector: podLabels(page), Template: podDefaulted(page)}}
			d.Spec.Template.Spec.NodeSelector = map[string]string{"none": "none"}
			return d
		}),
		kindNamed("replicaset", func(page *Page) *appsv1.ReplicaSet {
			return &appsv1.ReplicaSet{ObjectMeta: meta(page), Spec: appsv1.ReplicaSetSpec{
				Replicas: new(int32(0)), Selector: podLabels(page), Template: podDefaulted(page),
			}}
		}),
		kindNamed("controllerrevision", func(page *Page) *appsv1.ControllerRevision {
			return &appsv1.ControllerRevision{ObjectMeta: meta(page), Revision: 1, Data: runtime.RawExtension{Raw: []byte(`{"a":[1]}`)}}
		}),
		kindNamed("job", func(page *Page) *batchv1.Job { return &batchv1.Job{ObjectMeta: meta(page), Spec: job(page)} }),
		kindNamed("cronjob", func(page *Page) *batchv1.CronJob {
			return &batchv1.CronJob{ObjectMeta: meta(page), Spec: batchv1.CronJobSpec{
				Schedule: "0 0 1 1 *", Suspend: new(true), JobTemplate: batchv1.JobTemplateSpec{Spec: job(page)},
			}}
		}),
		kindNamed("autoscaler", autoscalerOf),
		kindNamed("disruptionbudget", func(page *Page) *policyv1.PodDisruptionBudget {
			return &policyv1.PodDisruptionBudget{ObjectMeta: meta(page), Spec: policyv1.PodDisruptionBudgetSpec{
				MaxUnavailable: new(intstr.FromString("50%")), Selector: podLabels(page),
			}}
		}),
		kindNamed("ingress", ingressOf),
		kindNamed("ingressclass", func(page *Page) *networkingv1.IngressClass {
			return &networkingv1.IngressClass{ObjectMeta: clusterMeta(page), Spec: networkingv1.IngressClassSpec{
				Controller: "example.com/none", Parameters: &networkingv1.IngressClassParametersReference{Kind: "None", Name: "none"},
			}}
		}),
		kindNamed("networkpolicy", func(page *Page) *networkingv1.NetworkPolicy {
			return &networkingv1.NetworkPolicy{ObjectMeta: meta(page), Spec: networkingv1.NetworkPolicySpec{
				PodSelector: *podLabels(page), Ingress: []networkingv1.NetworkPolicyIngressRule{{
					Ports: []networkingv1.NetworkPolicyPort{{Port: new(intstr.FromInt32(80))}},
					From:  []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{}}},
				}},
			}}
		}),
		kindNamed("endpointslice", func(page *Page) *discoveryv1.EndpointSlice {
			return &discoveryv1.EndpointSlice{
				ObjectMeta: meta(page), AddressType: discoveryv1.AddressTypeIPv4,
				Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.1.2.3"}}}, Ports: []discoveryv1.EndpointPort{{Port: new(int32(80))}},
			}
		}),
		kindNamed("role", func(page *Page) *rbacv1.Role { return &rbacv1.Role{ObjectMeta: meta(page), Rules: rules} }),
		kindNamed("rolebinding", func(page *Page) *rbacv1.RoleBinding {
			return &rbacv1.RoleBinding{ObjectMeta: meta(page), Subjects: subjects(page), RoleRef: rbacv1.RoleRef{Kind: "Role", Name: page.Name}}
		}),
		kindNamed("clusterrole", func(page *Page) *rbacv1.ClusterRole {
			return &rbacv1.ClusterRole{ObjectMeta: clusterMeta(page), Rules: rules}
		}),
		kindNamed("clusterrolebinding", func(page *Page) *rbacv1.ClusterRoleBinding {
			return &rbacv1.ClusterRoleBinding{
				ObjectMeta: clusterMeta(page), Subjects: subjects(page), RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: page.Name},
			}
		}),
		kindNamed("priorityclass", func(page *Page) *schedulingv1.PriorityClass {
			return &schedulingv1.PriorityClass{ObjectMeta: clusterMeta(page), Value: 7}
		}),
		kindNamed("storageclass", func(page *Page) *storagev1.StorageClass {
			return &storagev1.StorageClass{ObjectMeta: clusterMeta(page), Provisioner: "example.com/none", MountOptions: []string{"ro"}}
		}),
		kindNamed("csidriver", func(page *Page) *storagev1.CSIDriver {
			return &storagev1.CSIDriver{ObjectMeta: clusterMeta(page), Spec: storagev1.CSIDriverSpec{
				TokenRequests: []storagev1.TokenRequest{{Audience: "x"}},
			}}
		}),
		kindNamed("runtimeclass", func(page *Page) *nodev1.RuntimeClass {
			return &nodev1.RuntimeClass{ObjectMeta: clusterMeta(page), Handler: "none", Scheduling: &nodev1.Scheduling{
				Tolerations: []corev1.Toleration{{Key: "x"}},
			}}
		}),
		kindNamed("lease", func(page *Page) *coordinationv1.Lease {
			return &coordinationv1.Lease{ObjectMeta: meta(page), Spec: coordinationv1.LeaseSpec{
				HolderIdentity: new("x"), RenewTime: &metav1.MicroTime{Time: time.Unix(1e9, 123456000)},
			}}
		}),
		kindNamed("validatingwebhook", func(page *Page) *admissionv1.ValidatingWebhookConfiguration {
			return &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: clusterMeta(page), Webhooks: []admissionv1.ValidatingWebhook{{
				Name: "v.example.com", ClientConfig: webhookOf(page.Name), Rules: webhookRules,
				SideEffects: new(admissionv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
			}}}
		}),
		kindNamed("mutatingwebhook", func(page *Page) *admissionv1.MutatingWebhookConfiguration {
			return &admissionv1.MutatingWebhookConfiguration{ObjectMeta: clusterMeta(page), Webhooks: []admissionv1.MutatingWebhook{{
				Name: "m.example.com", ClientConfig: webhookOf(page.Name), Rules: webhookRules,
				SideEffects: new(admissionv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
			}}}
		}),
		kindNamed("validatingpolicy", func(page *Page) *admissionv1.ValidatingAdmissionPolicy {
			return &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: clusterMeta(page), Spec: admissionv1.ValidatingAdmissionPolicySpec{
				MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: webhookRules[0]}}},
				Validations:      []admissionv1.Validation{{Expression: "true"}},
			}}
		}),
		kindNamed("validatingbinding", func(page *Page) *admissionv1.ValidatingAdmissionPolicyBinding {
			return &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: clusterMeta(page), Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName: page.Namespace + "-" + page.Name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
			}}
		}),
	}
}

var _ = Describe("Patched objects", Ordered, func() {
	var (
		r       *rig
		page    *Page
		objects map[string]client.Object
		ns      string
	)
	options := func(kinds []kindOfObject) pageOptions {
		var nodes []framework.Dependent[*Page]
		for _, kind := range kinds {
			nodes = append(nodes, kind.node(dependent.Patched))
		}
		o := managing(nodes...)
		o.MaxInterval = 500 * time.Millisecond
		return o
	}
	versions := func() map[string]string {
		all := map[string]string{}
		for name, o := range objects {
			Expect(admin.Get(ctx, client.ObjectKeyFromObject(o), o)).To(Succeed(), name)
			all[name] = o.GetResourceVersion()
		}
		return all
	}
	furtherRuns := func(n int) {
		GinkgoHelper()
		runs := len(r.op.Records("webpage"))
		Eventually(func() int { return len(r.op.Records("webpage")) }).Should(BeNumerically(">=", runs+n))
	}
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
		ns = namespace()
		kinds := builtInKinds()
		r = operate(ns, nothing(), options(kinds))
		page = r.create("p", "<html/>")
		objects = map[string]client.Object{}
		for _, kind := range kinds {
			objects[kind.name] = kind.made(page)
		}
		Eventually(r.states(page)).Should(And(HaveLen(len(objects)), HaveEach("Ready")))
		// kube-controller-manager binds the claim up to 15 s later, which changes it and its volume.
		Eventually(func() corev1.PersistentVolumeClaimPhase {
			versions()
			return objects["persistentvolumeclaim"].(*corev1.PersistentVolumeClaim).Status.Phase
		}).WithTimeout(2 * time.Minute).Should(Equal(corev1.ClaimBound))
		// It looks at the autoscaler for the first time after 15 s, and says in its status what it found.
		Eventually(func() []autoscalingv2.HorizontalPodAutoscalerCondition {
			versions()
			return objects["autoscaler"].(*autoscalingv2.HorizontalPodAutoscaler).Status.Conditions
		}).WithTimeout(2 * time.Minute).ShouldNot(BeEmpty())
		settle()
	})

	It("of every built-in kind come to rest: runs write nothing (G12)", func() {
		before := versions()
		furtherRuns(5)
		Expect(r.writes()).To(BeEmpty())
		Expect(versions()).To(Equal(before))
	})

	It("of every built-in kind are repaired by one request after an edit by others", func() {
		for _, name := range slices.Sorted(maps.Keys(objects)) {
			o := objects[name]
			merge(o, `{"metadata":{"labels":{"ours":"scribbled"}}}`)
			Eventually(func() map[string]string { versions(); return o.GetLabels() }).Should(HaveKeyWithValue("ours", "yes"), name)
			furtherRuns(2)
			Expect(r.writes()).To(HaveLen(1), name)
			r.forget() // a write that comes later counts against the next kind
		}
		before := versions()
		settle()
		Expect(versions()).To(Equal(before), "all are at rest since")
	})

	It("are repaired in lists, too, where items of others stay", func() {
		deployment := objects["deployment"]
		merge(deployment, `{"spec":{"template":{"spec":{"volumes":[{"name":"theirs","emptyDir":{}}],"containers":[
			{"name":"sidecar","image":"theirs"},{"name":"c","image":"scribbled","env":[{"name":"FULL","value":"scribbled"},{"name":"THEIRS","value":"x"}]}]}}}}`)
		containers := func() map[string]string {
			all := map[string]string{}
			var d appsv1.Deployment
			Expect(admin.Get(ctx, client.ObjectKeyFromObject(deployment), &d)).To(Succeed())
			for _, c := range d.Spec.Template.Spec.Containers {
				all[c.Name] = c.Image
				for _, e := range c.Env {
					all[c.Name+" "+e.Name] = e.Value
				}
			}
			for _, v := range d.Spec.Template.Spec.Volumes {
				all["volume "+v.Name] = ""
			}
			return all
		}
		Eventually(containers).Should(Equal(map[string]string{
			"sidecar": "theirs", "c": "nginx", "c EMPTY": "", "c FULL": "x", "c POD": "", "c THEIRS": "x", "volume theirs": "", "volume v": "",
		}))
		furtherRuns(2)
		Expect(r.carriedOut()).To(Equal(1), "the deployment controller may be faster once: %q", r.writes())
		settle()
	})

	It("are not changed by an operator that starts anew", func() {
		r.stop()
		before := versions()
		r = operate(ns, nothing(), options(builtInKinds()))
		Eventually(r.states(page)).Should(And(HaveLen(len(objects)), HaveEach("Ready")))
		furtherRuns(3)
		Expect(versions()).To(Equal(before), "nothing was changed")
		Expect(len(r.writes())).To(BeNumerically("<=", len(objects)), "each was asked about once: %s", strings.Join(r.writes(), "\n"))
	})

	It("of a custom kind come to rest, too, typed by nobody", func() {
		installGizmos()
		elsewhere := namespace()
		gizmo := &dependent.Kubernetes[*Page, *unstructured.Unstructured]{Access: dependent.Patched}
		gizmo.Desired = func(_ context.Context, page *Page, _ *pageContext) (*unstructured.Unstructured, error) {
			return gizmoOf(page), nil
		}
		gizmo.Secondary.GroupVersionKind = gizmoKind
		o := managing(gizmo)
		o.MaxInterval = 500 * time.Millisecond
		there := operate(elsewhere, nothing(), o)
		page := there.create("p", "<html/>")
		Eventually(there.states(page)).Should(HaveKeyWithValue("gizmo", "Ready"))
		Eventually(there.writes).Should(HaveLen(1))
		runs := len(there.op.Records("webpage"))
		Eventually(func() int { return len(there.op.Records("webpage")) }).Should(BeNumerically(">=", runs+4))
		Expect(there.writes()).To(HaveLen(1), "that made it")
	})

	It("are replaced under their very name, which that of a CustomResourceDefinition has to be", func() {
		elsewhere := namespace()
		definition := schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
		widgets := &dependent.Kubernetes[*Page, *unstructured.Unstructured]{Replace: true, Tie: dependent.Referenced}
		widgets.Secondary.GroupVersionKind, widgets.Secondary.Namespaces = definition, []string{framework.AllNamespaces}
		widgets.Desired = func(_ context.Context, page *Page, _ *pageContext) (*unstructured.Unstructured, error) {
			u := &unstructured.Unstructured{Object: map[string]any{
				"metadata": map[string]any{"name": "widgets.dependents.evenkeel.dev"},
				"spec": map[string]any{
					"group": "dependents.evenkeel.dev", "scope": page.Spec.HTML,
					"names": map[string]any{"kind": "Widget", "plural": "widgets"},
					"versions": []any{map[string]any{
						"name": "v1", "served": true, "storage": true,
						"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}},
					}},
				},
			}}
			u.SetGroupVersionKind(definition)
			return u, nil
		}
		there := operate(elsewhere, nothing(), managing(widgets))
		page := there.create("p", "Namespaced")
		now := func() *unstructured.Unstructured {
			u := &unstructured.Unstructured{}
			u.SetGroupVersionKind(definition)
			Expect(client.IgnoreNotFound(admin.Get(ctx, client.ObjectKey{Name: "widgets.dependents.evenkeel.dev"}, u))).To(Succeed())
			return u
		}
		// A server that cannot list the instances yet when their definition is deleted keeps the definition
		// for minutes ("storage is (re)initializing"), so each is used before it is deleted.
		served := func(scope string) {
			GinkgoHelper()
			Eventually(func(g Gomega) {
				is, _, _ := unstructured.NestedString(now().Object, "spec", "scope")
				g.Expect(is).To(Equal(scope))
				conditions, _, _ := unstructured.NestedSlice(now().Object, "status", "conditions")
				g.Expect(fmt.Sprint(conditions...)).To(MatchRegexp("status:True type:Established"))
				instances := &unstructured.UnstructuredList{}
				instances.SetGroupVersionKind(schema.GroupVersionKind{Group: "dependents.evenkeel.dev", Version: "v1", Kind: "WidgetList"})
				g.Expect(admin.List(ctx, instances)).To(Succeed())
			}).Should(Succeed())
		}
		served("Namespaced")
		first := now().GetUID()
		merge(page, `{"spec":{"html":"Cluster"}}`)
		served("Cluster")
		Expect(now().GetUID()).NotTo(Equal(first))
		Expect(admin.Delete(ctx, page)).To(Succeed())
		Eventually(func() string { return now().GetName() }).Should(BeEmpty())
	})
})
