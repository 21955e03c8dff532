package dependenttest

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/dependent"
	"github.com/evenkeel/evenkeel/framework/workflow"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

// podsOf counts the Pods of a namespace that are not being deleted.
func podsOf(ns string) func() int {
	return func() int {
		var list corev1.PodList
		Expect(admin.List(ctx, &list, client.InNamespace(ns))).To(Succeed())
		n := 0
		for _, pod := range list.Items {
			if pod.DeletionTimestamp == nil {
				n++
			}
		}
		return n
	}
}

var _ = Describe("Dependents on a control plane", func() {
	var ns string
	BeforeEach(func() { ns = namespace() })
	nameOf := func(o client.Object, kind any) func() string {
		return func() string {
			switch kind.(type) {
			case *corev1.ConfigMap:
				return read[corev1.ConfigMap](o.GetNamespace(), o.GetName()).Name
			case *appsv1.Deployment:
				return read[appsv1.Deployment](o.GetNamespace(), o.GetName()).Name
			case *batchv1.Job:
				return read[batchv1.Job](o.GetNamespace(), o.GetName()).Name
			}
			return read[Page](o.GetNamespace(), o.GetName()).Name
		}
	}

	It("KubernetesDependentGarbageCollectionIT When the primary goes, the cluster removes them without a finalizer", func() {
		config := &configMap{Desired: htmlOf}
		deployment := desiring("deployment", deploymentOf)
		deployment.DependsOn = []string{"configmap"}
		r := operate(ns, nothing(), managing(config, deployment))
		page := r.create("p", "x")
		Eventually(r.states(page)).Should(Equal(map[string]string{"configmap": "Ready", "deployment": "Ready"}))
		Eventually(podsOf(ns)).Should(Equal(1))
		Expect(read[Page](ns, "p").Finalizers).To(BeEmpty())
		r.forget()
		Expect(admin.Delete(ctx, page)).To(Succeed())
		Eventually(nameOf(page, &corev1.ConfigMap{})).WithTimeout(garbageCollection).Should(BeEmpty())
		Eventually(nameOf(page, &appsv1.Deployment{})).WithTimeout(garbageCollection).Should(BeEmpty())
		Eventually(podsOf(ns)).WithTimeout(garbageCollection).Should(BeZero())
		Expect(r.writes()).To(BeEmpty())
	})

	It("KubernetesDependentGarbageCollectionIT When a condition turns false, it is deleted with what it owns, a Job too", func() {
		job := desiring("job", jobOf)
		job.ReconcilePrecondition = labelled("wanted")
		r := operate(ns, nothing(), managing(job))
		page := r.create("p", "x")
		merge(page, `{"metadata":{"labels":{"wanted":"yes"}}}`)
		Eventually(podsOf(ns)).Should(Equal(1))
		merge(page, `{"metadata":{"labels":{"wanted":null}}}`)
		Eventually(nameOf(page, &batchv1.Job{})).Should(BeEmpty())
		Eventually(podsOf(ns)).WithTimeout(garbageCollection).Should(BeZero())
	})

	It("replaces a Job whose template the server refuses to change, and no other", func() {
		job := desiring("job", jobOf)
		job.Replace = true
		r := operate(ns, nothing(), managing(job))
		page := r.create("p", "one")
		Eventually(r.states(page)).Should(HaveKeyWithValue("job", "Ready"))
		first := read[batchv1.Job](ns, "p")
		merge(page, `{"spec":{"html":"two"}}`)
		Eventually(func() []string {
			if now := read[batchv1.Job](ns, "p"); now.UID != first.UID && now.Name != "" {
				return now.Spec.Template.Spec.Containers[0].Args
			}
			return nil
		}).Should(Equal([]string{"two"}))
		Eventually(r.states(page)).Should(HaveKeyWithValue("job", "Ready"))
	})

	It("fails on such a Job without Replace, and leaves it", func() {
		r := operate(ns, nothing(), managing(desiring("job", jobOf)))
		page := r.create("p", "one")
		Eventually(r.states(page)).Should(HaveKeyWithValue("job", "Ready"))
		first := read[batchv1.Job](ns, "p")
		merge(page, `{"spec":{"html":"two"}}`)
		Eventually(r.states(page)).Should(HaveKeyWithValue("job", "Failed"))
		Expect(read[batchv1.Job](ns, "p").UID).To(Equal(first.UID))
	})

	It("DependentDifferentNamespaceIT When an object is cluster-scoped or elsewhere, marks tie it, and it goes with the primary", func() {
		elsewhere := namespace()
		role := &dependent.Kubernetes[*Page, *rbacv1.ClusterRole]{Tie: dependent.Referenced}
		role.Desired = func(_ context.Context, page *Page, _ *pageContext) (*rbacv1.ClusterRole, error) {
			return &rbacv1.ClusterRole{
				ObjectMeta: metav1.ObjectMeta{Name: page.Namespace + "-" + page.Name},
				Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{page.Spec.HTML}}},
			}, nil
		}
		role.Secondary.Namespaces = []string{framework.AllNamespaces}
		config := &configMap{Tie: dependent.Referenced, DependsOn: []string{"clusterrole"}}
		config.Desired = func(_ context.Context, page *Page, _ *pageContext) (*corev1.ConfigMap, error) {
			return dataOf(elsewhere, page.Name, page.Spec.HTML), nil
		}
		config.Secondary.Namespaces = []string{elsewhere}
		r := operate(ns, nothing(), managing(role, config))
		page := r.create("p", "get")
		Eventually(r.states(page)).Should(Equal(map[string]string{"clusterrole": "Ready", "configmap": "Ready"}))
		merge(dataOf(elsewhere, "p", ""), `{"data":{"data":"scribbled"}}`)
		Eventually(func() string { return read[corev1.ConfigMap](elsewhere, "p").Data["data"] }).Should(Equal("get"))
		merge(page, `{"spec":{"html":"list"}}`)
		Eventually(func() []rbacv1.PolicyRule { return read[rbacv1.ClusterRole]("", ns+"-p").Rules }).Should(HaveLen(1))
		Expect(admin.Delete(ctx, page)).To(Succeed())
		Eventually(nameOf(page, page)).Should(BeEmpty())
		Expect(read[rbacv1.ClusterRole]("", ns+"-p").Name).To(BeEmpty())
		Expect(read[corev1.ConfigMap](elsewhere, "p").Name).To(BeEmpty())
	})

	It("OperatorRestartIT When restarted, then what changed meanwhile is reconciled, and nothing is made twice", func() {
		dependents := func() []framework.Dependent[*Page] {
			return []framework.Dependent[*Page]{&configMap{Desired: htmlOf}, &configMaps{Name: "words", Desired: words}}
		}
		r := operate(ns, nothing(), managing(dependents()...))
		page := r.create("p", "a=1 b=1")
		Eventually(r.states(page)).Should(HaveEach("Ready"))
		Eventually(func() string { return read[corev1.ConfigMap](ns, "p-b").Data["data"] }).Should(Equal("1"))
		r.stop()
		merge(page, `{"spec":{"html":"a=1 c=1"}}`)
		merge(dataOf(ns, "p-a", ""), `{"data":{"data":"scribbled"}}`)
		operate(ns, nothing(), managing(dependents()...))
		Eventually(func() string { return read[corev1.ConfigMap](ns, "p").Data["data"] }).Should(Equal("a=1 c=1"))
		Eventually(func() string { return read[corev1.ConfigMap](ns, "p-a").Data["data"] }).Should(Equal("1"))
		Eventually(func() string { return read[corev1.ConfigMap](ns, "p-c").Data["data"] }).Should(Equal("1"))
		Eventually(func() string { return read[corev1.ConfigMap](ns, "p-b").Name }).Should(BeEmpty())
	})

	It("DependentReInitializationIT When a dependent is given to a second operator, then it works", func() {
		config := &configMap{Desired: htmlOf, Tie: dependent.Referenced}
		for _, name := range []string{"p", "q"} {
			r := operate(ns, nothing(), managing(config))
			page := r.create(name, "x")
			Eventually(r.states(page)).Should(HaveKeyWithValue("configmap", "Ready"))
			Expect(read[corev1.ConfigMap](ns, name).Name).To(Equal(name))
			r.stop()
		}
	})

	It("GenericKubernetesDependentManagedIT When the type is untyped, then it is created, changed and deleted", func() {
		k := &dependent.Kubernetes[*Page, *unstructured.Unstructured]{Tie: dependent.OwnedAndDeleted}
		k.Secondary.GroupVersionKind = corev1.SchemeGroupVersion.WithKind("ConfigMap")
		k.Desired = func(_ context.Context, page *Page, _ *pageContext) (*unstructured.Unstructured, error) {
			u := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"data": page.Spec.HTML}}}
			u.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
			u.SetNamespace(page.Namespace)
			u.SetName(page.Name)
			return u, nil
		}
		r := operate(ns, nothing(), managing(k))
		page := r.create("p", "one")
		data := func() string { return read[corev1.ConfigMap](ns, "p").Data["data"] }
		Eventually(data).Should(Equal("one"))
		merge(page, `{"spec":{"html":"two"}}`)
		Eventually(data).Should(Equal("two"))
		Expect(admin.Delete(ctx, page)).To(Succeed())
		Eventually(nameOf(page, page)).Should(BeEmpty())
		Expect(data()).To(BeEmpty())
	})

	It("takes away what is not desired any more, as it was never created but applied", func() {
		config := &configMap{Desired: func(ctx context.Context, page *Page, c *pageContext) (*corev1.ConfigMap, error) {
			o, err := htmlOf(ctx, page, c)
			if page.Spec.HTML == "one" {
				o.Data["more"] = "x"
			}
			return o, err
		}}
		r := operate(ns, nothing(), managing(config))
		page := r.create("p", "one")
		Eventually(func() map[string]string { return read[corev1.ConfigMap](ns, "p").Data }).Should(Equal(map[string]string{"data": "one", "more": "x"}))
		merge(page, `{"spec":{"html":"two"}}`)
		Eventually(func() map[string]string { return read[corev1.ConfigMap](ns, "p").Data }).Should(Equal(map[string]string{"data": "two"}))
	})

	It("DependentPrimaryIndexerIT When dependents map many-to-one, then a condition can use what the primary refers to", func() {
		source := &configMap{Name: "source", Access: dependent.ReadOnly, Key: func(page *Page) types.NamespacedName {
			return types.NamespacedName{Name: page.Spec.HTML}
		}}
		source.Ready = func(live *corev1.ConfigMap) workflow.Verdict {
			if live.Data["data"] == "go" {
				return workflow.Met()
			}
			return workflow.NotMet("it says %s", live.Data["data"])
		}
		copied := &configMap{Name: "copied", DependsOn: []string{"source"}}
		copied.Desired = func(_ context.Context, page *Page, c *pageContext) (*corev1.ConfigMap, error) {
			from, err := source.Get(c)
			if err != nil {
				return nil, err
			}
			return dataOf(page.Namespace, page.Name+"-copy", from.Data["data"]), nil
		}
		r := operate(ns, nothing(), managing(source, copied))
		first, second := r.create("p", "shared"), r.create("q", "shared")
		Eventually(r.states(first)).Should(Equal(map[string]string{"source": "NotReady", "copied": "Waiting"}))
		shared := dataOf(ns, "shared", "stop")
		Expect(admin.Create(ctx, shared)).To(Succeed())
		Consistently(r.states(first)).Should(HaveKeyWithValue("copied", "Waiting"))
		merge(shared, `{"data":{"data":"go"}}`)
		for _, page := range []*Page{first, second} {
			Eventually(r.states(page)).Should(Equal(map[string]string{"source": "Ready", "copied": "Ready"}))
			Expect(read[corev1.ConfigMap](ns, page.Name+"-copy").Data["data"]).To(Equal("go"))
		}
	})

	It("costs no request to find out that what is gone is gone", func() {
		config := &configMap{Desired: htmlOf, ReconcilePrecondition: labelled("wanted")}
		o := managing(config)
		o.MaxInterval = 100 * time.Millisecond
		r := operate(ns, nothing(), o)
		page := r.create("p", "x")
		Eventually(func() int { return len(r.op.Records("webpage")) }).Should(BeNumerically(">=", 5))
		Expect(r.states(page)()).To(HaveKeyWithValue("configmap", "Deleted"))
		Expect(r.writes()).To(BeEmpty())
	})
})
