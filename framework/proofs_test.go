package framework_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

// expectRuns waits for that many runs of a page, and checks that no further one follows and that
// nothing is left of them.
func expectRuns(op *framework.Operator, page *Page, n int) {
	GinkgoHelper()
	Eventually(func() int { return len(records(op, page)) }).Should(BeNumerically(">=", n))
	Consistently(func() [][]string { return requests(op, page) }).Should(HaveLen(n))
	Eventually(func() int { return op.Occupancy().Edges }).Should(BeZero())
}

// gate is a channel that anyone may close, any number of times.
type gate struct {
	once   sync.Once
	opened chan struct{}
}

func newGate() *gate {
	g := &gate{opened: make(chan struct{})}
	DeferCleanup(g.open)
	return g
}

func (g *gate) open() { g.once.Do(func() { close(g.opened) }) }

// meddle lets f happen just before the n-th request of a method to a resource, as if another was
// faster.
func meddle(method, resource string, f func(n int32)) func(*restConfig) {
	var sent atomic.Int32
	return func(config *restConfig) {
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(request *http.Request) (*http.Response, error) {
				if request.Method == method && strings.Contains(request.URL.Path, "/"+resource) {
					f(sent.Add(1))
				}
				return next.RoundTrip(request)
			})
		})
	}
}

