package framework_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
	webpagev1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// echoFirst holds the answers to writes of a resource back until the operator's caches show them.
type echoFirst struct {
	resource string
	shown    func() string
}

func (e *echoFirst) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if request.Method == http.MethodGet || !strings.Contains(request.URL.Path, "/"+e.resource) {
			return next.RoundTrip(request)
		}
		before := e.shown()
		response, err := next.RoundTrip(request)
		// Polled, as there is nothing that tells of the cache and does not wait for this answer.
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for e.shown() == before {
			select {
			case <-tick.C:
			case <-request.Context().Done():
				return response, err
			}
		}
		return response, err
	})
}

// loseAnswers loses the answers to the first n writes of a resource, after the server carried them
// out.
func loseAnswers(n int32, method, resource string) func(http.RoundTripper) http.RoundTripper {
	var lost atomic.Int32
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(request)
			if err == nil && request.Method == method && strings.Contains(request.URL.Path, "/"+resource) && lost.Add(1) <= n {
				_, _ = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close()
				return nil, io.ErrUnexpectedEOF
			}
			return response, err
		})
	}
}

// settled waits until the operator has nothing to do any more and holds nothing for it.
func settled(op *framework.Operator) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		now := op.Occupancy()
		for _, cache := range now.Caches {
			g.Expect(cache.Ahead).To(BeZero(), "G16: ahead of %s", cache.Cache)
		}
		g.Expect([]int{now.Edges, framework.Lanes(op)}).To(Equal([]int{0, 0}), "G16: edges, lanes")
	}).Should(Succeed())
}

var (
	configMapKind = corev1.SchemeGroupVersion.WithKind("ConfigMap")
	pageKind      = webpagev1.GroupVersion.WithKind("WebPage")
)

