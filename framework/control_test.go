package framework_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/retry"
	webpagev1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
	"github.com/evenkeel/evenkeel/timeline"
)

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
		Expect(texts(record)).To(Equal([]string{"patch status of WebPage " + ns + "/p"}))
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
	)

	It("does not overwrite a change it has not seen: it runs again on the new view, and that is no failure", func() {
		page := newPage(ns, "p")
		var runs atomic.Int32
		var op *framework.Operator
		r := &pages{reconcile: func(_ context.Context, p *Page, _ *pageContext) (pageUpdate, error) {
			if runs.Add(1) == 1 {
				change(newPage(ns, "p"), func(p *Page) { p.Labels = map[string]string{"theirs": "1"} })
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
