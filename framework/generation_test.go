package framework_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
	"github.com/evenkeel/evenkeel/retry"
)

func TestC56WhatIsWantedOfAnObject(t *testing.T) {
	configMap := func(data, label string) framework.Object {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"l": label}}, Data: map[string]string{"d": data}}
	}
	content := func(data, label, status string) framework.Object {
		return &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"l": label}}, "data": data, "status": status,
		}}
	}
	generation := func(n int64, name string) framework.Object {
		return &Page{ObjectMeta: metav1.ObjectMeta{Generation: n, Name: name}}
	}
	node := func(unschedulable bool, phase corev1.NodePhase) framework.Object {
		return &corev1.Node{Spec: corev1.NodeSpec{Unschedulable: unschedulable}, Status: corev1.NodeStatus{Phase: phase}}
	}
	only := func(label string) framework.Object {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"l": label}}}
	}
	for name, is := range map[string]struct {
		old, new framework.Object
		want     bool
	}{
		"the generation grew":                     {generation(1, "a"), generation(2, "a"), true},
		"the generation is the same":              {generation(1, "a"), generation(1, "b"), false},
		"data without generation":                 {configMap("a", "a"), configMap("b", "a"), true},
		"labels without generation":               {configMap("a", "a"), configMap("a", "b"), false},
		"a specification without generation":      {node(false, "a"), node(true, "a"), true},
		"a status without generation":             {node(false, "a"), node(false, "b"), false},
		"unstructured data":                       {content("a", "a", "a"), content("b", "a", "a"), true},
		"unstructured labels and status":          {content("a", "a", "a"), content("a", "b", "b"), false},
		"metadata, which does not tell of others": {only("a"), only("b"), false},
		"another type":                            {only("a"), configMap("a", "a"), false},
	} {
		if got := framework.WantsOther(is.old, is.new); got != is.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// configMaps is a reconciler of them.
type configMaps func(ctx context.Context, m *corev1.ConfigMap, c *framework.Context[*corev1.ConfigMap]) (framework.UpdateControl[*corev1.ConfigMap], error)

func (f configMaps) Reconcile(ctx context.Context, m *corev1.ConfigMap, c *framework.Context[*corev1.ConfigMap]) (framework.UpdateControl[*corev1.ConfigMap], error) {
	return f(ctx, m, c)
}

// deployments is one of those.
type deployments func(d *appsv1.Deployment)

func (f deployments) Reconcile(_ context.Context, d *appsv1.Deployment, _ *framework.Context[*appsv1.Deployment]) (framework.UpdateControl[*appsv1.Deployment], error) {
	f(d)
	return framework.UpdateControl[*appsv1.Deployment]{}, nil
}

var _ = Describe("A primary of any kind", func() {
	It("C56 G08 without generations begins its attempts anew when other data is wanted of it, and only then", func() {
		ns, runs := namespace(), make(chan int, 100)
		op := newOperator(framework.OperatorOptions{Namespaces: []string{ns}})
		Expect(framework.Register(op, configMaps(func(_ context.Context, m *corev1.ConfigMap, c *framework.Context[*corev1.ConfigMap]) (framework.UpdateControl[*corev1.ConfigMap], error) {
			runs <- c.Retry().Attempt
			return framework.UpdateControl[*corev1.ConfigMap]{}, errors.New("not so")
		}), framework.ControllerOptions[*corev1.ConfigMap]{LabelSelector: "of=" + ns, Retry: retry.Policy{Initial: 5 * time.Minute}})).To(Succeed())
		run(op)
		m := configMapOf(newPage(ns, "p"), "one")
		m.Labels = map[string]string{"of": ns}
		create(m)
		Eventually(runs).Should(Receive(Equal(0)))
		label := func(value string) { change(m, func(m *corev1.ConfigMap) { m.Labels["l"] = value }) }
		for _, value := range []string{"one", "two"} { // an event brings a run, which is no attempt
			label(value)
			Eventually(runs).Should(Receive(Equal(1)))
		}
		change(m, func(m *corev1.ConfigMap) { m.Data["data"] = "two" })
		Eventually(runs).Should(Receive(Equal(0)))
		label("three")
		Eventually(runs).Should(Receive(Equal(1)))
	})

	It("C56 that is built in and has generations runs for its specification, not for its status", func() {
		ns, runs := namespace(), make(chan int32, 100)
		op := newOperator(framework.OperatorOptions{Namespaces: []string{ns}})
		Expect(framework.Register(op, deployments(func(d *appsv1.Deployment) { runs <- *d.Spec.Replicas }), framework.ControllerOptions[*appsv1.Deployment]{})).To(Succeed())
		run(op)
		labels := map[string]string{"app": "d"}
		d := create(&appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "d"},
			Spec: appsv1.DeploymentSpec{
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: labels},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
				},
			},
		})
		Eventually(runs).Should(Receive(BeEquivalentTo(1)))
		Expect(admin.Status().Patch(ctx, d, client.RawPatch("application/merge-patch+json", []byte(`{"status":{"replicas":1}}`)))).To(Succeed())
		Consistently(runs).ShouldNot(Receive())
		change(d, func(d *appsv1.Deployment) { *d.Spec.Replicas = 2 })
		Eventually(runs).Should(Receive(BeEquivalentTo(2)))
	})

	It("that is cluster-scoped has its finalizer, its secondaries in namespaces, its status and its cleanup", func() {
		w := newWorkshop()
		w.cluster = true
		w.install()
		r := &cleaningGadgets{newGadgets(), make(chan string, 10)}
		r.gadgets.pages.Namespaces = []string{w.ns}
		r.reconcile = func(ctx context.Context, g *Gadget, c *gadgetContext) (gadgetUpdate, error) {
			_, err := framework.Apply(ctx, c, newPage(w.ns, "of-"+g.Name), framework.OwnedByPrimary())
			if err != nil {
				return gadgetUpdate{}, err
			}
			found, err := r.gadgets.pages.List(c)
			g.Status.Seen = len(found)
			c.Event(framework.Normal, "Count", "Counted", "there are %d", len(found))
			return framework.PatchStatus(g), err
		}
		op := w.operator(framework.OperatorOptions{})
		Expect(framework.Register(op, r, gadgetOptions{Secondaries: framework.Secondaries(&r.gadgets.pages), KeepRecords: 10})).To(Succeed())
		run(op)
		w.create("g", sized(1))
		Eventually(w.seen("g")).Should(BeEquivalentTo(1))
		Eventually(func() int { return len(op.Records("gadget")) }).Should(Equal(1)) // kept after its last write
		Expect(op.Records("gadget")[0].Key).To(Equal("g"))
		Eventually(func() (about []string) { // those of what has no namespace are in default
			list := &eventsv1.EventList{}
			Expect(admin.List(ctx, list, client.InNamespace(metav1.NamespaceDefault))).To(Succeed())
			for _, e := range list.Items {
				if e.Regarding.APIVersion == w.version().String() {
					about = append(about, e.Regarding.Name+" "+e.Note)
				}
			}
			return about
		}).Should(ConsistOf("g there are 1"))
		Expect(admin.Delete(ctx, newPage(w.ns, "of-g"))).To(Succeed())
		Eventually(func() string { return read(newPage(w.ns, "of-g")).Name }).ShouldNot(BeEmpty())
		Expect(admin.Delete(ctx, w.gadget("g", nil))).To(Succeed())
		Eventually(r.cleanups).Should(Receive(Equal("g")))
		Eventually(func() string { return w.read("g").GetResourceVersion() }).Should(BeEmpty())
		Eventually(func() int { return framework.PendingKeys(op, "gadget") }).Should(BeZero())
	})
})