var _ = Describe("Own writes", func() {
	var (
		ns   string
		page *Page
	)
	BeforeEach(func() {
		ns = namespace()
		page = newPage(ns, "p")
	})

	// everything writes to the primary and a secondary in every way that can be proven.
	everything := func(r *pages, changed *atomic.Int32) func(context.Context, *Page, *pageContext) (pageUpdate, error) {
		return func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			must := func(_ any, err error) {
				GinkgoHelper()
				Expect(err).NotTo(HaveOccurred())
				changed.Add(1)
			}
			must(framework.Apply(ctx, c, configMapOf(page, "applied"), framework.OwnedByPrimary()))
			must(framework.Apply(ctx, c, configMapOf(page, "applied again"), framework.OwnedByPrimary()))
			m, err := r.configMaps.Get(c)
			Expect(err).NotTo(HaveOccurred())
			m.Data["data"] = "updated"
			must(framework.Update(ctx, c, m))
			must(framework.MergePatch(ctx, c, configMapOf(page, ""), []byte(`{"data":{"data":"patched"}}`)))
			must(framework.JSONPatch(ctx, c, configMapOf(page, ""), []byte(`[{"op":"add","path":"/data/more","value":"x"}]`)))
			created := configMapOf(page, "created")
			created.Name = "second"
			must(framework.Create(ctx, c, created, framework.OwnedByPrimary()))
			must(framework.ApplyStatus(ctx, c, &Page{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: page.Name}, Status: webpagev1.WebPageStatus{URL: "http://one"}}))
			page.Status.URL = "http://two"
			return framework.PatchStatus(page), nil
		}
	}

	for _, when := range []string{"before its answer", "after its answer"} {
		It("O1 O2 G05 C55 do not trigger their primary, though the echo comes "+when, func() {
			r := &pages{}
			writes, op := atomic.Int32{}, (*framework.Operator)(nil)
			reconcile := everything(r, &writes)
			var ran atomic.Int32
			r.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
				ran.Add(1)
				return reconcile(ctx, page, c)
			}
			early := &echoFirst{resource: "configmaps", shown: func() string {
				return framework.Shown(op, configMapKind, trc.Key{Namespace: ns, Name: "p"}) + " " + framework.Shown(op, configMapKind, trc.Key{Namespace: ns, Name: "second"})
			}}
			late := newStall("configmaps")
			wrap := early.wrap
			if when == "after its answer" {
				wrap = late.wrap
			}
			// AllGenerations: what the generation filter would hide is to be explained by proof.
			op = newOperator(framework.OperatorOptions{Namespaces: []string{ns}}, func(config *restConfig) { config.Wrap(wrap) })
			Expect(framework.Register(op, r, pageOptions{
				AllGenerations: true, KeepRecords: 1000, Secondaries: framework.Secondaries(&r.configMaps),
			})).To(Succeed())
			run(op)
			create(page)
			Eventually(func() string { return read(page).Status.URL }).Should(Equal("http://two"))
			Consistently(ran.Load, 300*time.Millisecond).Should(BeEquivalentTo(1))
			late.release()
			Consistently(ran.Load, 300*time.Millisecond).Should(BeEquivalentTo(1))
			settled(op)
			Expect(writes.Load()).To(BeEquivalentTo(7))
		})
	}

	It("G05 make one run and three requests of a finalizer, a secondary and a status", func() {
		r := &cleaningPages{cleanup: func(context.Context, *Page, *pageContext) (framework.DeleteControl, error) {
			return framework.RemoveFinalizer(), nil
		}}
		r.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			if _, err := framework.Apply(ctx, c, configMapOf(page, "x"), framework.OwnedByPrimary()); err != nil {
				return pageUpdate{}, err
			}
			page.Status.URL = "http://here"
			return framework.PatchStatus(page), nil
		}
		op, _ := operate(ns, r, pageOptions{AllGenerations: true, Secondaries: framework.Secondaries(&r.configMaps)})
		create(page)
		Eventually(func() string { return read(page).Status.URL }).Should(Equal("http://here"))
		settled(op)
		Consistently(func() int { return len(records(op, page)) }, 300*time.Millisecond).Should(Equal(1))
		Expect(requests(op, page)[0]).To(HaveLen(3))

		By("skipping what is already so in the next run")
		change(page, func(p *Page) { p.Labels = map[string]string{"a": "b"} })
		Eventually(func() int { return len(records(op, page)) }).Should(Equal(2))
		Expect(requests(op, page)[1]).To(BeEmpty())

		By("asking again once the secondary has changed")
		change(configMapOf(page, ""), func(m *corev1.ConfigMap) { m.Data["data"] = "theirs" })
		Eventually(func() map[string]string { return read(configMapOf(page, "")).Data }).Should(Equal(map[string]string{"data": "x"}))
		Eventually(func() int { return len(records(op, page)) }).Should(Equal(3))
		Consistently(func() int { return len(records(op, page)) }, 200*time.Millisecond).Should(Equal(3))

		By("forgetting what is gone")
		Expect(op.Occupancy().Confirmed).To(Equal(1))
		Expect(admin.Delete(ctx, read(page))).To(Succeed())
		Expect(admin.Delete(ctx, configMapOf(page, ""))).To(Succeed())
		Eventually(func() int { return op.Occupancy().Confirmed }).Should(BeZero())
		settled(op)
	})

	It("O3 G04 let exactly one run follow a foreign change before, between or after them, with the true old and new", func() {
		for _, at := range []int{0, 1, 2} {
			name := "p" + string(rune('0'+at))
			page := newPage(ns, name)
			type step struct{ old, new string }
			var mu sync.Mutex
			var steps []step
			r := &pages{}
			r.configMaps.Filter = func(old, new *corev1.ConfigMap) bool {
				mu.Lock()
				defer mu.Unlock()
				if old != nil && new != nil && new.Name == name {
					steps = append(steps, step{old.Data["data"] + old.Data["theirs"], new.Data["data"] + new.Data["theirs"]})
				}
				return true
			}
			ran := r.inFirstRun(func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
				foreign := func(now int) {
					if now == at {
						m := read(configMapOf(page, ""))
						m.Data["theirs"] = "!"
						Expect(admin.Update(ctx, m)).To(Succeed())
					}
				}
				for i, data := range []string{"zero", "one", "two"} {
					_, err := framework.Apply(ctx, c, configMapOf(page, data), framework.OwnedByPrimary())
					Expect(err).NotTo(HaveOccurred())
					foreign(i)
				}
				return pageUpdate{}, nil
			})
			op, stop := operate(ns, r, pageOptions{LabelSelector: "page=" + page.Name, Secondaries: framework.Secondaries(&r.configMaps)})
			page.Labels = map[string]string{"page": page.Name}
			create(page)
			Eventually(ran.Load).Should(BeEquivalentTo(2))
			settled(op)
			Consistently(ran.Load, 200*time.Millisecond).Should(BeEquivalentTo(2))
			mu.Lock()
			defer mu.Unlock()
			Expect(steps[len(steps)-1].new).To(Equal("two!"))
			for i := 1; i < len(steps); i++ {
				Expect(steps[i].old).To(Equal(steps[i-1].new), "O18: old is what readers saw before")
			}
			Expect(stop()).To(Succeed())
		}
	})

	It("O6 trigger if they were without precondition, and are readable at once", func() {
		r := &pages{}
		ran := r.inFirstRun(func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			_, err := framework.Apply(ctx, c, configMapOf(page, "one"), framework.OwnedByPrimary())
			Expect(err).NotTo(HaveOccurred())
			_, err = framework.Apply(ctx, c, configMapOf(page, "two"), framework.OwnedByPrimary(), framework.Unconditional())
			Expect(err).NotTo(HaveOccurred())
			Expect(r.configMaps.Get(c)).To(HaveField("Data", HaveKeyWithValue("data", "two")))
			return pageUpdate{}, nil
		})
		operate(ns, r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)})
		create(page)
		Eventually(ran.Load).Should(BeEquivalentTo(2))
		Consistently(ran.Load, 200*time.Millisecond).Should(BeEquivalentTo(2))
	})

	It("trigger if the author asks for it, and not if they were dry runs", func() {
		r := &pages{}
		ran := r.inFirstRun(func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			answer, err := framework.Apply(ctx, c, configMapOf(page, "dry"), framework.OwnedByPrimary(), framework.DryRun())
			Expect(err).NotTo(HaveOccurred())
			Expect(answer.Data).To(HaveKeyWithValue("data", "dry"))
			Expect(r.configMaps.Get(c)).To(BeNil())
			_, err = framework.Create(ctx, c, configMapOf(page, "one"), framework.OwnedByPrimary(), framework.Unfiltered())
			return pageUpdate{}, err
		})
		operate(ns, r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)})
		create(page)
		Eventually(ran.Load).Should(BeEquivalentTo(2))
		Consistently(ran.Load, 200*time.Millisecond).Should(BeEquivalentTo(2))
	})

	It("O7 are repeated without precondition at a conflict, for the same object only, and the foreign change triggers", func() {
		late := newStall("configmaps")
		r := &pages{}
		ran := r.inFirstRun(func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			_, err := framework.Apply(ctx, c, configMapOf(page, "one"), framework.OwnedByPrimary())
			Expect(err).NotTo(HaveOccurred())
			change(configMapOf(page, ""), func(m *corev1.ConfigMap) { m.Data["theirs"] = "kept" })
			_, err = framework.Apply(ctx, c, configMapOf(page, "two"), framework.OwnedByPrimary())
			Expect(err).NotTo(HaveOccurred())
			Expect(r.configMaps.Get(c)).To(HaveField("Data", Equal(map[string]string{"data": "two", "theirs": "kept"})))
			return pageUpdate{}, nil
		})
		op, _ := operate(ns, r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)}, func(config *restConfig) { config.Wrap(late.wrap) })
		create(page)
		Eventually(ran.Load).Should(BeEquivalentTo(2))
		Eventually(func() [][]string { return requests(op, page) }).Should(ContainElement(HaveLen(3)), "the second apply took two requests")
	})

	It("O8 trigger the other primaries of a shared secondary", func() {
		r := &pages{}
		runs := make(chan string, 100)
		r.configMaps.Map = func(m *corev1.ConfigMap) []types.NamespacedName {
			return []types.NamespacedName{{Namespace: ns, Name: "a"}, {Namespace: ns, Name: "b"}}
		}
		r.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			runs <- page.Name
			if page.Name != "a" {
				return pageUpdate{}, nil
			}
			shared := configMapOf(page, page.Spec.HTML)
			shared.Name = "shared"
			_, err := framework.Apply(ctx, c, shared)
			return pageUpdate{}, err
		}
		op, _ := operate(ns, r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)})
		create(newPage(ns, "b"))
		Eventually(runs).Should(Receive(Equal("b")))
		a := create(newPage(ns, "a"))
		Eventually(runs).Should(Receive(Equal("a")))
		Eventually(runs).Should(Receive(Equal("b")))
		settled(op)
		change(a, func(p *Page) { p.Spec.HTML = "<html>two</html>" })
		Eventually(runs).Should(Receive(Equal("a")))
		Eventually(runs).Should(Receive(Equal("b")))
		Consistently(runs, 200*time.Millisecond).ShouldNot(Receive())
	})

	It("O10 O13 trigger when they delete, and what they deleted is not read again", func() {
		r := &pages{}
		ran := r.inFirstRun(func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			created, err := framework.Create(ctx, c, configMapOf(page, "one"), framework.OwnedByPrimary())
			Expect(err).NotTo(HaveOccurred())
			Expect(framework.Delete(ctx, c, created)).To(Succeed())
			Expect(r.configMaps.Get(c)).To(BeNil())
			return pageUpdate{}, nil
		})
		op, _ := operate(ns, r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)})
		create(page)
		Eventually(ran.Load).Should(BeEquivalentTo(2))
		settled(op)
		Consistently(ran.Load, 200*time.Millisecond).Should(BeEquivalentTo(2))
		last := records(op, page)[1].Causes
		Expect(last).To(ContainElement(HaveField("Action", timeline.Deleted)))
	})

	It("O17 trigger once when they adopt an object", func() {
		create(configMapOf(page, "theirs"))
		r := &pages{}
		var ran atomic.Int32
		r.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			ran.Add(1)
			_, err := framework.Apply(ctx, c, configMapOf(page, "ours"), framework.OwnedByPrimary())
			return pageUpdate{}, err
		}
		op, _ := operate(ns, r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)})
		create(page)
		Eventually(ran.Load).Should(BeEquivalentTo(2))
		settled(op)
		Consistently(ran.Load, 200*time.Millisecond).Should(BeEquivalentTo(2))
	})
})
