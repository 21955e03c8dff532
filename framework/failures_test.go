package framework_test

import (
	"context"
	"errors"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/evenkeel/evenkeel/framework"
)

var _ = Describe("A failure at its limits", func() {
	var ns string
	BeforeEach(func() { ns = namespace() })

	It("is not a time to come back that is zero: it is at once", func() {
		r := &pages{}
		r.inFirstRun(func(context.Context, *Page, *pageContext) (pageUpdate, error) {
			return pageUpdate{}.RescheduleAfter(0), nil
		})
		op, _ := operate(ns, r, pageOptions{Retry: slow})
		page := create(newPage(ns, "p"))
		Eventually(func() int { return len(records(op, page)) }).Should(Equal(2))
		Expect(records(op, page)[0].Err).To(BeEmpty())
	})

	It("G15 is shown by ErrorStatus also when the run has used up its time", func() {
		r := &failingPages{}
		r.reconcile = func(ctx context.Context, _ *Page, _ *pageContext) (pageUpdate, error) {
			<-ctx.Done()
			return pageUpdate{}, ctx.Err()
		}
		r.errorStatus = func(page *Page, _ *pageContext, failure error) framework.ErrorStatusControl[*Page] {
			page.Status.URL = "http://failed"
			return framework.PatchErrorStatus(page)
		}
		operate(ns, r, pageOptions{Retry: slow, RunTimeout: 50 * time.Millisecond})
		page := create(newPage(ns, "p"))
		Eventually(func() string { return read(page).Status.URL }, "2s").Should(Equal("http://failed"))
	})

	It("is not hidden by a panic of ErrorStatus, nor are the writes before it", func() {
		r := &failingPages{}
		r.reconcile = func(ctx context.Context, p *Page, c *pageContext) (pageUpdate, error) {
			_, err := framework.Apply(ctx, c, configMapOf(p, "x"))
			return pageUpdate{}, errors.Join(err, errors.New("disk full"))
		}
		r.errorStatus = func(*Page, *pageContext, error) framework.ErrorStatusControl[*Page] { panic("oops") }
		op, _ := operate(ns, r, pageOptions{Retry: slow})
		page := create(newPage(ns, "p"))
		Eventually(func() int { return len(records(op, page)) }).ShouldNot(BeZero())
		Expect(records(op, page)[0].Err).To(And(ContainSubstring("disk full"), ContainSubstring("oops")))
		Expect(records(op, page)[0].Requests).To(HaveLen(1))
	})
})
