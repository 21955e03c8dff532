package framework_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
	webpagev1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

// reconciling is a reconciler of any kind.
type reconciling[P framework.Object] func(ctx context.Context, primary P, c *framework.Context[P]) (framework.UpdateControl[P], error)

func (f reconciling[P]) Reconcile(ctx context.Context, primary P, c *framework.Context[P]) (framework.UpdateControl[P], error) {
	return f(ctx, primary, c)
}

func secretOf(ns, name, kind string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Type: corev1.SecretType(kind)}
}

var _ = Describe("What a controller is about", func() {
	var ns string
	BeforeEach(func() { ns = namespace() })

	It("may be objects of a field that the kind can be selected by, primaries and secondaries alike", func() {
		secrets := framework.Secondary[*corev1.Secret]{
			Name: "second", FieldSelector: "type=example.com/two",
			Map: func(*corev1.Secret) []types.NamespacedName { return []types.NamespacedName{{Namespace: ns, Name: "a"}} },
		}
		runs := make(chan string, 100)
		op := newOperator(framework.OperatorOptions{Namespaces: []string{ns}})
		Expect(framework.Register(op, reconciling[*corev1.Secret](func(_ context.Context, s *corev1.Secret, c *framework.Context[*corev1.Secret]) (framework.UpdateControl[*corev1.Secret], error) {
			found, err := secrets.List(c)
			runs <- fmt.Sprint(s.Name, " ", len(found))
			return framework.NoUpdate[*corev1.Secret](), err
		}), framework.ControllerOptions[*corev1.Secret]{
			FieldSelector: "type=example.com/one", Secondaries: framework.Secondaries(&secrets),
		})).To(Succeed())
		run(op)
		create(secretOf(ns, "none", "Opaque"))
		create(secretOf(ns, "a", "example.com/one"))
		Eventually(runs).Should(Receive(Equal("a 0")))
		create(secretOf(ns, "b", "example.com/two"))
		Eventually(runs).Should(Receive(Equal("a 1")))
		create(secretOf(ns, "c", "Opaque"))
		Consistently(runs).ShouldNot(Receive())
	})

	It("may be a built-in kind whose status it writes, in one run", func() {
		var runs atomic.Int32
		op := newOperator(framework.OperatorOptions{Namespaces: []string{ns}})
		Expect(framework.Register(op, reconciling[*appsv1.Deployment](func(_ context.Context, d *appsv1.Deployment, _ *framework.Context[*appsv1.Deployment]) (framework.UpdateControl[*appsv1.Deployment], error) {
			runs.Add(1)
			d.Status.ObservedGeneration = d.Generation
			d.Status.Conditions = []appsv1.DeploymentCondition{{Type: "Seen", Status: corev1.ConditionTrue, Reason: "Looked"}}
			return framework.PatchStatus(d), nil
		}), framework.ControllerOptions[*appsv1.Deployment]{AllGenerations: true})).To(Succeed())
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
		Eventually(func() string { return fmt.Sprint(read(d).Status.ObservedGeneration, len(read(d).Status.Conditions)) }).Should(Equal("1 1"))
		Consistently(runs.Load).Should(BeEquivalentTo(1))
	})

	It("moves from one controller to another with its labels", func() {
		runs := make(chan string, 100)
		op := newOperator(framework.OperatorOptions{Namespaces: []string{ns}})
		for _, color := range []string{"red", "blue"} {
			Expect(framework.Register(op, reconciling[*Page](func(_ context.Context, page *Page, _ *pageContext) (pageUpdate, error) {
				runs <- color + " " + page.Spec.HTML
				return pageUpdate{}, nil
			}), pageOptions{Name: color, LabelSelector: "color=" + color})).To(Succeed())
		}
		run(op)
		page := newPage(ns, "p")
		page.Labels = map[string]string{"color": "red"}
		create(page)
		Eventually(runs).Should(Receive(Equal("red <html/>")))
		change(page, func(p *Page) { p.Labels["color"] = "blue" })
		Eventually(runs).Should(Receive(Equal("blue <html/>")))
		change(page, func(p *Page) { p.Spec.HTML = "new" })
		Eventually(runs).Should(Receive(Equal("blue new")))
		Consistently(runs).ShouldNot(Receive())
		Expect(framework.PendingKeys(op, "red")).To(BeZero())
	})
})