var _ = Describe("The status of a kind without a status sub-resource", func() {
	var w *workshop
	BeforeEach(func() {
		w = newWorkshop()
		w.noStatus = true
		w.install()
	})
	withRun := func(options gadgetOptions, reconcile func(g *Gadget) gadgetUpdate) *framework.Operator {
		r := newGadgets()
		r.reconcile = func(_ context.Context, g *Gadget, _ *gadgetContext) (gadgetUpdate, error) { return reconcile(g), nil }
		options.KeepRecords = 100
		op := w.operator(framework.OperatorOptions{Namespaces: []string{w.ns}})
		Expect(framework.Register(op, r, options)).To(Succeed())
		run(op)
		return op
	}
	counted := func(g *Gadget) gadgetUpdate {
		g.Status.Seen = g.Spec.Size
		return framework.PatchStatus(g)
	}

	It("is written with the resource, in one run and one request", func() {
		op := withRun(gadgetOptions{}, counted)
		w.create("g", sized(3))
		Eventually(w.seen("g")).Should(BeEquivalentTo(3))
		Expect(w.read("g").Object["spec"]).To(Equal(sized(3)))
		Eventually(func() int { return len(op.Records("gadget")) }).Should(Equal(1))
		Consistently(func() int { return len(op.Records("gadget")) }).Should(Equal(1), "its own write does not trigger")
		Expect(op.Records("gadget")[0].Requests).To(HaveLen(1))
	})

	It("is written together with the resource", func() {
		op := withRun(gadgetOptions{}, func(g *Gadget) gadgetUpdate {
			g.Labels = map[string]string{"l": "x"}
			g.Status.Seen = g.Spec.Size
			return framework.PatchResourceAndStatus(g)
		})
		w.create("g", sized(3))
		Eventually(w.seen("g")).Should(BeEquivalentTo(3))
		Expect(w.read("g").GetLabels()).To(HaveKeyWithValue("l", "x"))
		Eventually(op.Records).WithArguments("gadget").Should(HaveLen(1))
		Expect(op.Records("gadget")[0].Requests).To(HaveLen(1))
	})

	It("may be applied with the resource; alone, that is refused in clear words", func() {
		fresh := func(g *Gadget) *Gadget {
			own := &Gadget{ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace, Name: g.Name}}
			own.Status.Seen = g.Spec.Size
			return own
		}
		op := withRun(gadgetOptions{PrimaryWrites: framework.ByApply, Retry: slow}, func(g *Gadget) gadgetUpdate {
			if g.Name == "alone" {
				return framework.PatchStatus(fresh(g))
			}
			return framework.PatchResourceAndStatus(fresh(g))
		})
		w.create("both", sized(3))
		Eventually(w.seen("both")).Should(BeEquivalentTo(3))
		w.create("alone", sized(3))
		Eventually(func() string {
			records := op.Records("gadget")
			return records[len(records)-1].Err
		}).Should(ContainSubstring("no status sub-resource"))
	})

	It("G12 is found where it is when the definition is changed", func() {
		withRun(gadgetOptions{}, counted)
		w.create("g", sized(1))
		Eventually(w.seen("g")).Should(BeEquivalentTo(1))
		w.redefine(true)
		w.patch("g", `{"spec":{"size":2}}`)
		Eventually(w.seen("g")).Should(BeEquivalentTo(2))
		w.redefine(false)
		w.patch("g", `{"spec":{"size":3}}`)
		Eventually(w.seen("g")).Should(BeEquivalentTo(3))
	})
})

