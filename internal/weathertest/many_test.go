package weathertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	"github.com/evenkeel/evenkeel/timeline"
)

// manySecondaries is how many one page has: more than the 64 causes that a run is told one by one.
const manySecondaries = 200

// farmer applies many ConfigMaps in each run, one after the other or all at once.
type farmer struct {
	maps   framework.Secondary[*corev1.ConfigMap]
	atOnce bool
	runs   atomic.Int64
}

func (f *farmer) Reconcile(ctx context.Context, p *page, c *pageContext) (pageUpdate, error) {
	f.runs.Add(1)
	errs := make([]error, manySecondaries)
	var writing sync.WaitGroup
	for i := range errs {
		apply := func() {
			m := newMap(p.Namespace, numbered(p.Name, i), map[string]string{"html": p.Spec.HTML})
			_, errs[i] = framework.Apply(ctx, c, m, framework.OwnedByPrimary())
		}
		if f.atOnce {
			writing.Go(apply)
		} else {
			apply()
		}
	}
	writing.Wait()
	p.Status.URL = urlOf(p)
	return framework.PatchStatus(p), errors.Join(errs...)
}

func numbered(page string, i int) string { return fmt.Sprintf("%s-%d", page, i) }

var _ = Describe("Many secondaries of one primary", func() {
	DescribeTable("G05 G12 cost one run each time, and all comes to rest", func(atOnce bool, rule faultproxy.Rule) {
		const name = "p0"
		ns, f, seen := namespace(), &farmer{atOnce: atOnce}, &requests{}
		rule.Name, rule.Match.Resources = "late", []string{"configmaps"}
		proxy := behindProxy(rule)
		op, _ := operate(seen.through(proxy.Config()), ns, f, pageOptions{
			Name: "farmer", Secondaries: framework.Secondaries(&f.maps), KeepRecords: 100,
		})
		// rests waits until all is as it is to be and the watches have brought everything, and counts
		// what that took.
		rests := func(html string, runs, writes int) {
			GinkgoHelper()
			Eventually(func() int { return len(op.Records("farmer")) }).Should(BeNumerically(">=", runs))
			Eventually(func() []string { return differing(ns, html) }).Should(BeEmpty())
			Eventually(func() []string { return leftOf(op, false) }).Should(BeEmpty())
			Expect(f.runs.Load()).To(BeEquivalentTo(runs), "runs: %v", op.Records("farmer"))
			Expect(seen.sum().writes).To(Equal(writes), "requests")
		}
		Expect(admin.Create(ctx, newPage(ns, name, "first"))).To(Succeed())
		rests("first", 1, manySecondaries+1) // and the status
		_, changed := changePage(ns, name, func(p *page) bool { p.Spec.HTML = "second"; return true })
		Expect(changed).To(BeTrue())
		rests("second", 2, 2*manySecondaries+2)
		By("changing one of them")
		Expect(admin.Patch(ctx, newMap(ns, numbered(name, 77), nil),
			client.RawPatch(types.MergePatchType, []byte(`{"data":{"html":"theirs"}}`)))).To(Succeed())
		rests("second", 3, 2*manySecondaries+3)
		Consistently(f.runs.Load).Should(BeEquivalentTo(3), "runs at rest")
		for _, r := range op.Records("farmer") {
			Expect(r.Outcome).To(Equal(timeline.Succeeded), r.String())
		}
		Expect(seen.sum().refused).To(BeEmpty())
		Expect(proxy.Log()).NotTo(BeEmpty(), "nothing was late")
	},
		Entry("with watches that are late", false, faultproxy.Rule{
			Match: faultproxy.Match{Verbs: []string{"watch"}}, Do: faultproxy.Action{Lag: faultproxy.Duration(500 * time.Millisecond)},
		}),
		Entry("with answers that come after the events", true, faultproxy.Rule{
			Match: faultproxy.Match{Verbs: writes}, Do: faultproxy.Action{DelayAnswer: faultproxy.Duration(500 * time.Millisecond)},
		}),
	)
})

// differing are the ConfigMaps of the page that are not of its content, or not there.
func differing(ns, html string) (names []string) {
	GinkgoHelper()
	for i := range manySecondaries {
		names = append(names, numbered("p0", i))
	}
	var maps corev1.ConfigMapList
	Expect(admin.List(ctx, &maps, client.InNamespace(ns))).To(Succeed())
	for _, m := range maps.Items {
		if m.Data["html"] == html {
			names = slices.DeleteFunc(names, func(name string) bool { return name == m.Name })
		}
	}
	return names
}
