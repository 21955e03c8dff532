package framework_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework"
	webpagev1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
	"github.com/evenkeel/evenkeel/trc"
)

// dynamically is a reconciler of pages that adds what a function declares in every run, and tells
// how many it reads each time, or "nothing yet".
func dynamically[S framework.Object](declare func() *framework.Secondary[S]) (*pages, chan string) {
	runs := make(chan string, 1000)
	return &pages{reconcile: func(_ context.Context, page *Page, c *pageContext) (pageUpdate, error) {
		secondary := declare()
		if err := c.AddSecondary(secondary); err != nil {
			return pageUpdate{}, err
		}
		found, err := secondary.List(c)
		if errors.Is(err, framework.ErrNotSynced) {
			runs <- page.Name + " nothing yet"
		} else {
			runs <- fmt.Sprint(page.Name, " ", len(found))
		}
		return pageUpdate{}, err
	}}, runs
}

func ownedBy(page *Page) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: "samples.evenkeel.dev/v1", Kind: "WebPage", Name: page.Name, UID: page.UID}}
}

var _ = Describe("C98 What a controller watches", func() {
	var w *workshop
	BeforeEach(func() { w = newWorkshop() })
	start := func(r framework.Reconciler[*Page], options pageOptions, change ...func(*restConfig)) *framework.Operator {
		GinkgoHelper()
		op := w.operator(framework.OperatorOptions{Namespaces: []string{w.ns}}, change...)
		options.KeepRecords = 1000
		Expect(framework.Register(op, r, options)).To(Succeed())
		run(op)
		return op
	}
	added := func(op *framework.Operator) func() []int {
		return func() []int { now := op.Occupancy(); return []int{now.DynamicSources, len(now.Caches)} }
	}
	// anew declares Gadgets anew in each run, as one would that knows of them only then.
	anew := func() *framework.Secondary[*unstructuredObject] {
		return &framework.Secondary[*unstructuredObject]{GroupVersionKind: w.version().WithKind("Gadget")}
	}

	It("DynamicGenericEventSourceRegistrationIT: secondaries of a generic kind that runs register trigger", func() {
		w.install()
		r, runs := dynamically(anew)
		op := start(r, pageOptions{})
		page := create(newPage(w.ns, "p"))
		Eventually(runs).Should(Receive(Equal("p nothing yet")))
		Eventually(runs).Should(Receive(Equal("p 0")))
		g := w.gadget("g", sized(1))
		g.SetOwnerReferences(ownedBy(page))
		create(g)
		Eventually(runs).Should(Receive(Equal("p 1")))
		w.patch("g", `{"spec":{"size":2}}`)
		Eventually(runs).Should(Receive(Equal("p 1")))
		Consistently(runs).ShouldNot(Receive())
		Expect(added(op)()).To(Equal([]int{1, 2}))
		Expect(op.Ready()).To(Succeed())
		Expect(admin.Delete(ctx, page)).To(Succeed())
		Eventually(added(op)).Should(Equal([]int{0, 1}))
	})

	It("waits for a kind that is not served, and outlives its removal", func() {
		r, runs := dynamically(func() *framework.Secondary[*metav1.PartialObjectMetadata] {
			return &framework.Secondary[*metav1.PartialObjectMetadata]{GroupVersionKind: w.version().WithKind("Gadget")}
		})
		op := start(r, pageOptions{})
		page := create(newPage(w.ns, "p"))
		Eventually(runs).Should(Receive(Equal("p nothing yet")))
		Eventually(op.Ready).Should(MatchError(And(ContainSubstring(`"gadget"`), ContainSubstring("CustomResourceDefinition"))))
		Consistently(runs).ShouldNot(Receive())
		w.install()
		Eventually(runs, healing).Should(Receive(Equal("p 0")))
		Eventually(op.Ready).Should(Succeed())
		owned := func(name string) {
			g := w.gadget(name, sized(1))
			g.SetOwnerReferences(ownedBy(page))
			create(g)
		}
		owned("g")
		Eventually(runs).Should(Receive(Equal("p 1")))
		w.uninstall()
		Eventually(runs, healing).Should(Receive(Equal("p 0")))
		w.install()
		owned("h")
		Eventually(runs, healing).Should(Receive(Equal("p 1")))
	})

	It("MultipleSecondaryEventSourceIT: each of several sources triggers, declared or added", func() {
		var runs atomic.Int32
		var secrets framework.Secondary[*corev1.Secret]
		triggers := make(chan eventsource.Trigger)
		told, err := eventsource.NewChannel("told", triggers)
		Expect(err).NotTo(HaveOccurred())
		r := &pages{}
		r.reconcile = func(_ context.Context, _ *Page, c *pageContext) (pageUpdate, error) {
			runs.Add(1)
			if err := errors.Join(c.AddSecondary(&secrets), c.AddSource(told)); err != nil {
				return pageUpdate{}, err
			}
			_, err := secrets.List(c)
			return pageUpdate{}, err
		}
		op := start(r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)})
		page := create(newPage(w.ns, "p"))
		Eventually(runs.Load).Should(BeEquivalentTo(2))
		Eventually(op.Ready).Should(Succeed())
		meta := metav1.ObjectMeta{Namespace: w.ns, Name: "x", OwnerReferences: ownedBy(page)}
		create(&corev1.ConfigMap{ObjectMeta: meta})
		Eventually(runs.Load).Should(BeEquivalentTo(3))
		create(&corev1.Secret{ObjectMeta: meta})
		Eventually(runs.Load).Should(BeEquivalentTo(4))
		triggers <- eventsource.Trigger{Primary: trc.KeyOf(page)}
		Eventually(runs.Load).Should(BeEquivalentTo(5))
		Consistently(runs.Load).Should(BeEquivalentTo(5))
	})

	It("G16 comes and goes over and over without a trace", func() {
		var secrets framework.Secondary[*corev1.Secret]
		reading := make(chan error, 1000)
		r := &pages{reconcile: func(_ context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			if page.Spec.HTML == "off" {
				reading <- nil
				return pageUpdate{}, c.RemoveSource("secret")
			}
			if err := c.AddSecondary(&secrets); err != nil {
				return pageUpdate{}, err
			}
			_, err := secrets.List(c)
			reading <- err
			return pageUpdate{}, err
		}}
		op := start(r, pageOptions{})
		page := newPage(w.ns, "p")
		page.Spec.HTML = "off"
		create(page)
		Eventually(reading).Should(Receive())
		Eventually(added(op)).Should(Equal([]int{0, 1}))
		goroutines := runtime.NumGoroutine()
		for range 20 {
			change(page, func(page *Page) { page.Spec.HTML = "on" })
			Eventually(reading).Should(Receive(MatchError(framework.ErrNotSynced)))
			Eventually(reading).Should(Receive(BeNil()))
			change(page, func(page *Page) { page.Spec.HTML = "off" })
			Eventually(reading).Should(Receive(BeNil()))
			Eventually(added(op)).Should(Equal([]int{0, 1}))
		}
		Expect(op.Occupancy().DecodedAnswers).To(BeZero())
		Eventually(runtime.NumGoroutine).Should(BeNumerically("<=", goroutines+5)) // connections come and go
	})

	It("ChangeNamespaceIT: the namespaces of one controller change while it runs, and no other's", func() {
		other := namespace()
		type ran struct{ controller, page string }
		runs := make(chan ran, 1000)
		op := w.operator(framework.OperatorOptions{Namespaces: []string{w.ns}})
		for _, name := range []string{"own", "follower"} {
			r := &pages{}
			r.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
				defer func() { runs <- ran{name, page.Namespace} }()
				found, err := r.configMaps.List(c)
				if err == nil && len(found) == 0 && name == "own" {
					_, err = framework.Apply(ctx, c, configMapOf(page, "x"), framework.OwnedByPrimary())
				}
				return pageUpdate{}, err
			}
			options := pageOptions{Name: name, Secondaries: framework.Secondaries(&r.configMaps), KeepRecords: 100}
			if name == "own" {
				options.Namespaces = []string{w.ns}
			}
			Expect(framework.Register(op, r, options)).To(Succeed())
		}
		// All there is to see is there before it starts, so that each step has runs that are known.
		page, there := create(newPage(w.ns, "p")), create(newPage(other, "p"))
		owned := configMapOf(page, "x")
		owned.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(page, webpagev1.GroupVersion.WithKind("WebPage"))}
		create(owned)
		stop := run(op)
		// expect waits for these runs. Another one fails this step or, if it comes later, the next.
		expect := func(expected ...ran) {
			GinkgoHelper()
			var all []ran
			for range expected {
				var r ran
				Eventually(runs).Should(Receive(&r))
				all = append(all, r)
			}
			Expect(all).To(ConsistOf(expected))
		}
		expect(ran{"own", w.ns}, ran{"follower", w.ns})
		Expect(op.SetControllerNamespaces("own", []string{w.ns, other})).To(Succeed())
		expect(ran{"own", other})
		change(configMapOf(there, ""), func(m *corev1.ConfigMap) { m.Data["other"] = "y" })
		expect(ran{"own", other})
		Expect(op.SetControllerNamespaces("own", []string{other})).To(Succeed())
		change(configMapOf(page, ""), func(m *corev1.ConfigMap) { m.Data["other"] = "y" })
		expect(ran{"follower", w.ns})
		Expect(op.SetNamespaces([]string{other})).To(Succeed())
		expect(ran{"follower", other})
		Expect(op.SetControllerNamespaces("own", []string{framework.AllNamespaces})).To(Succeed())
		for seen := map[ran]bool{}; !seen[ran{"own", w.ns}] || !seen[ran{"own", other}]; {
			var r ran
			Eventually(runs).Should(Receive(&r))
			Expect(r.controller).To(Equal("own"))
			seen[r] = true
		}
		Expect(op.Ready()).To(Succeed())
		Expect(stop()).To(Succeed())
		close(runs)
		for r := range runs { // since the last step
			Expect(r.controller).To(Equal("own"))
		}
	})
})
