package weathertest

import (
	"context"
	"fmt"
	"net/http"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/faultproxy"
	"github.com/evenkeel/evenkeel/retry"
)

// breeder is a keeper whose pages have a child besides, which the server would have given its name:
// what is created twice stays.
type breeder struct {
	keeper
	births func() // is called before a child is created, unless it is nil
}

func (b *breeder) Reconcile(ctx context.Context, p *page, c *pageContext) (pageUpdate, error) {
	all, err := b.maps.List(c)
	if err != nil {
		return pageUpdate{}, err
	}
	born := false
	for _, m := range all {
		born = born || m.Name != p.Name
	}
	if !born {
		if b.births != nil {
			b.births()
		}
		child := newMap(p.Namespace, "", nil)
		child.GenerateName = "child-of-" + p.Name + "-"
		if _, err := framework.Create(ctx, c, child, framework.OwnedByPrimary()); err != nil {
			return pageUpdate{}, err
		}
	}
	return b.keeper.Reconcile(ctx, p, c)
}

func (b *breeder) Cleanup(ctx context.Context, _ *page, c *pageContext) (framework.DeleteControl, error) {
	all, err := b.maps.List(c)
	for _, m := range all {
		if err == nil {
			err = framework.Delete(ctx, c, m)
		}
	}
	return framework.RemoveFinalizer(), err
}

var writes = []string{"create", "update", "patch", "apply", "delete"}

// burst is a rule by which a number of requests meet a fault.
func burst(name string, verbs []string, every, times int, do faultproxy.Action) faultproxy.Rule {
	return faultproxy.Rule{
		Name: name, Match: faultproxy.Match{Verbs: verbs, Resources: []string{"webpages", "webpages/*", "configmaps"}},
		When: faultproxy.When{Every: every, Times: times}, Do: do,
	}
}

func answers(status, retryAfter int) faultproxy.Action {
	return faultproxy.Action{Answer: &faultproxy.Answer{Status: status, RetryAfter: retryAfter}}
}

func late(status int) faultproxy.Action {
	return faultproxy.Action{Answer: &faultproxy.Answer{Status: status, Late: true}}
}

// behindProxy starts a proxy without faults before the API server.
func behindProxy(rules ...faultproxy.Rule) *faultproxy.Proxy {
	GinkgoHelper()
	proxy, err := faultproxy.Start(env.Config, faultproxy.Plan{Rules: rules})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(proxy.Stop)
	return proxy
}

var hurried = retry.Policy{Initial: 20 * time.Millisecond, Max: 500 * time.Millisecond}

