package weathertest

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/depth"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
	webpagev1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

// keeper has for every page a ConfigMap of its content and a status, and takes the ConfigMap away
// by itself: where there is no garbage collector.
type keeper struct {
	maps framework.Secondary[*corev1.ConfigMap]
	runs atomic.Int64
}

func (k *keeper) Reconcile(ctx context.Context, p *page, c *pageContext) (pageUpdate, error) {
	k.runs.Add(1)
	if _, err := framework.Apply(ctx, c, newMap(p.Namespace, p.Name, map[string]string{"html": p.Spec.HTML}), framework.OwnedByPrimary()); err != nil {
		return pageUpdate{}, err
	}
	p.Status.URL = urlOf(p)
	return framework.PatchStatus(p), nil
}

func (k *keeper) Cleanup(ctx context.Context, _ *page, c *pageContext) (framework.DeleteControl, error) {
	m, err := k.maps.Get(c)
	if err == nil && m != nil {
		err = framework.Delete(ctx, c, m)
	}
	return framework.RemoveFinalizer(), err
}

// urlOf is the status of a page, which tells of which incarnation it is.
func urlOf(p *page) string { return fmt.Sprintf("%s/%s", p.UID, p.Spec.HTML) }

// population is how many objects there are to be.
func population() int { return depth.Of(300, 300, 10_000) }

// patience is how long a step over all objects may take.
func patience(objects int) time.Duration { return calm + time.Duration(objects)*60*time.Millisecond }

// eachOf does something to every page, 16 at a time.
func eachOf(ns string, objects int, do func(p *page) error) {
	GinkgoHelper()
	var doing sync.WaitGroup
	var failed atomic.Pointer[error]
	for worker := range 16 {
		doing.Go(func() {
			for i := worker; i < objects; i += 16 {
				if err := do(newPage(ns, fmt.Sprintf("p%d", i), "first")); err != nil {
					failed.Store(&err)
				}
			}
		})
	}
	doing.Wait()
	if err := failed.Load(); err != nil {
		Expect(*err).NotTo(HaveOccurred())
	}
}

// settled counts the pages whose status and ConfigMap are of the content.
func settled(ns, html string) func() (int, error) {
	return func() (n int, err error) {
		var pages webpagev1.WebPageList
		var maps corev1.ConfigMapList
		if err := admin.List(ctx, &pages, client.InNamespace(ns)); err != nil {
			return 0, err
		}
		if err := admin.List(ctx, &maps, client.InNamespace(ns)); err != nil {
			return 0, err
		}
		right := map[string]bool{}
		for _, m := range maps.Items {
			right[m.Name] = m.Data["html"] == html
		}
		for _, p := range pages.Items {
			if right[p.Name] && p.Spec.HTML == html && p.Status.URL == urlOf(&p) && len(p.Finalizers) == 1 {
				n++
			}
		}
		return n, nil
	}
}

var _ = Describe("Many objects", func() {
	It("G05 G16 come, change and go, with no request too many, and nothing is left of them", func() {
		objects, ns := population(), namespace()
		k, seen := &keeper{}, &requests{}
		op, stop := operate(seen.through(env.Config), ns, k, pageOptions{
			Name: "keeper", Secondaries: framework.Secondaries(&k.maps), Concurrency: 24, KeepRecordsPerPrimary: 3,
		})
		// What works has its connections and goroutines from then on.
		eachOf(ns, 16, func(p *page) error { return admin.Create(ctx, p) })
		Eventually(settled(ns, "first")).Should(Equal(16))
		eachOf(ns, 16, func(p *page) error { return admin.Delete(ctx, p) })
		ends(ns, op)
		rest := func(runs int) {
			GinkgoHelper()
			Eventually(k.runs.Load).WithTimeout(patience(objects)).Should(BeNumerically(">=", runs*objects))
			Eventually(func() []string { return leftOf(op, false) }).Should(BeEmpty())
		}
		goroutines, started := runtime.NumGoroutine(), seen.sum().writes
		k.runs.Store(0)

		By("creating")
		eachOf(ns, objects, func(p *page) error { return admin.Create(ctx, p) })
		rest(1)
		Expect(settled(ns, "first")()).To(Equal(objects))
		Expect(k.runs.Load()).To(BeEquivalentTo(objects), "runs of objects that were created")
		Expect(seen.sum().writes-started).To(Equal(3*objects), "requests for objects that were created")
		Expect(op.Occupancy().Histories).To(Equal(objects))

		By("changing")
		eachOf(ns, objects, func(p *page) error {
			return admin.Patch(ctx, p, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"html":"second"}}`)))
		})
		rest(2)
		Expect(settled(ns, "second")()).To(Equal(objects))
		Expect(k.runs.Load()).To(BeEquivalentTo(2*objects), "runs of objects that were changed")
		Expect(seen.sum().writes-started).To(Equal(5*objects), "requests for objects that were changed")

		By("deleting")
		eachOf(ns, objects, func(p *page) error { return admin.Delete(ctx, p) })
		Eventually(func() []string { return leftOf(op, true) }).WithTimeout(patience(objects)).Should(BeEmpty())
		ends(ns, op)
		Expect(k.runs.Load()).To(BeEquivalentTo(2*objects), "no run of an object that is going")
		Expect(seen.sum().writes-started).To(Equal(7*objects), "requests for objects that were deleted")
		Expect(seen.sum().refused).To(BeEmpty())
		By("counting goroutines")
		Eventually(runtime.NumGoroutine).Should(BeNumerically("<=", goroutines))
		Expect(stop()).To(Succeed())
	})
})
