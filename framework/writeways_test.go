package framework_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
	webpagev1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

var _ = Describe("The ways to write", func() {
	var (
		ns string
		r  *pages
		w  framework.Writes
		op *framework.Operator
	)
	BeforeEach(func() {
		ns = namespace()
		r = &pages{reconcile: func(context.Context, *Page, *pageContext) (pageUpdate, error) { return pageUpdate{}, nil }}
		op, _ = operate(ns, r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)})
		w = op.Writer("ours")
		Eventually(op.Ready).Should(Succeed())
	})
	configMap := func(data string) *corev1.ConfigMap { return configMapOf(newPage(ns, "m"), data) }

	It("names the fields and managers of a conflict between field managers", func() {
		_, err := framework.Apply(ctx, w, configMap("theirs"), framework.FieldManager("theirs"))
		Expect(err).NotTo(HaveOccurred())
		_, err = framework.Apply(ctx, w, configMap("ours"), framework.WithoutForce())
		var conflict *framework.FieldConflictError
		Expect(errors.As(err, &conflict)).To(BeTrue())
		Expect(conflict.Conflicts).To(Equal([]framework.FieldConflict{{Field: ".data.data", Manager: "theirs"}}))
		Expect(err).To(MatchError("framework: apply ConfigMap " + ns + "/m: other field managers own .data.data (theirs)"))
		Expect(err).To(Satisfy(apierrors.IsConflict))

		By("whatever the form of the object")
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(configMap("ours"))
		Expect(err).NotTo(HaveOccurred())
		untyped := &unstructuredObject{Object: content}
		untyped.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
		_, err = framework.Apply(ctx, w, untyped, framework.WithoutForce())
		Expect(err).To(MatchError("framework: apply ConfigMap " + ns + "/m: other field managers own .data.data (theirs)"))
	})

	It("C36 skips an apply that is known to change nothing, per field manager and intent", func() {
		for range 3 {
			_, err := framework.Apply(ctx, w, configMap("one"))
			Expect(err).NotTo(HaveOccurred())
		}
		version := read(configMap("")).ResourceVersion
		_, err := framework.Apply(ctx, w, configMap("one"), framework.FieldManager("others"))
		Expect(err).NotTo(HaveOccurred())
		now := read(configMap(""))
		Expect(now.ResourceVersion).NotTo(Equal(version), "the other manager owns it now, too")
		Expect(now.ManagedFields).To(HaveLen(2))
	})

	It("G01 G05 shows an object after a patch of its scale, whose answer is another kind", func() {
		deployment := appsv1.SchemeGroupVersion.WithKind("Deployment")
		found := framework.Secondary[*unstructuredObject]{GroupVersionKind: deployment, Map: func(*unstructuredObject) []types.NamespacedName { return nil }}
		op, _ := operate(ns, &pages{reconcile: r.reconcile}, pageOptions{Secondaries: framework.Secondaries(&found)})
		shown := func() framework.Object {
			return framework.ShownObject(op, deployment, types.NamespacedName{Namespace: ns, Name: "d"})
		}
		labels := map[string]string{"a": "b"}
		create(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "d"}, Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
			},
		}})
		Eventually(shown).ShouldNot(BeNil())
		about := &unstructuredObject{}
		about.SetGroupVersionKind(deployment)
		about.SetNamespace(ns)
		about.SetName("d")
		_, err := framework.MergePatch(ctx, op.Writer("ours"), about, []byte(`{"spec":{"replicas":0}}`), framework.Subresource("scale"))
		Expect(err).NotTo(HaveOccurred())
		now := shown().(*unstructuredObject)
		Expect(now.GetKind()).To(Equal("Deployment"))
		Expect(now.Object["spec"]).To(And(HaveKeyWithValue("replicas", BeEquivalentTo(0)), HaveKey("template")))
	})

	It("skips no apply because the same was applied to a sub-resource", func() {
		pods := framework.Secondary[*corev1.Pod]{Map: func(*corev1.Pod) []types.NamespacedName { return nil }}
		op, _ := operate(ns, &pages{reconcile: r.reconcile}, pageOptions{Secondaries: framework.Secondaries(&pods)})
		Eventually(op.Ready).Should(Succeed())
		w := op.Writer("ours")
		create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "p"}, Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "c", Image: "i"}}, AutomountServiceAccountToken: new(bool), ServiceAccountName: serviceAccount(ns),
		}})
		labelled := corev1apply.Pod("p", ns).WithLabels(map[string]string{"l": "x"})
		Eventually(func() string {
			return framework.Shown(op, corev1.SchemeGroupVersion.WithKind("Pod"), types.NamespacedName{Namespace: ns, Name: "p"})
		}).ShouldNot(BeEmpty())
		pod, err := framework.ApplyConfiguration[*corev1.Pod](ctx, w, labelled, framework.Subresource("ephemeralcontainers"))
		Expect(err).NotTo(HaveOccurred())
		Expect(pod.Labels).To(BeEmpty(), "that is not what this sub-resource is for")
		pod, err = framework.ApplyConfiguration[*corev1.Pod](ctx, w, labelled)
		Expect(err).NotTo(HaveOccurred())
		Expect(pod.Labels).To(HaveKeyWithValue("l", "x"))
	})

	It("takes apply configurations, for the object and its status", func() {
		applied, err := framework.ApplyConfiguration[*corev1.ConfigMap](ctx, w,
			corev1apply.ConfigMap("m", ns).WithData(map[string]string{"data": "generated"}).WithLabels(map[string]string{"a": ""}))
		Expect(err).NotTo(HaveOccurred())
		Expect(applied.Data).To(HaveKeyWithValue("data", "generated"))
		_, err = framework.ApplyConfiguration[*corev1.Secret](ctx, w, corev1apply.ConfigMap("m", ns))
		Expect(err).To(MatchError(ContainSubstring("the apply configuration is of /v1, Kind=ConfigMap")))
		created := create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "p"}, Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "c", Image: "i"}}, AutomountServiceAccountToken: new(bool), ServiceAccountName: serviceAccount(ns),
		}})
		pod, err := framework.ApplyConfiguration[*corev1.Pod](ctx, w,
			corev1apply.Pod(created.Name, ns).WithStatus(corev1apply.PodStatus().WithReason("Shown")), framework.Subresource("status"))
		Expect(err).NotTo(HaveOccurred())
		Expect(pod.Status.Reason).To(Equal("Shown"))
	})

	It("patches for the version it is told, or else the one that reads show, and never blindly again", func() {
		m := create(configMap("one"))
		read1, err := framework.MergePatch(ctx, w, m, []byte(`{"data":{"data":"two"}}`))
		Expect(err).NotTo(HaveOccurred())
		_, err = framework.MergePatch(ctx, w, m, []byte(`{"data":{"data":"three"}}`))
		Expect(err).To(Satisfy(apierrors.IsConflict))
		_, err = framework.JSONPatch(ctx, w, m, []byte(`[{"op":"replace","path":"/data/data","value":"three"}]`))
		Expect(err).To(Satisfy(apierrors.IsConflict))
		patched, err := framework.JSONPatch(ctx, w, configMap(""), []byte(`[{"op":"replace","path":"/data/data","value":"three"}]`))
		Expect(err).NotTo(HaveOccurred())
		Expect(patched.Data["data"]).To(Equal("three"))
		_, err = framework.MergePatch(ctx, w, read1, []byte(`{"data":{"data":"four"}}`), framework.Unconditional())
		Expect(err).NotTo(HaveOccurred())
		Expect(read(m).Data["data"]).To(Equal("four"))
		_, err = framework.MergePatch(ctx, w, configMap(""), []byte(`[1]`))
		Expect(err).To(MatchError(ContainSubstring("no JSON object")))
		_, err = framework.JSONPatch(ctx, w, configMap(""), []byte(`{}`))
		Expect(err).To(MatchError(ContainSubstring("no JSON array")))

		page := create(newPage(ns, "p"))
		changed, err := framework.MergePatch(ctx, w, page, []byte(`{"status":{"url":"http://patched"}}`), framework.Subresource("status"))
		Expect(err).NotTo(HaveOccurred())
		Expect(changed.Status.URL).To(Equal("http://patched"))
	})

	It("G14 does not patch or apply to another object of the name", func() {
		stalled := newStall("configmaps")
		other := &pages{reconcile: r.reconcile}
		op, _ := operate(ns, other, pageOptions{Secondaries: framework.Secondaries(&other.configMaps)}, func(config *restConfig) { config.Wrap(stalled.wrap) })
		Eventually(op.Ready).Should(Succeed())
		w := op.Writer("ours")
		old, err := framework.Create(ctx, w, configMap("old"))
		Expect(err).NotTo(HaveOccurred())
		Expect(admin.Delete(ctx, old.DeepCopy())).To(Succeed())
		_, err = framework.Apply(ctx, w, configMap("gone"))
		Expect(err).To(Satisfy(apierrors.IsConflict), "it must not be created anew by one who believes that it is there")
		create(configMap("new"))
		_, err = framework.MergePatch(ctx, w, old, []byte(`{"data":{"data":"x"}}`))
		Expect(err).To(HaveOccurred())
		Expect(read(configMap("")).Data["data"]).To(Equal("new"))
		applied, err := framework.Apply(ctx, w, configMap("on the new one"))
		Expect(err).NotTo(HaveOccurred(), "the refusal was followed by a consistent read")
		Expect(applied.UID).NotTo(Equal(old.UID))
	})

	It("respects a version that the author put into an intent", func() {
		m := create(configMap("one"))
		intent := configMap("two")
		intent.ResourceVersion = m.ResourceVersion
		now, err := framework.Apply(ctx, w, intent)
		Expect(err).NotTo(HaveOccurred())
		_, err = framework.Apply(ctx, w, intent)
		Expect(err).To(Satisfy(apierrors.IsConflict))
		Expect(admin.Delete(ctx, now)).To(Succeed())
		intent.ResourceVersion = now.ResourceVersion
		_, err = framework.Apply(ctx, w, intent)
		Expect(err).To(Satisfy(apierrors.IsConflict))
		Expect(read(m).Name).To(BeEmpty(), "it must not be created anew")
	})

	It("deletes only what is unchanged, if so asked", func() {
		m := create(configMap("one"))
		change(m, func(m *corev1.ConfigMap) { m.Data["data"] = "two" })
		Expect(framework.Delete(ctx, w, m, framework.IfUnchanged())).To(Satisfy(apierrors.IsConflict))
		Expect(framework.Delete(ctx, w, m, framework.DryRun())).To(Succeed())
		now := read(m)
		Expect(now.Data["data"]).To(Equal("two"))
		Expect(framework.Delete(ctx, w, now, framework.IfUnchanged())).To(Succeed())
		Expect(read(m).Name).To(BeEmpty())
	})

	It("takes the answer of any other write, and reads what has none", func() {
		clientset, err := kubernetes.NewForConfig(env.Config)
		Expect(err).NotTo(HaveOccurred())
		m := create(configMap("one"))
		now, err := framework.Do(ctx, w, m, func(ctx context.Context) (*corev1.ConfigMap, error) {
			return clientset.CoreV1().ConfigMaps(ns).Patch(ctx, "m", types.StrategicMergePatchType, []byte(`{"data":{"data":"strategic"}}`), metav1.PatchOptions{})
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(now.Data["data"]).To(Equal("strategic"))
		read1, err := framework.Do(ctx, w, m, func(ctx context.Context) (*corev1.ConfigMap, error) {
			change(m, func(m *corev1.ConfigMap) { m.Data["data"] = "silent" })
			return nil, nil
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(read1.Data["data"]).To(Equal("silent"))
		_, err = framework.Do(ctx, w, m, func(ctx context.Context) (*corev1.ConfigMap, error) {
			other := configMap("x")
			other.Name = "other"
			return other, nil
		})
		Expect(err).To(MatchError(ContainSubstring("not " + ns + "/m")))
	})

	It("lets a matcher decide what is as desired", func() {
		created := create(configMap("ONE"))
		Eventually(func() string { return framework.Shown(op, configMapKind, client.ObjectKeyFromObject(created)) }).Should(Equal(created.ResourceVersion))
		ignoreCase := framework.MatchedBy(func(live, desired *corev1.ConfigMap) bool {
			return strings.EqualFold(live.Data["data"], desired.Data["data"])
		})
		same, err := framework.Apply(ctx, w, configMap("one"), ignoreCase)
		Expect(err).NotTo(HaveOccurred())
		Expect(same.Data["data"]).To(Equal("ONE"))
		other, err := framework.Apply(ctx, w, configMap("two"), ignoreCase)
		Expect(err).NotTo(HaveOccurred())
		Expect(other.Data["data"]).To(Equal("two"))
	})

	It("names an object that is too large, and does not retry it", func() {
		for _, size := range []int{1, 2, 4} {
			labels := map[string]string{"app": "huge"}
			huge := &appsv1.Deployment{
				ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: fmt.Sprintf("huge-%d", size)},
				Spec: appsv1.DeploymentSpec{
					Selector: &metav1.LabelSelector{MatchLabels: labels},
					Template: corev1.PodTemplateSpec{
						ObjectMeta: metav1.ObjectMeta{Labels: labels},
						Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i", Args: []string{strings.Repeat("x", size<<20)}}}},
					},
				},
			}
			_, err := framework.Create(ctx, w, huge)
			if size == 1 {
				Expect(err).NotTo(HaveOccurred(), "what fits is stored")
				continue
			}
			Expect(err).To(MatchError(framework.ErrTooLarge), "%d MB", size)
		}
		var runs atomic.Int32
		failing := &pages{reconcile: func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			runs.Add(1)
			return pageUpdate{}, fmt.Errorf("wrapped: %w", framework.ErrTooLarge)
		}}
		other, _ := operate(ns, failing, pageOptions{})
		Eventually(other.Ready).Should(Succeed())
		create(newPage(ns, "p"))
		Eventually(runs.Load).Should(BeEquivalentTo(1))
		Consistently(runs.Load, time.Second).Should(BeEquivalentTo(1))
	})

	It("hands fields over from updating to applying, so that what is no longer applied goes", func() {
		old := newPage(ns, "old")
		old.Labels = map[string]string{"stays": "not"}
		Expect(admin.Create(ctx, old, client.FieldOwner("former"))).To(Succeed())
		old.Status = webpagev1.WebPageStatus{URL: "http://old", ObservedGeneration: 1}
		Expect(admin.Status().Update(ctx, old, client.FieldOwner("former"))).To(Succeed())
		intent := func() *Page {
			p := newPage(ns, "old")
			p.Status.ObservedGeneration = 2
			return p
		}
		By("showing how it goes wrong without")
		_, err := framework.Apply(ctx, w, intent())
		Expect(err).NotTo(HaveOccurred())
		stuck, err := framework.ApplyStatus(ctx, w, intent())
		Expect(err).NotTo(HaveOccurred())
		Expect(stuck.Labels).To(HaveKey("stays"))
		Expect(stuck.Status.URL).To(Equal("http://old"))
		By("migrating")
		_, err = framework.MigrateToApply(ctx, w, intent(), []string{"former"})
		Expect(err).NotTo(HaveOccurred())
		_, err = framework.MigrateToApply(ctx, w, intent(), []string{"former"}, framework.Subresource("status"))
		Expect(err).NotTo(HaveOccurred())
		_, err = framework.Apply(ctx, w, intent())
		Expect(err).NotTo(HaveOccurred())
		free, err := framework.ApplyStatus(ctx, w, intent())
		Expect(err).NotTo(HaveOccurred())
		Expect(free.Labels).NotTo(HaveKey("stays"))
		Expect(free.Status.URL).To(BeEmpty())
		version := free.ResourceVersion
		same, err := framework.MigrateToApply(ctx, w, intent(), []string{"former"})
		Expect(err).NotTo(HaveOccurred())
		Expect(same.ResourceVersion).To(Equal(version), "there is nothing to hand over any more")
		_, err = framework.MigrateToApply(ctx, w, intent(), nil)
		Expect(err).To(MatchError(ContainSubstring("no former field manager")))
	})

	It("G05 lets sixteen primaries apply one shared secondary with one request each", func() {
		var sent atomic.Int32
		shared := &pages{}
		done := make(chan struct{}, 100)
		shared.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			intent := configMapOf(page, "")
			intent.Name, intent.Data = "shared", map[string]string{page.Name: "here"}
			_, err := framework.Apply(ctx, c, intent, framework.FieldManager(page.Name))
			done <- struct{}{}
			return pageUpdate{}, err
		}
		op, _ := operate(ns, shared, pageOptions{Concurrency: 16, LabelSelector: "shares=yes", Secondaries: framework.Secondaries(&shared.configMaps)}, func(config *restConfig) {
			config.Wrap(func(next http.RoundTripper) http.RoundTripper {
				return roundTripper(func(request *http.Request) (*http.Response, error) {
					if request.Method != http.MethodGet && strings.Contains(request.URL.Path, "/configmaps/") {
						sent.Add(1)
					}
					return next.RoundTrip(request)
				})
			})
		})
		Eventually(op.Ready).Should(Succeed())
		for i := range 16 {
			page := newPage(ns, fmt.Sprintf("p%d", i))
			page.Labels = map[string]string{"shares": "yes"}
			create(page)
		}
		for range 16 {
			Eventually(done).Should(Receive())
		}
		Eventually(func() map[string]string { return read(configMapOf(newPage(ns, "shared"), "")).Data }).Should(HaveLen(16))
		settled(op)
		Expect(sent.Load()).To(BeEquivalentTo(16))
	})

	It("reads metadata-only objects, and writes what they carry", func() {
		var names framework.Secondary[*metav1.PartialObjectMetadata]
		names.GroupVersionKind = configMapKind
		names.Name = "names"
		answers := make(chan error, 10)
		m := &pages{}
		m.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			if _, err := framework.Apply(ctx, c, configMapOf(page, "whole"), framework.OwnedByPrimary()); err != nil {
				return pageUpdate{}, err
			}
			only, err := names.Get(c)
			Expect(err).NotTo(HaveOccurred())
			Expect(only.Name).To(Equal(page.Name))
			Expect(only.GroupVersionKind()).To(Equal(configMapKind))
			intent := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: page.Name, Labels: map[string]string{"by": "metadata"}}}
			intent.SetGroupVersionKind(configMapKind)
			stored, err := framework.Apply(ctx, c, intent, framework.FieldManager("labels"))
			Expect(err).NotTo(HaveOccurred())
			Expect(stored.Labels).To(HaveKeyWithValue("by", "metadata"))
			Expect(m.configMaps.Get(c)).To(HaveField("Labels", HaveKeyWithValue("by", "metadata")))
			_, err = framework.Create(ctx, c, intent)
			Expect(err).To(MatchError(ContainSubstring("its content would be missing")))
			if err := framework.Delete(ctx, c, stored); err != nil {
				return pageUpdate{}, err
			}
			Expect(names.Get(c)).To(BeNil())
			answers <- nil
			return pageUpdate{}, nil
		}
		operate(ns, m, pageOptions{LabelSelector: "metadata=only", Secondaries: framework.Secondaries(&m.configMaps, &names)})
		page := newPage(ns, "p")
		page.Labels = map[string]string{"metadata": "only"}
		create(page)
		Eventually(answers).Should(Receive())
	})

	It("gives stable names to what belongs together", func() {
		one := newPage(ns, "p")
		one.UID = "u1"
		other := newPage(ns, "p")
		other.UID = "u2"
		name := framework.StableName("base-", one, "pod")
		Expect(name).To(And(HavePrefix("base-"), HaveLen(15)))
		Expect(framework.StableName("base-", one, "pod")).To(Equal(name))
		Expect(framework.StableName("base-", other, "pod")).NotTo(Equal(name))
		Expect(framework.StableName("base-", one, "job")).NotTo(Equal(name))
		Expect(framework.StableName(strings.Repeat("x", 100), one)).To(HaveLen(63))
	})
})

// serviceAccount makes the account that Pods of a namespace get, which no controller makes here.
func serviceAccount(ns string) string {
	GinkgoHelper()
	return create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "default"}}).Name
}
