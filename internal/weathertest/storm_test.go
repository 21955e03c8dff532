package weathertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/faultproxy"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
	"github.com/evenkeel/evenkeel/retry"
	"github.com/evenkeel/evenkeel/timeline"
)

// way is one way to bring a ConfigMap that there is already in line.
type way struct {
	name  string
	write func(ctx context.Context, c *pageContext, shown, desired *corev1.ConfigMap) error
}

// ways are all of them. Those that are for a version meet conflicts.
var ways = []way{
	{"apply", func(ctx context.Context, c *pageContext, _, desired *corev1.ConfigMap) error {
		_, err := framework.Apply(ctx, c, desired, framework.OwnedByPrimary())
		return err
	}},
	{"apply-by-patch", func(ctx context.Context, c *pageContext, _, desired *corev1.ConfigMap) error {
		_, err := framework.Apply(ctx, c, desired, framework.OwnedByPrimary(), framework.WithMode(framework.ByPatch))
		return err
	}},
	{"apply-a-version", func(ctx context.Context, c *pageContext, shown, desired *corev1.ConfigMap) error {
		desired.ResourceVersion = shown.ResourceVersion
		_, err := framework.Apply(ctx, c, desired, framework.OwnedByPrimary())
		return err
	}},
	{"update", func(ctx context.Context, c *pageContext, shown, desired *corev1.ConfigMap) error {
		shown.Data["html"] = desired.Data["html"]
		_, err := framework.Update(ctx, c, shown)
		return err
	}},
	{"merge-patch", func(ctx context.Context, c *pageContext, shown, desired *corev1.ConfigMap) error {
		_, err := framework.MergePatch(ctx, c, shown, fmt.Appendf(nil, `{"data":{"html":%q}}`, desired.Data["html"]))
		return err
	}},
	{"json-patch", func(ctx context.Context, c *pageContext, shown, desired *corev1.ConfigMap) error {
		_, err := framework.JSONPatch(ctx, c, shown, fmt.Appendf(nil, `[{"op":"add","path":"/data/html","value":%q}]`, desired.Data["html"]))
		return err
	}},
	{"delete-and-create", func(ctx context.Context, c *pageContext, shown, desired *corev1.ConfigMap) error {
		if err := framework.Delete(ctx, c, shown, framework.IfUnchanged()); err != nil {
			return err
		}
		_, err := framework.Create(ctx, c, desired, framework.OwnedByPrimary())
		return err
	}},
}

// sailor writes in every way what is not as it is to be, and to the primary: an annotation and the
// status.
type sailor struct {
	maps framework.Secondary[*corev1.ConfigMap]
	met  [16]atomic.Int64 // errors, way by way
}