var _ = Describe("Bursts of refusals", func() {
	const objects = 48

	DescribeTable("delay what is to be done, and lose nothing of it", func(bad ...faultproxy.Rule) {
		ns := namespace()
		proxy, b, seen := behindProxy(), &breeder{}, &requests{}
		op, _ := operate(seen.through(proxy.Config()), ns, b, pageOptions{
			Name: "breeder", Secondaries: framework.Secondaries(&b.maps), Concurrency: 16, Retry: hurried, KeepRecords: 10_000,
		})
		book := begin(ns)
		weather := func(what string) {
			GinkgoHelper()
			By(what)
			Expect(proxy.Set(bad...)).To(Succeed()) // with their counts from the beginning
		}
		weather("creating")
		eachOf(ns, objects, func(p *page) error { return admin.Create(ctx, p) })
		Eventually(settled(ns, "first")).Should(Equal(objects))
		weather("changing")
		eachOf(ns, objects, func(p *page) error { _, err := change(p, "second"); return err })
		Eventually(settled(ns, "second")).Should(Equal(objects))
		By("coming to rest")
		Eventually(func() []string { return leftOf(op, false) }).Should(BeEmpty())
		Expect(namesOf(ns, &corev1.ConfigMapList{})).To(HaveLen(2*objects), "each page has its ConfigMap and one child")
		weather("deleting")
		eachOf(ns, objects, func(p *page) error { return admin.Delete(ctx, p) })
		ends(ns, op)
		Expect(seen.sum().early).To(BeEmpty(), "requests that came before the time that the server had named")
		acted := map[string]int{}
		for _, entry := range proxy.Log() {
			acted[entry.Rule]++
		}
		for _, rule := range bad {
			Expect(acted[rule.Name]).To(BeNumerically(">=", 3), "the faults of "+rule.Name)
		}
		judgeCreations(book.commits())
	},
		Entry("G08 429 with a time to come back", burst("throttle", writes, 3, 40, answers(429, 1))),
		Entry("G08 429 with and without one, also to reads", burst("throttle", writes, 4, 40, answers(429, 1)),
			burst("throttle-all", append([]string{"get"}, writes...), 5, 40, answers(429, 0))),
		Entry("G07 500, of what was carried out and of what was not", burst("fail", writes, 4, 60, answers(500, 0)), burst("fail-late", writes, 5, 60, late(500))),
		Entry("G07 503, with a time to come back and without", burst("out", writes, 5, 40, answers(503, 1)),
			burst("out-late", writes, 7, 40, late(503)), burst("out-reads", []string{"get"}, 2, 40, answers(503, 0))),
		Entry("G07 connections that break before and after the request", burst("drop", append([]string{"get"}, writes...), 4, 60, faultproxy.Action{Drop: true}),
			burst("lose", writes, 5, 60, faultproxy.Action{LoseAnswer: true})),
		Entry("G07 everything at once, with watches that break and are refused",
			burst("throttle", writes, 7, 40, answers(429, 1)), burst("fail-late", writes, 11, 40, late(500)), burst("lose", writes, 5, 40, faultproxy.Action{LoseAnswer: true}),
			burst("refuse-watches", []string{"watch"}, 2, 1, answers(503, 0)), burst("cut", []string{"watch"}, 1, 2, faultproxy.Action{Cut: &faultproxy.Cut{Events: 20}})),
	)

	DescribeTable("G15 hold up nobody else while one waits for the time that it was told", func(status int) {
		ns := namespace()
		k, seen := &keeper{}, &requests{}
		proxy := behindProxy(faultproxy.Rule{
			Name: "busy", Match: faultproxy.Match{Verbs: writes, Resources: []string{"configmaps"}, Name: "p0"}, Do: answers(status, 3600),
		})
		_, stop := operate(seen.through(proxy.Config()), ns, k, pageOptions{Name: "keeper", Secondaries: framework.Secondaries(&k.maps), Concurrency: 1})
		Expect(admin.Create(ctx, newPage(ns, "p0", "first"))).To(Succeed())
		Expect(proxy.Wait(ctx, "busy", 1)).To(Succeed())
		other := newPage(ns, "p1", "first")
		Expect(admin.Create(ctx, other)).To(Succeed())
		Eventually(func() string { return pageNow(ns, "p1").Status.URL }).WithTimeout(20 * time.Second).Should(Equal(urlOf(other)))
		Expect(pageNow(ns, "p0").Status.URL).To(BeEmpty())
		Expect(seen.sum().early).To(BeEmpty())
		Expect(stop()).To(Succeed())
	},
		Entry("after 429", http.StatusTooManyRequests),
		Entry("after 503", http.StatusServiceUnavailable),
	)
})

// change has another client change what a page is to show.
func change(p *page, html string) (*page, error) {
	after, changed := changePage(p.Namespace, p.Name, func(p *page) bool { p.Spec.HTML = html; return true })
	if !changed {
		return after, fmt.Errorf("there is no page %s", p.Name)
	}
	return after, nil
}

// judgeCreations: of every page one ConfigMap and one child were ever made.
func judgeCreations(commits []commit) {
	GinkgoHelper()
	made := map[string][]string{}
	known := map[string]bool{}
	for _, c := range commits {
		if c.configMap != nil && !c.deleted && !known[string(c.uid)] {
			known[string(c.uid)] = true
			owner := metav1.GetControllerOf(c.configMap)
			Expect(owner).NotTo(BeNil(), c.name)
			made[owner.Name] = append(made[owner.Name], c.name)
		}
	}
	for page, names := range made {
		Expect(names).To(HaveLen(2), "what was made for "+page)
	}
}