var _ = Describe("The status of a primary", func() {
	var ns string
	BeforeEach(func() { ns = namespace() })

	It("may say which generation was observed, and costs no run", func() {
		w := newWorkshop()
		w.install()
		r := newGadgets()
		r.reconcile = func(_ context.Context, g *Gadget, _ *gadgetContext) (gadgetUpdate, error) {
			g.Status.Seen = int(g.Generation)
			return framework.PatchStatus(g), nil
		}
		op := w.operator(framework.OperatorOptions{Namespaces: []string{w.ns}})
		Expect(framework.Register(op, r, gadgetOptions{AllGenerations: true})).To(Succeed())
		run(op)
		w.create("g", sized(1))
		Eventually(w.seen("g")).Should(BeEquivalentTo(1))
		w.patch("g", `{"spec":{"size":2}}`)
		Eventually(w.seen("g")).Should(BeEquivalentTo(2))
		Consistently(r.runs).Should(HaveLen(2))
	})

	It("may be applied by the run itself without a loop, and a later change of a label triggers", func() {
		var runs atomic.Int32
		r := &pages{reconcile: func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			runs.Add(1)
			own := &Page{ObjectMeta: metav1.ObjectMeta{Namespace: page.Namespace, Name: page.Name}}
			own.Status = webpagev1.WebPageStatus{URL: "http://" + page.Labels["of"]}
			_, err := framework.ApplyStatus(ctx, c, own)
			return pageUpdate{}, err
		}}
		operate(ns, r, pageOptions{AllGenerations: true})
		page := newPage(ns, "p")
		page.Labels = map[string]string{"of": "one"}
		create(page)
		Eventually(func() string { return read(page).Status.URL }).Should(Equal("http://one"))
		Consistently(runs.Load).Should(BeEquivalentTo(1))
		change(page, func(p *Page) { p.Labels["of"] = "two" })
		Eventually(func() string { return read(page).Status.URL }).Should(Equal("http://two"))
		Consistently(runs.Load).Should(BeEquivalentTo(2))
	})

	It("may be written while the primary is being deleted: it is cleaned up all the same", func() {
		var cleanups atomic.Int32
		r := &cleaningPages{cleanup: func(context.Context, *Page, *pageContext) (framework.DeleteControl, error) {
			cleanups.Add(1)
			return framework.RemoveFinalizer(), nil
		}}
		r.reconcile = func(_ context.Context, page *Page, _ *pageContext) (pageUpdate, error) {
			Expect(admin.Delete(ctx, newPage(page.Namespace, page.Name))).To(Succeed())
			page.Status.URL = "http://too-late"
			return framework.PatchStatus(page), nil
		}
		op, _ := operate(ns, r, pageOptions{})
		page := create(newPage(ns, "p"))
		Eventually(func() string { return read(page).Name }).Should(BeEmpty())
		Expect(cleanups.Load()).To(BeEquivalentTo(1))
		Eventually(func() int { return framework.PendingKeys(op, "webpage") }).Should(BeZero())
		for _, record := range records(op, page) {
			Expect(record.Err).To(BeEmpty())
		}
	})

	It("may be written by Cleanup, which comes again at its time and sees what it wrote", func() {
		seen := make(chan string, 100)
		r := &cleaningPages{cleanup: func(ctx context.Context, page *Page, c *pageContext) (framework.DeleteControl, error) {
			seen <- page.Status.URL
			if len(page.Status.URL) >= 3 {
				return framework.RemoveFinalizer(), nil
			}
			page.Status.URL += "x"
			_, err := framework.UpdateStatus(ctx, c, page)
			return framework.KeepFinalizerFor(50 * time.Millisecond), err
		}}
		r.reconcile = func(context.Context, *Page, *pageContext) (pageUpdate, error) { return pageUpdate{}, nil }
		op, _ := operate(ns, r, pageOptions{})
		page := create(newPage(ns, "p"))
		Eventually(func() []string { return read(page).Finalizers }).Should(ContainElement(finalizer))
		Expect(admin.Delete(ctx, page)).To(Succeed())
		Eventually(func() string { return read(page).Name }).Should(BeEmpty())
		for _, want := range []string{"", "x", "xx", "xxx"} {
			Expect(seen).To(Receive(Equal(want)))
		}
		Expect(seen).NotTo(Receive())
		Eventually(func() int { return framework.PendingKeys(op, "webpage") }).Should(BeZero())
	})
})
