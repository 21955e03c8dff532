package framework_test

import (
	"context"
	"fmt"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/evenkeel/evenkeel/framework"
)

// rerunning runs a reconciler again and again.
type rerunning struct {
	*AllocatingReconciler
	runs atomic.Int32
	upTo int32
	seen chan string
}

func (r *rerunning) Reconcile(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
	r.seen <- page.Status.URL
	control, err := r.AllocatingReconciler.Reconcile(ctx, page, c)
	if r.runs.Add(1) < r.upTo {
		control = control.Reschedule()
	}
	return control, err
}

var _ = Describe("Allocated values", func() {
	var allocated atomic.Int32
	newReconciler := func(upTo int32) *rerunning {
		allocated.Store(0)
		return &rerunning{upTo: upTo, seen: make(chan string, 1000), AllocatingReconciler: &AllocatingReconciler{
			allocate: func(context.Context) (string, error) { return fmt.Sprintf("id-%d", allocated.Add(1)), nil },
		}}
	}
	It("G01 are seen by every later run, though the watch delivers nothing", func() {
		ns := namespace()
		late := newStall("webpages")
		page := newPage(ns, "p")
		create(page) // before the operator starts: the list has it, and the watch nothing after it
		r := newReconciler(20)
		operate(ns, r, pageOptions{PrimaryWrites: framework.ByApply}, func(config *restConfig) { config.Wrap(late.wrap) })
		Expect(<-r.seen).To(BeEmpty())
		for range 19 {
			Expect(<-r.seen).To(Equal("id-1"))
		}
		Expect(allocated.Load()).To(BeEquivalentTo(1))
	})

	It("G01 are allocated once, though others change the page at the same time", func() {
		ns := namespace()
		r := newReconciler(200)
		operate(ns, r, pageOptions{PrimaryWrites: framework.ByApply, AllGenerations: true})
		page := create(newPage(ns, "p"))
		for i := range 50 {
			change(page, func(p *Page) { p.Labels = map[string]string{"n": fmt.Sprint(i)} })
		}
		Eventually(r.runs.Load).Should(BeNumerically(">=", 200))
		Expect(allocated.Load()).To(BeEquivalentTo(1))
		Expect(read(page).Status.URL).To(Equal("id-1"))
	})
})