func (s *sailor) Reconcile(ctx context.Context, p *page, c *pageContext) (pageUpdate, error) {
	var errs []error
	for i, w := range ways {
		desired := newMap(p.Namespace, p.Name+"-"+w.name, map[string]string{"html": p.Spec.HTML})
		shown, err := s.maps.GetNamed(c, desired.Namespace, desired.Name)
		switch {
		case err != nil:
		case shown == nil:
			_, err = framework.Create(ctx, c, desired, framework.OwnedByPrimary())
		case shown.Data["html"] != p.Spec.HTML:
			err = w.write(ctx, c, shown, desired)
		}
		if err != nil {
			s.met[i].Add(1)
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		return pageUpdate{}, errors.Join(errs...)
	}
	p.Annotations["wanted"] = p.Spec.HTML
	p.Status.URL = urlOf(p)
	return framework.PatchResourceAndStatus(p), nil
}

// blow changes an object without regard to others, as fast as it can, until the time is over.
func blow(o client.Object, patch func(n int) string, end time.Time) (commits int64) {
	for n := 0; time.Now().Before(end); n++ {
		target := o.DeepCopyObject().(client.Object)
		if err := admin.Patch(ctx, target, client.RawPatch(types.MergePatchType, []byte(patch(n)))); err == nil {
			commits++
		} else if client.IgnoreNotFound(err) != nil {
			panic(fmt.Sprintf("change %s: %v", o.GetName(), err))
		}
	}
	return commits
}

var _ = Describe("A storm of conflicts", func() {
	const pages, blowing = 3, 6 * time.Second

	It("G08 G12 ends with all as it is to be, at no attempt's cost, with no more runs than there were reasons for", func() {
		ns := namespace()
		book, s, seen := begin(ns), &sailor{}, &requests{}
		// What is shown late is what makes conflicts.
		proxy := behindProxy(faultproxy.Lag("late", 30*time.Millisecond, "webpages", "configmaps"))
		op, _ := operate(seen.through(proxy.Config()), ns, s, pageOptions{
			Name: "sailor", Secondaries: framework.Secondaries(&s.maps), Concurrency: 16, KeepRecords: 1_000_000,
			AllGenerations: true, Retry: retry.Never(), // what were an attempt would be the last
		})
		eachOf(ns, pages, func(p *page) error {
			p.Annotations = map[string]string{"by": "the author"}
			return admin.Create(ctx, p)
		})
		Eventually(func() []string { return astray(ns, pages, "first") }).Should(BeEmpty())

		var blowers sync.WaitGroup
		var foreign atomic.Int64
		end := time.Now().Add(blowing)
		for i := range pages {
			name := fmt.Sprintf("p%d", i)
			blowers.Go(func() {
				foreign.Add(blow(newPage(ns, name, ""), func(n int) string {
					return fmt.Sprintf(`{"metadata":{"annotations":{"foreign":"%d","wanted":"tampered"}},"spec":{"html":"h%d"}}`, n, n/10)
				}, end))
			})
			for _, w := range ways {
				random := rand.New(rand.NewPCG(uint64(GinkgoRandomSeed()), uint64(i)))
				blowers.Go(func() {
					foreign.Add(blow(newMap(ns, name+"-"+w.name, nil), func(n int) string {
						if random.IntN(4) == 0 {
							return fmt.Sprintf(`{"data":{"html":"tampered","theirs":"%d"}}`, n)
						}
						return fmt.Sprintf(`{"data":{"theirs":"%d"}}`, n)
					}, end))
				})
			}
		}
		blowers.Wait()
		eachOf(ns, pages, func(p *page) error { _, err := change(p, "last"); return err })
		foreign.Add(pages)
		Eventually(func() []string { return astray(ns, pages, "last") }).Should(BeEmpty())
		Eventually(func() []string { return leftOf(op, false) }).Should(BeEmpty())
		last := book.last()
		Consistently(book.last).Should(Equal(last), "something is written at rest")

		runs := op.Records("sailor")
		for _, r := range runs {
			Expect(r.Outcome).To(Equal(timeline.Succeeded), r.String())
			Expect(r.Attempt).To(BeZero(), r.String())
		}
		met := map[string]int64{}
		for i, w := range ways {
			met[w.name] = s.met[i].Load()
		}
		AddReportEntry("conflicts", fmt.Sprintf("%d foreign commits, %d runs, %v refusals; runs that met one: %v", foreign.Load(), len(runs), seen.sum().refused, met))
		Expect(len(runs)).To(BeNumerically("<=", foreign.Load()+pages), "each run has its own reason")
		Expect(met["apply"]).To(BeZero(), "an apply that carries no version of the author's meets no conflict")
		Expect(seen.sum().refused[409]).To(BeNumerically(">", 20), "there was no storm")
	})
})

// astray lists what is not as it is to be.
func astray(ns string, pages int, html string) (wrong []string) {
	GinkgoHelper()
	var maps corev1.ConfigMapList
	Expect(admin.List(ctx, &maps, client.InNamespace(ns))).To(Succeed())
	right := map[string]bool{}
	for _, m := range maps.Items {
		right[m.Name] = m.Data["html"] == html
	}
	for i := range pages {
		p := pageNow(ns, fmt.Sprintf("p%d", i))
		if p.Status.URL != urlOf(p) || p.Spec.HTML != html || p.Annotations["wanted"] != html {
			wrong = append(wrong, p.Name)
		}
		for _, w := range ways {
			if name := p.Name + "-" + w.name; !right[name] {
				wrong = append(wrong, name)
			}
		}
	}
	return wrong
}