var _ = Describe("What is proven of a write", func() {
	var (
		ns   string
		page *Page
		r    *pages
	)
	apply := func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
		_, err := framework.Apply(ctx, c, configMapOf(page, page.Spec.HTML), framework.OwnedByPrimary())
		return pageUpdate{}, err
	}
	BeforeEach(func() {
		ns = namespace()
		page = newPage(ns, "p")
		r = &pages{reconcile: apply}
	})
	options := func() pageOptions {
		return pageOptions{Retry: slow, KeepRecords: 1000, Secondaries: framework.Secondaries(&r.configMaps)}
	}
	setHTML := func(html string) {
		GinkgoHelper()
		change(page, func(p *Page) { p.Spec.HTML = html })
	}
	removing := func() *cleaningPages {
		return &cleaningPages{pages: pages{reconcile: func(context.Context, *Page, *pageContext) (pageUpdate, error) {
			return pageUpdate{}, nil
		}}, cleanup: func(context.Context, *Page, *pageContext) (framework.DeleteControl, error) {
			return framework.RemoveFinalizer(), nil
		}}
	}

	It("G05 is kept as long as what it changed is on its way to the scheduler", func() {
		blocked, released := newGate(), newGate()
		r.configMaps.Filter = func(_, after *corev1.ConfigMap) bool {
			if after.Name == "slow" {
				blocked.open()
				<-released.opened
			}
			return true
		}
		r.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "slow"}})
			<-blocked.opened // by the watch, behind which the write queues
			return apply(ctx, page, c)
		}
		op, _ := operate(ns, r, options())
		DeferCleanup(released.open) // before the operator is stopped, which waits for the filter
		create(page)
		Eventually(func() int { return len(records(op, page)) }).Should(Equal(1))
		Expect(op.Occupancy().Edges).To(Equal(1))
		released.open()
		expectRuns(op, page, 1)
	})

	It("O2 is nothing if an apply found an object that no cache had shown", func() {
		s := newStall("configmaps")
		var once sync.Once
		r.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			once.Do(func() { create(configMapOf(page, "another's")) })
			return apply(ctx, page, c)
		}
		op, _ := operate(ns, r, options(), func(config *restConfig) { config.Wrap(s.wrap) })
		create(page)
		expectRuns(op, page, 2)
	})

	// The watch is silent in both, so that only the answer can tell of the write, while it is proven.
	It("O8 holds for one primary only", func() {
		s := newStall("configmaps")
		other := newPage(ns, "other")
		r.configMaps.Map = func(*corev1.ConfigMap) []types.NamespacedName {
			return []types.NamespacedName{{Namespace: ns, Name: "p"}, {Namespace: ns, Name: "other"}}
		}
		r.reconcile = func(ctx context.Context, p *Page, c *pageContext) (pageUpdate, error) {
			if p.Name == "other" {
				return pageUpdate{}, nil
			}
			return apply(ctx, p, c)
		}
		op, _ := operate(ns, r, options(), func(config *restConfig) { config.Wrap(s.wrap) })
		create(other)
		expectRuns(op, other, 1)
		create(page)
		expectRuns(op, page, 1)
		expectRuns(op, other, 2)
	})

	It("O8 holds for one controller only", func() {
		s := newStall("configmaps")
		watcher := &pages{reconcile: func(context.Context, *Page, *pageContext) (pageUpdate, error) { return pageUpdate{}, nil }}
		op := newOperator(framework.OperatorOptions{Namespaces: []string{ns}}, func(config *restConfig) { config.Wrap(s.wrap) })
		Expect(framework.Register(op, r, options())).To(Succeed())
		Expect(framework.Register(op, watcher, pageOptions{Name: "watcher", KeepRecords: 100, Secondaries: framework.Secondaries(&watcher.configMaps)})).To(Succeed())
		run(op)
		create(page)
		expectRuns(op, page, 1)
		setHTML("two")
		expectRuns(op, page, 2)
		told := func() (n int) {
			for _, record := range op.Records("watcher") {
				for _, cause := range record.Causes {
					if strings.Contains(cause.String(), "ConfigMap") {
						n++
					}
				}
			}
			return n
		}
		Eventually(told).Should(Equal(2))
	})

	It("G01 is laid over all caches of a kind", func() {
		var labelled framework.Secondary[*corev1.ConfigMap]
		labelled.Name, labelled.LabelSelector = "labelled", "cached=twice"
		s := newStall("configmaps")
		seen := make(chan []*corev1.ConfigMap, 100)
		r.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			m := configMapOf(page, "x")
			m.Labels = map[string]string{"cached": "twice"}
			_, err := framework.Apply(ctx, c, m, framework.OwnedByPrimary())
			Expect(err).NotTo(HaveOccurred())
			for _, secondary := range []*framework.Secondary[*corev1.ConfigMap]{&r.configMaps, &labelled} {
				found, err := secondary.List(c)
				Expect(err).NotTo(HaveOccurred())
				seen <- found
			}
			return pageUpdate{}, nil
		}
		with := options()
		with.Secondaries = append(with.Secondaries, &labelled)
		operate(ns, r, with, func(config *restConfig) { config.Wrap(s.wrap) })
		create(page)
		for range 2 {
			Eventually(seen).Should(Receive(HaveLen(1)))
		}
	})

	It("G02 outlives a restart: the first list is consistent also where lists are not streamed", func() {
		var mu sync.Mutex
		var lists []string
		refuse := func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(request *http.Request) (*http.Response, error) {
				query := request.URL.Query()
				if query.Get("sendInitialEvents") != "" {
					return &http.Response{
						StatusCode: http.StatusBadRequest, Request: request, Header: http.Header{"Content-Type": {"application/json"}},
						Body: io.NopCloser(strings.NewReader(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"BadRequest","code":400}`)),
					}, nil
				}
				if request.Method == http.MethodGet && query.Get("watch") == "" && strings.HasSuffix(request.URL.Path, "s") {
					mu.Lock()
					defer mu.Unlock()
					lists = append(lists, query.Get("resourceVersion"))
				}
				return next.RoundTrip(request)
			})
		}
		create(page)
		op, _ := operate(ns, r, options(), func(config *restConfig) { config.Wrap(refuse) })
		expectRuns(op, page, 1)
		mu.Lock()
		defer mu.Unlock()
		Expect(len(lists)).To(BeNumerically(">=", 2))
		Expect(lists).To(HaveEach(BeEmpty()), "any other version may be older than what was read before")
	})

	It("O11 is of one object: a create whose answer is lost is repeated under its name", func() {
		s := newStall("configmaps")
		r.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			found, err := r.configMaps.List(c)
			if err != nil || len(found) > 0 {
				return pageUpdate{}, err
			}
			m := configMapOf(page, "x")
			m.Name, m.GenerateName = "", "generated-"
			_, err = framework.Create(ctx, c, m, framework.OwnedByPrimary())
			return pageUpdate{}, err
		}
		op, _ := operate(ns, r, options(), func(config *restConfig) {
			config.Wrap(loseAnswers(1, http.MethodPost, "configmaps"))
			config.Wrap(s.wrap)
		})
		create(page)
		expectRuns(op, page, 2) // the second finds it
		Expect(requests(op, page)).To(HaveExactElements(HaveLen(2), BeEmpty()))
		var all corev1.ConfigMapList
		Expect(admin.List(ctx, &all, client.InNamespace(ns))).To(Succeed())
		Expect(all.Items).To(HaveLen(1))
	})

	It("G12 saves requests, but an apply is sent again if another undid it", func() {
		op, _ := operate(ns, r, options())
		create(page)
		expectRuns(op, page, 1)
		change(configMapOf(page, ""), func(m *corev1.ConfigMap) { m.Data["data"] = "theirs" })
		expectRuns(op, page, 2)
		Expect(read(configMapOf(page, "")).Data["data"]).To(Equal("<html/>"))
		change(page, func(p *Page) { p.Spec.Exposed = true }) // of no concern to the secondary
		expectRuns(op, page, 3)
		sent := Equal([]string{"apply ConfigMap " + ns + "/p"})
		Expect(requests(op, page)).To(HaveExactElements(sent, sent, BeEmpty()))
	})

	It("G03 tells that the primary is gone with its last finalizer, though the watch is silent", func() {
		s := newStall("webpages")
		cleaning := removing()
		cleaning.reconcile = func(_ context.Context, page *Page, _ *pageContext) (pageUpdate, error) {
			Expect(admin.Delete(ctx, newPage(ns, page.Name))).To(Succeed())
			page.Status.URL = "http://stale"
			return framework.PatchStatus(page), nil // meets the deletion
		}
		create(page)
		op, _ := operate(ns, cleaning, pageOptions{Retry: slow}, func(config *restConfig) { config.Wrap(s.wrap) })
		Eventually(func() string { return read(page).Name }).Should(BeEmpty())
		Eventually(func() int { return framework.PendingKeys(op, "webpage") }).Should(BeZero())
		Expect(records(op, page)).To(HaveLen(2))
	})

	It("G09 keeps the finalizers that another puts on or takes off just before", func() {
		const theirs = "somebody.else/early"
		met := make(chan int32, 100)
		op, _ := operate(ns, removing(), pageOptions{Retry: slow}, meddle(http.MethodPatch, "webpages", func(n int32) {
			switch n {
			case 1:
				change(newPage(ns, "p"), func(p *Page) { p.Finalizers = append(p.Finalizers, theirs) })
			case 3:
				change(newPage(ns, "p"), func(p *Page) { p.Finalizers = []string{finalizer} })
			}
			met <- n
		}))
		create(page)
		Eventually(func() []string { return read(page).Finalizers }).Should(ConsistOf(theirs, finalizer))
		expectRuns(op, page, 2) // one for the change that it met
		Expect(met).To(HaveLen(2), "the first patch met a conflict, the second none")
		Expect(admin.Delete(ctx, newPage(ns, "p"))).To(Succeed())
		Eventually(func() string { return read(page).Name }).Should(BeEmpty())
		Expect(met).To(HaveLen(4))
	})

	It("C87 keeps the finalizer if it is told to, without a time to come back", func() {
		cleaning := removing()
		var kept atomic.Bool
		cleaning.cleanup = func(context.Context, *Page, *pageContext) (framework.DeleteControl, error) {
			kept.Store(true)
			return framework.KeepFinalizer(), nil
		}
		op, _ := operate(ns, cleaning, pageOptions{})
		create(page)
		expectRuns(op, page, 1)
		Expect(admin.Delete(ctx, newPage(ns, "p"))).To(Succeed())
		expectRuns(op, page, 2)
		Expect(kept.Load()).To(BeTrue())
		Expect(read(page).Finalizers).To(Equal([]string{finalizer}))
		change(page, func(p *Page) { p.Finalizers = nil })
	})
})
