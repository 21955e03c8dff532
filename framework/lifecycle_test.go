package framework_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/retry"
	webpagev1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
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

	It("C56 runs for a new generation and not for a change of metadata, unless all generations are wanted", func() {
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

var _ = Describe("What Reconcile returns", func() {
	var ns string
	BeforeEach(func() { ns = namespace() })

	// once runs a reconciler for one page and waits until its first run is recorded.
	once := func(page *Page, options pageOptions, reconcile func(page *Page, c *pageContext) (pageUpdate, error)) timeline.Record {
		GinkgoHelper()
		r := &pages{reconcile: func(_ context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			return reconcile(page, c)
		}}
		options.Retry = retry.Never()
		op, _ := operate(ns, r, options)
		create(page)
		Eventually(func() []timeline.Record { return records(op, page) }).ShouldNot(BeEmpty())
		return records(op, page)[0]
	}

	It("C89 sends what differs from the primary as it was read, removals included", func() {
		page := newPage(ns, "p")
		page.Annotations = map[string]string{"remove": "me", "keep": "me"}
		record := once(page, pageOptions{}, func(page *Page, _ *pageContext) (pageUpdate, error) {
			delete(page.Annotations, "remove")
			page.Labels = map[string]string{"added": "label"}
			page.Status.URL = "http://new"
			return framework.PatchResourceAndStatus(page), nil
		})
		Expect(record.Requests).To(HaveLen(2))
		now := read(page)
		Expect(now.Annotations).To(Equal(map[string]string{"keep": "me"}))
		Expect(now.Labels).To(Equal(map[string]string{"added": "label"}))
		Expect(now.Status.URL).To(Equal("http://new"))
		Expect(now.ManagedFields[len(now.ManagedFields)-1].Manager).To(Equal("webpage"))
	})

	It("C89 sends only the part that was asked for, and nothing if nothing differs", func() {
		page := newPage(ns, "p")
		record := once(page, pageOptions{}, func(page *Page, _ *pageContext) (pageUpdate, error) {
			page.Labels = map[string]string{"not": "asked for"}
			page.Status.URL = "http://new"
			return framework.PatchStatus(page), nil
		})
		Expect(record.Requests).To(Equal([]string{"patch status of WebPage " + ns + "/p"}))
		Expect(read(page).Labels).To(BeEmpty())
		Expect(read(page).Status.URL).To(Equal("http://new"))

		same := newPage(ns, "same")
		record = once(same, pageOptions{Name: "webpage"}, func(page *Page, _ *pageContext) (pageUpdate, error) {
			return framework.PatchResourceAndStatus(page), nil
		})
		Expect(record.Requests).To(BeEmpty())
	})

	It("takes a fresh object as what it sets, and removes nothing", func() {
		page := newPage(ns, "p")
		page.Annotations = map[string]string{"keep": "me"}
		record := once(page, pageOptions{}, func(page *Page, c *pageContext) (pageUpdate, error) {
			fresh := &Page{}
			fresh.Namespace, fresh.Name = page.Namespace, page.Name
			fresh.Labels = map[string]string{"added": "label"}
			fresh.Spec.HTML = page.Spec.HTML
			fresh.Status.URL = "http://new"
			return framework.PatchResourceAndStatus(fresh), nil
		})
		Expect(record.Err).To(BeEmpty())
		now := read(page)
		Expect(now.Annotations).To(Equal(map[string]string{"keep": "me"}))
		Expect(now.Labels).To(Equal(map[string]string{"added": "label"}))
		Expect(now.Status.URL).To(Equal("http://new"))
		Expect(*now.Spec.Replicas).To(BeEquivalentTo(1))
	})

	It("applies exactly the intent where the controller applies, and keeps its finalizer", func() {
		r := &cleaningPages{cleanup: func(context.Context, *Page, *pageContext) (framework.DeleteControl, error) {
			return framework.RemoveFinalizer(), nil
		}}
		r.reconcile = func(_ context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			fresh := &Page{}
			fresh.Namespace, fresh.Name = page.Namespace, page.Name
			fresh.Labels = map[string]string{"generation": fmt.Sprint(page.Generation)}
			fresh.Spec = page.Spec
			fresh.Status = webpagev1.WebPageStatus{URL: "http://applied", ObservedGeneration: page.Generation}
			return framework.PatchResourceAndStatus(fresh), nil
		}
		operate(ns, r, pageOptions{PrimaryWrites: framework.ByApply, FieldManager: "the-manager"})
		page := create(newPage(ns, "p"))
		Eventually(func() string { return read(page).Status.URL }).Should(Equal("http://applied"))
		now := read(page)
		Expect(now.Finalizers).To(Equal([]string{finalizer}))
		Expect(now.Labels).To(Equal(map[string]string{"generation": "1"}))
		var applied []string
		for _, entry := range now.ManagedFields {
			if entry.Operation == metav1.ManagedFieldsOperationApply {
				applied = append(applied, entry.Manager+" "+entry.Subresource)
			}
		}
		Expect(applied).To(ConsistOf("the-manager ", "the-manager status"))
		Expect(admin.Delete(ctx, page)).To(Succeed())
		Eventually(func() string { return read(page).Name }).Should(BeEmpty())
	})

	It("refuses to apply a changed copy of the primary", func() {
		record := once(newPage(ns, "p"), pageOptions{PrimaryWrites: framework.ByApply}, func(page *Page, _ *pageContext) (pageUpdate, error) {
			return framework.PatchStatus(page), nil
		})
		Expect(record.Err).To(ContainSubstring("apply takes a fresh object"))
		Expect(record.Requests).To(BeEmpty())
	})

	DescribeTable("refuses what makes no sense",
		func(control func(page *Page) pageUpdate, message string) {
			record := once(newPage(ns, "p"), pageOptions{}, func(page *Page, _ *pageContext) (pageUpdate, error) {
				return control(page), nil
			})
			Expect(record.Err).To(ContainSubstring(message))
			Expect(record.Requests).To(BeEmpty())
		},
		Entry("nil", func(*Page) pageUpdate { return framework.PatchStatus[*Page](nil) }, "the object is nil"),
		Entry("another object", func(p *Page) pageUpdate { p.Name = "other"; return framework.PatchStatus(p) }, "not the primary"),
		Entry("another incarnation", func(p *Page) pageUpdate { p.UID = "other"; return framework.PatchStatus(p) }, "UID other"),
		Entry("a negative time", func(*Page) pageUpdate { return pageUpdate{}.RescheduleAfter(-time.Second) }, "RescheduleAfter -1s"),
	)

	It("does not overwrite a change it has not seen: it runs again on the new view, and that is no failure", func() {
		page := newPage(ns, "p")
		var runs atomic.Int32
		var op *framework.Operator
		r := &pages{reconcile: func(_ context.Context, p *Page, _ *pageContext) (pageUpdate, error) {
			if runs.Add(1) == 1 {
				change(page, func(p *Page) { p.Labels = map[string]string{"theirs": "1"} })
			}
			if p.Labels == nil {
				p.Labels = map[string]string{}
			}
			p.Labels["ours"] = "1"
			return framework.PatchResource(p), nil
		}}
		op, _ = operate(ns, r, pageOptions{})
		create(page)
		Eventually(func() map[string]string { return read(page).Labels }).Should(Equal(map[string]string{"theirs": "1", "ours": "1"}))
		for _, record := range records(op, page) {
			Expect(record.Outcome).To(Equal(timeline.Succeeded))
			Expect(record.Attempt).To(BeZero())
		}
	})

	It("does not create a primary anew that vanished during its run", func() {
		for _, mode := range []framework.WriteMode{framework.ByPatch, framework.ByApply} {
			ns := namespace()
			done := make(chan struct{}, 100)
			r := &pages{reconcile: func(_ context.Context, p *Page, _ *pageContext) (pageUpdate, error) {
				defer func() { done <- struct{}{} }()
				Expect(admin.Delete(ctx, newPage(ns, "p"))).To(Succeed())
				fresh := &Page{}
				fresh.Namespace, fresh.Name = p.Namespace, p.Name
				fresh.Labels = map[string]string{"a": "b"}
				fresh.Spec = p.Spec
				return framework.PatchResource(fresh), nil
			}}
			op, _ := operate(ns, r, pageOptions{PrimaryWrites: mode, Retry: retry.Policy{Initial: time.Millisecond}})
			page := create(newPage(ns, "p"))
			<-done
			Eventually(func() int { return framework.PendingKeys(op, "webpage") }).Should(BeZero())
			Expect(read(page).Name).To(BeEmpty())
		}
	})

	It("reschedules", func() {
		var times []time.Time
		r := &pages{reconcile: func(context.Context, *Page, *pageContext) (pageUpdate, error) {
			times = append(times, time.Now())
			if len(times) < 3 {
				return framework.NoUpdate[*Page]().RescheduleAfter(100 * time.Millisecond), nil
			}
			return framework.NoUpdate[*Page](), nil
		}}
		op, stop := operate(ns, r, pageOptions{})
		page := create(newPage(ns, "p"))
		Eventually(func() int { return len(records(op, page)) }).Should(Equal(3))
		Expect(stop()).To(Succeed())
		Expect(times[2].Sub(times[0])).To(BeNumerically(">=", 200*time.Millisecond))
	})
})

var _ = Describe("A stop", func() {
	var ns string
	BeforeEach(func() { ns = namespace() })

	It("G19 lets a run finish and write, starts none, and writes nothing after it returned", func() {
		started, finish := make(chan struct{}, 10), make(chan struct{})
		var leaked *pageContext
		r := &pages{reconcile: func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			leaked = c
			started <- struct{}{}
			<-finish
			Expect(ctx.Err()).NotTo(HaveOccurred())
			page.Status.URL = "http://finished"
			return framework.PatchStatus(page), nil
		}}
		op, stop := operate(ns, r, pageOptions{Concurrency: 1})
		page := create(newPage(ns, "p"))
		<-started
		waiting := create(newPage(ns, "waiting"))
		stopped := make(chan error)
		go func() { stopped <- stop() }()
		Consistently(stopped, "100ms").ShouldNot(Receive())
		close(finish)
		Expect(<-stopped).To(Succeed())
		Expect(read(page).Status.URL).To(Equal("http://finished"))
		Expect(records(op, waiting)).To(BeEmpty())
		_, err := framework.Apply(ctx, leaked, configMapOf(page, "late"))
		Expect(err).To(MatchError(framework.ErrRunEnded))
		Expect(read(configMapOf(page, "")).Name).To(BeEmpty())
		Expect(op.Ready()).NotTo(Succeed())
		Expect(op.Run(ctx)).To(MatchError(ContainSubstring("an operator runs once")))
		Expect(framework.Register(op, r, pageOptions{Name: "late"})).To(MatchError(ContainSubstring("started already")))
	})

	It("cancels runs that take longer than the grace period", func() {
		started := make(chan struct{}, 10)
		r := &pages{reconcile: func(ctx context.Context, _ *Page, _ *pageContext) (pageUpdate, error) {
			started <- struct{}{}
			<-ctx.Done()
			return pageUpdate{}, ctx.Err()
		}}
		op := newOperator(framework.OperatorOptions{Namespaces: []string{ns}, Grace: 50 * time.Millisecond})
		Expect(framework.Register(op, r, pageOptions{})).To(Succeed())
		stop := run(op)
		create(newPage(ns, "p"))
		<-started
		Expect(stop()).To(Succeed())
	})

	It("is orderly before the caches are filled, too", func() {
		s := newStall("webpages")
		op := newOperator(framework.OperatorOptions{}, func(config *restConfig) { config.Wrap(s.holdAll) })
		Expect(framework.Register(op, &pages{}, pageOptions{})).To(Succeed())
		stop := run(op)
		Consistently(op.Ready, "100ms").ShouldNot(Succeed())
		Expect(stop()).To(Succeed())
	})
})

var _ = Describe("A start", func() {
	It("fails with the name of what is not served", func() {
		op := newOperator(framework.OperatorOptions{})
		Expect(framework.Register(op, unserved{}, framework.ControllerOptions[*unstructuredObject]{
			GroupVersionKind: webpagev1.GroupVersion.WithKind("Unserved"),
		})).To(Succeed())
		Expect(op.Run(ctx)).To(MatchError(And(ContainSubstring("Unserved"), ContainSubstring("CustomResourceDefinition"))))
	})

	It("fails with the name of what may not be listed", func() {
		op := newOperator(framework.OperatorOptions{SyncTimeout: time.Second}, func(config *restConfig) {
			config.Impersonate.UserName = "nobody"
			config.Impersonate.Groups = []string{"system:authenticated"}
		})
		Expect(framework.Register(op, &pages{}, pageOptions{})).To(Succeed())
		Expect(op.Run(ctx)).To(MatchError(And(ContainSubstring("Kind=WebPage"), ContainSubstring("forbidden"), ContainSubstring("1s"))))
	})

	It("fails without controllers", func() {
		Expect(newOperator(framework.OperatorOptions{}).Run(ctx)).To(MatchError(ContainSubstring("no controller")))
	})

	It("runs for what was there before, once per primary", func() {
		ns := namespace()
		for i := range 20 {
			create(newPage(ns, fmt.Sprintf("p%d", i)))
			create(configMapOf(newPage(ns, fmt.Sprintf("p%d", i)), "x"))
		}
		var runs atomic.Int32
		r := &pages{reconcile: func(context.Context, *Page, *pageContext) (pageUpdate, error) {
			runs.Add(1)
			return pageUpdate{}, nil
		}}
		op, _ := operate(ns, r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)})
		Eventually(runs.Load).Should(BeEquivalentTo(20))
		Consistently(runs.Load).Should(BeEquivalentTo(20))
		Expect(op.Ready()).To(Succeed())
	})

	It("watches only the namespaces it is told to", func() {
		one, two, three := namespace(), namespace(), namespace()
		keys := make(chan string, 100)
		r := &pages{reconcile: func(_ context.Context, page *Page, _ *pageContext) (pageUpdate, error) {
			keys <- page.Namespace
			return pageUpdate{}, nil
		}}
		op := newOperator(framework.OperatorOptions{Namespaces: []string{one}})
		Expect(framework.Register(op, r, pageOptions{Namespaces: []string{one, two}})).To(Succeed())
		run(op)
		for _, ns := range []string{three, one, two} {
			create(newPage(ns, "p"))
		}
		got := []string{<-keys, <-keys}
		slices.Sort(got)
		want := []string{one, two}
		slices.Sort(want)
		Expect(got).To(Equal(want))
		Consistently(keys).ShouldNot(Receive())
	})

	It("runs two controllers for one kind, each with what it selects", func() {
		ns := namespace()
		runs := make(chan string, 100)
		reconciler := func(name string) *pages {
			return &pages{reconcile: func(_ context.Context, page *Page, _ *pageContext) (pageUpdate, error) {
				runs <- name + " " + page.Name
				return pageUpdate{}, nil
			}}
		}
		op := newOperator(framework.OperatorOptions{Namespaces: []string{ns}})
		Expect(framework.Register(op, reconciler("red"), pageOptions{Name: "red", LabelSelector: "color=red"})).To(Succeed())
		Expect(framework.Register(op, reconciler("blue"), pageOptions{Name: "blue", LabelSelector: "color=blue"})).To(Succeed())
		run(op)
		for _, color := range []string{"red", "blue", "green"} {
			page := newPage(ns, "a-"+color+"-one")
			page.Labels = map[string]string{"color": color}
			create(page)
		}
		got := []string{<-runs, <-runs}
		slices.Sort(got)
		Expect(got).To(Equal([]string{"blue a-blue-one", "red a-red-one"}))
		Consistently(runs).ShouldNot(Receive())
	})
})

var _ = Describe("Events", func() {
	It("are about the primary, by the operator", func() {
		ns := namespace()
		r := &pages{reconcile: func(_ context.Context, _ *Page, c *pageContext) (pageUpdate, error) {
			c.Event(framework.Warning, "Look", "Strange", "it is %s", "strange")
			return pageUpdate{}, nil
		}}
		operate(ns, r, pageOptions{})
		page := create(newPage(ns, "p"))
		Eventually(func() []string {
			var list corev1.EventList
			Expect(admin.List(ctx, &list, client.InNamespace(ns))).To(Succeed())
			var found []string
			for _, e := range list.Items {
				found = append(found, strings.Join([]string{e.Type, e.Reason, e.Message, e.ReportingController, string(e.InvolvedObject.UID)}, "|"))
			}
			return found
		}).Should(ConsistOf("Warning|Strange|it is strange|evenkeel|" + string(page.UID)))
	})
})