// redefine gives the kind a status sub-resource or takes it away, and returns once the API server
// has taken that in; there must be a gadget g.
func (w *workshop) redefine(withStatus bool) {
	GinkgoHelper()
	w.noStatus = !withStatus
	versions, _, err := unstructured.NestedSlice(w.definition().Object, "spec", "versions")
	Expect(err).NotTo(HaveOccurred())
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"versions": versions}})
	Expect(err).NotTo(HaveOccurred())
	Expect(admin.Patch(ctx, w.definition(), client.RawPatch("application/merge-patch+json", patch))).To(Succeed())
	Eventually(func() bool {
		g := w.gadget("g", nil)
		return admin.SubResource("status").Get(ctx, g, g.DeepCopy()) == nil
	}).Should(Equal(withStatus))
	// Discovery may follow a moment later.
	Eventually(func() bool {
		list, err := discovery.NewDiscoveryClientForConfigOrDie(env.Config).ServerResourcesForGroupVersion(w.version().String())
		Expect(err).NotTo(HaveOccurred())
		return len(list.APIResources) == 2
	}).Should(Equal(withStatus))
}

// seen returns the status of a gadget.
func (w *workshop) seen(name string) func() any {
	return func() any {
		status, _ := w.read(name).Object["status"].(map[string]any)
		return status["seen"]
	}
}
