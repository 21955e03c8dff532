package framework_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/retry"
	"github.com/evenkeel/evenkeel/timeline"
)

const finalizer = "samples.evenkeel.dev/webpage-finalizer"

var _ = Describe("The life of a run", func() {
	var ns string
	BeforeEach(func() { ns = namespace() })

	It("G09 puts the finalizer on before the first side effect, in the same run, with three requests in all", func() {
		seen := make(chan []string, 100)
		r := &cleaningPages{cleanup: func(context.Context, *Page, *pageContext) (framework.DeleteControl, error) {
			return framework.RemoveFinalizer(), nil
		}}
		r.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			seen <- page.Finalizers
			if _, err := framework.Apply(ctx, c, configMapOf(page, "x"), framework.OwnedByPrimary()); err != nil {
				return pageUpdate{}, err
			}
			page.Status.URL = "http://here"
			return framework.PatchStatus(page), nil
		}
		op, _ := operate(ns, r, pageOptions{})
		page := create(newPage(ns, "p"))
		Expect(<-seen).To(Equal([]string{finalizer}))
		Eventually(func() string { return read(page).Status.URL }).Should(Equal("http://here"))
		Eventually(func() [][]string { return requests(op, page) }).ShouldNot(BeEmpty())
		Expect(requests(op, page)[0]).To(Equal([]string{
			"patch WebPage " + ns + "/p", "apply ConfigMap " + ns + "/p", "patch status of WebPage " + ns + "/p",
		}))
	})

	It("C87 cleans up and takes only its own finalizer off", func() {
		var cleanups atomic.Int32
		r := &cleaningPages{cleanup: func(_ context.Context, page *Page, _ *pageContext) (framework.DeleteControl, error) {
			cleanups.Add(1)
			return framework.RemoveFinalizer(), nil
		}}
		r.reconcile = func(context.Context, *Page, *pageContext) (pageUpdate, error) { return pageUpdate{}, nil }
		operate(ns, r, pageOptions{})
		page := newPage(ns, "p")
		page.Finalizers = []string{"somebody.else/first", "somebody.else/second"}
		create(page)
		Eventually(func() []string { return read(page).Finalizers }).Should(ContainElement(finalizer))
		Expect(admin.Delete(ctx, page)).To(Succeed())
		Eventually(func() []string { return read(page).Finalizers }).Should(Equal([]string{"somebody.else/first", "somebody.else/second"}))
		change(page, func(p *Page) { p.Finalizers = nil })
		Eventually(func() string { return read(page).Name }).Should(BeEmpty())
		Expect(cleanups.Load()).To(BeEquivalentTo(1))
	})

	It("C87 keeps the finalizer as long as it is told so, and comes back", func() {
		var cleanups atomic.Int32
		r := &cleaningPages{cleanup: func(context.Context, *Page, *pageContext) (framework.DeleteControl, error) {
			if cleanups.Add(1) < 3 {
				return framework.KeepFinalizerFor(50 * time.Millisecond), nil
			}
			return framework.RemoveFinalizer(), nil
		}}
		r.reconcile = func(context.Context, *Page, *pageContext) (pageUpdate, error) { return pageUpdate{}, nil }
		op, _ := operate(ns, r, pageOptions{})
		page := create(newPage(ns, "p"))
		Eventually(func() []string { return read(page).Finalizers }).Should(ContainElement(finalizer))
		Expect(admin.Delete(ctx, page)).To(Succeed())
		Eventually(func() string { return read(page).Name }).Should(BeEmpty())
		Expect(cleanups.Load()).To(BeEquivalentTo(3))
		Eventually(func() int { return framework.PendingKeys(op, "webpage") }).Should(BeZero())
	})

	It("C88 calls nothing for a primary in deletion that does not carry its finalizer", func() {
		r := &cleaningPages{cleanup: func(context.Context, *Page, *pageContext) (framework.DeleteControl, error) {
			Fail("Cleanup was called")
			return framework.RemoveFinalizer(), nil
		}}
		r.reconcile = func(context.Context, *Page, *pageContext) (pageUpdate, error) {
			Fail("Reconcile was called")
			return pageUpdate{}, nil
		}
		page := newPage(ns, "p")
		page.Finalizers = []string{"somebody.else/first"}
		create(page)
		Expect(admin.Delete(ctx, page)).To(Succeed())
		op, _ := operate(ns, r, pageOptions{})
		Eventually(func() int { return len(records(op, page)) }).Should(Equal(1))
		Expect(read(page).Finalizers).To(Equal([]string{"somebody.else/first"}))
		change(page, func(p *Page) { p.Finalizers = nil })
	})

	It("survives a fight over finalizers without losing one", func() {
		r := &cleaningPages{cleanup: func(context.Context, *Page, *pageContext) (framework.DeleteControl, error) {
			return framework.RemoveFinalizer(), nil
		}}
		r.reconcile = func(context.Context, *Page, *pageContext) (pageUpdate, error) { return pageUpdate{}, nil }
		page := create(newPage(ns, "p"))
		// A watch that shows nothing new makes every patch of the operator start from an old version.
		s := newStall("webpages")
		operate(ns, r, pageOptions{}, func(config *restConfig) { config.Wrap(s.wrap) })
		change(page, func(p *Page) { p.Finalizers = append(p.Finalizers, "somebody.else/early") })
		Eventually(func() []string { return read(page).Finalizers }).Should(ConsistOf("somebody.else/early", finalizer))
		change(page, func(p *Page) { p.Finalizers = append(p.Finalizers, "somebody.else/late") })
		Expect(admin.Delete(ctx, page)).To(Succeed())
		s.release()
		Eventually(func() []string { return read(page).Finalizers }).Should(ConsistOf("somebody.else/early", "somebody.else/late"))
		change(page, func(p *Page) { p.Finalizers = nil })
	})

	It("C56 C58 runs for a new generation and not for a change of metadata, unless all generations are wanted", func() {
		for _, all := range []bool{false, true} {
			var runs atomic.Int32
			r := &pages{reconcile: func(context.Context, *Page, *pageContext) (pageUpdate, error) {
				runs.Add(1)
				return pageUpdate{}, nil
			}}
			ns := namespace()
			_, stop := operate(ns, r, pageOptions{AllGenerations: all})
			page := create(newPage(ns, "p"))
			Eventually(runs.Load).Should(BeEquivalentTo(1))
			change(page, func(p *Page) { p.Labels = map[string]string{"a": "b"} })
			if all {
				Eventually(runs.Load).Should(BeEquivalentTo(2))
			} else {
				Consistently(runs.Load).Should(BeEquivalentTo(1))
			}
			before := runs.Load()
			change(page, func(p *Page) { p.Spec.HTML = "<p>" })
			Eventually(runs.Load).Should(BeEquivalentTo(before + 1))
			Expect(stop()).To(Succeed())
		}
	})

	It("gives the author a private copy and the causes", func() {
		causes := make(chan []timeline.Cause, 10)
		htmls := make(chan string, 10)
		r := &pages{reconcile: func(_ context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			htmls <- page.Spec.HTML
			page.Spec.HTML = "scribble"
			page.Labels = map[string]string{"scribble": "scribble"}
			Expect(c.Primary()).To(BeIdenticalTo(page))
			causes <- c.Causes()
			if len(causes) > 1 {
				return framework.NoUpdate[*Page](), nil
			}
			return framework.NoUpdate[*Page]().Reschedule(), nil
		}}
		_, stop := operate(ns, r, pageOptions{})
		create(newPage(ns, "p"))
		Expect(<-htmls).To(Equal("<html/>"))
		Expect(<-htmls).To(Equal("<html/>"), "the cache was changed by the author's copy")
		Expect(stop()).To(Succeed())
		Expect((<-causes)[0]).To(BeAssignableToTypeOf(timeline.Resource{}))
		Expect((<-causes)[0]).To(Equal(timeline.Timer{}))
	})

	It("C92 shows every failure in the status, tells the attempt, and retries", func() {
		r := &failingPages{}
		r.reconcile = func(context.Context, *Page, *pageContext) (pageUpdate, error) {
			return pageUpdate{}, errors.New("no luck")
		}
		r.errorStatus = func(page *Page, c *pageContext, failure error) framework.ErrorStatusControl[*Page] {
			page.Status.URL += fmt.Sprintf("%v %d %v;", failure, c.Retry().Attempt, c.Retry().LastAttempt)
			return framework.PatchErrorStatus(page)
		}
		operate(ns, r, pageOptions{Retry: retry.Policy{Initial: 10 * time.Millisecond, MaxAttempts: 2}})
		page := create(newPage(ns, "p"))
		want := "no luck 0 false;no luck 1 false;no luck 2 true;"
		Eventually(func() string { return read(page).Status.URL }).Should(Equal(want))
		Consistently(func() string { return read(page).Status.URL }).Should(Equal(want))
	})

	It("C92 lets the author turn a failure into a success, with a time to come back", func() {
		var runs atomic.Int32
		r := &failingPages{}
		r.reconcile = func(context.Context, *Page, *pageContext) (pageUpdate, error) {
			runs.Add(1)
			return pageUpdate{}, errors.New("no luck")
		}
		r.errorStatus = func(page *Page, c *pageContext, failure error) framework.ErrorStatusControl[*Page] {
			if runs.Load() == 1 {
				return framework.ErrorStatusControl[*Page]{}.RescheduleAfter(10 * time.Millisecond)
			}
			return framework.ErrorStatusControl[*Page]{}.WithoutRetry()
		}
		op, _ := operate(ns, r, pageOptions{Retry: retry.Policy{Initial: time.Millisecond}})
		page := create(newPage(ns, "p"))
		Eventually(runs.Load).Should(BeEquivalentTo(2))
		Consistently(runs.Load).Should(BeEquivalentTo(2))
		Expect(records(op, page)[1].Causes).To(Equal([]timeline.Cause{timeline.Timer{After: 10 * time.Millisecond}}))
	})

	It("G15 isolates a panic, also from an ErrorStatusHandler's view", func() {
		failures := make(chan error, 100)
		r := &failingPages{}
		r.reconcile = func(_ context.Context, page *Page, _ *pageContext) (pageUpdate, error) {
			if page.Name == "bad" {
				panic("out of cheese")
			}
			page.Status.URL = "http://fine"
			return framework.PatchStatus(page), nil
		}
		r.errorStatus = func(_ *Page, _ *pageContext, failure error) framework.ErrorStatusControl[*Page] {
			failures <- failure
			return framework.ErrorStatusControl[*Page]{}
		}
		op, _ := operate(ns, r, pageOptions{Concurrency: 1})
		bad, good := create(newPage(ns, "bad")), create(newPage(ns, "good"))
		Expect(<-failures).To(MatchError("panic: out of cheese"))
		Eventually(func() string { return read(good).Status.URL }).Should(Equal("http://fine"))
		Eventually(func() []timeline.Record { return records(op, bad) }).ShouldNot(BeEmpty())
		Expect(records(op, bad)[0].Outcome).To(Equal(timeline.Panicked))
	})

	It("ends a run at its deadline", func() {
		r := &pages{reconcile: func(ctx context.Context, _ *Page, _ *pageContext) (pageUpdate, error) {
			<-ctx.Done()
			return pageUpdate{}, context.Cause(ctx)
		}}
		op, _ := operate(ns, r, pageOptions{RunTimeout: 50 * time.Millisecond})
		page := create(newPage(ns, "p"))
		Eventually(func() []timeline.Record { return records(op, page) }).ShouldNot(BeEmpty())
		Expect(records(op, page)[0].Err).To(ContainSubstring("exceeded ControllerOptions.RunTimeout of 50ms"))
	})

	It("takes kinds without generations and without a namespace as primaries", func() {
		runs := make(chan string, 100)
		op := newOperator(framework.OperatorOptions{})
		Expect(framework.Register(op, namespaces(func(n *corev1.Namespace) { runs <- n.Name + " " + n.Labels["mark"] }),
			framework.ControllerOptions[*corev1.Namespace]{LabelSelector: "mark"})).To(Succeed())
		run(op)
		marked := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}
		change(marked, func(n *corev1.Namespace) { n.Labels["mark"] = "one" })
		Expect(<-runs).To(Equal(ns + " one"))
		change(marked, func(n *corev1.Namespace) { n.Labels["mark"] = "two" })
		Eventually(runs).Should(Receive(Equal(ns + " two")))
	})
})

type namespaces func(*corev1.Namespace)

func (f namespaces) Reconcile(_ context.Context, n *corev1.Namespace, _ *framework.Context[*corev1.Namespace]) (framework.UpdateControl[*corev1.Namespace], error) {
	f(n)
	return framework.NoUpdate[*corev1.Namespace](), nil
}
