package framework_test

import (
	"context"
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
)

// expectRuns waits for that many runs of a page, and checks that no further one follows and that nothing
// of what was proven is kept.
func expectRuns(op *framework.Operator, page *Page, n int) {
	GinkgoHelper()
	Eventually(func() int { return len(records(op, page)) }).Should(BeNumerically(">=", n))
	Consistently(func() [][]string { return requests(op, page) }).Should(HaveLen(n))
	Eventually(func() int { return framework.LedgerEdges(op) }).Should(BeZero())
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

// answers passes the answers to requests of a method to a resource through f.
func answers(method, resource string, f func(*http.Response) (*http.Response, error)) func(*restConfig) {
	wrap := func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(request)
			if err == nil && request.Method == method && strings.Contains(request.URL.Path, "/"+resource) {
				return f(response)
			}
			return response, err
		})
	}
	return func(config *restConfig) { config.Wrap(wrap) }
}

var _ = Describe("An own write", func() {
	var (
		ns   string
		page *Page
		r    *pages
	)
	BeforeEach(func() {
		ns = namespace()
		page = newPage(ns, "p")
		r = &pages{}
		r.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			_, err := framework.Apply(ctx, c, configMapOf(page, page.Spec.HTML), framework.OwnedByPrimary())
			return pageUpdate{}, err
		}
	})
	options := func() pageOptions {
		return pageOptions{Retry: slow, Secondaries: framework.Secondaries(&r.configMaps)}
	}
	setHTML := func(html string) {
		GinkgoHelper()
		change(page, func(p *Page) { p.Spec.HTML = html })
	}

	It("G05 makes its primary due no further time: finalizer, secondary and status take one run", func() {
		cleaning := &cleaningPages{cleanup: func(context.Context, *Page, *pageContext) (framework.DeleteControl, error) {
			return framework.RemoveFinalizer(), nil
		}}
		cleaning.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			page.Status.URL = "http://here"
			_, err := framework.Apply(ctx, c, configMapOf(page, "x"), framework.OwnedByPrimary())
			return framework.PatchStatus(page), err
		}
		op, _ := operate(ns, cleaning, pageOptions{Retry: slow, Secondaries: framework.Secondaries(&cleaning.configMaps)})
		create(page)
		expectRuns(op, page, 1)
		Expect(requests(op, page)[0]).To(HaveLen(3))
	})

	It("O1 makes its primary due no further time if its echo comes before the answer", func() {
		told := make(chan string, 100)
		r.configMaps.Filter = func(_, after *corev1.ConfigMap) bool { told <- after.Name; return true }
		op, _ := operate(ns, r, options(), answers(http.MethodPatch, "configmaps", func(answer *http.Response) (*http.Response, error) {
			<-told
			return answer, nil
		}))
		create(page)
		expectRuns(op, page, 1)
		setHTML("two")
		expectRuns(op, page, 2)
	})

	It("G05 is explained as long as what it changed is on its way to the scheduler", func() {
		blocked, released := newGate(), newGate()
		r.configMaps.Filter = func(_, after *corev1.ConfigMap) bool {
			if after.Name == "slow" {
				blocked.open()
				<-released.opened
			}
			return true
		}
		apply := r.reconcile
		r.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "slow"}})
			<-blocked.opened // by the watch, behind which the write queues
			return apply(ctx, page, c)
		}
		op, _ := operate(ns, r, options())
		create(page)
		Eventually(func() int { return len(records(op, page)) }).Should(Equal(1))
		Expect(framework.LedgerEdges(op)).To(Equal(1))
		released.open()
		expectRuns(op, page, 1)
	})

	It("O7 hides no foreign change that it meets: an apply is repeated for the newer version and makes its primary due", func() {
		s := newStall("configmaps")
		op, _ := operate(ns, r, options(), func(config *restConfig) { config.Wrap(s.wrap) })
		create(page)
		expectRuns(op, page, 1)
		change(configMapOf(page, ""), func(m *corev1.ConfigMap) { m.Data["theirs"] = "kept" })
		setHTML("two")
		expectRuns(op, page, 3)
		apply := "apply ConfigMap " + ns + "/p"
		Expect(requests(op, page)).To(HaveExactElements(Equal([]string{apply}), Equal([]string{apply, apply}), BeEmpty()))
		Expect(read(configMapOf(page, "")).Data).To(Equal(map[string]string{"data": "two", "theirs": "kept"}))
	})

	It("G14 lands on no other incarnation of a secondary than the one that was read", func() {
		s := newStall("configmaps")
		apply := r.reconcile
		var missed atomic.Bool
		r.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			held, err := r.configMaps.GetNamed(c, ns, page.Name)
			if err != nil {
				return pageUpdate{}, err
			}
			update, err := apply(ctx, page, c)
			if held != nil && err == nil && read(held).UID != held.UID {
				missed.Store(true)
			}
			return update, err
		}
		op, _ := operate(ns, r, options(), func(config *restConfig) { config.Wrap(s.wrap) })
		create(page)
		expectRuns(op, page, 1)
		Expect(admin.Delete(ctx, configMapOf(page, ""))).To(Succeed())
		create(configMapOf(page, "another's"))
		setHTML("two")
		Eventually(func() string { return read(configMapOf(page, "")).Data["data"] }).Should(Equal("two"))
		Expect(missed.Load()).To(BeFalse())
	})

	It("O2 makes its primary due if it found an object that no cache had shown", func() {
		s := newStall("configmaps")
		apply := r.reconcile
		var once sync.Once
		r.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			once.Do(func() { create(configMapOf(page, "another's")) })
			return apply(ctx, page, c)
		}
		op, _ := operate(ns, r, options(), func(config *restConfig) { config.Wrap(s.wrap) })
		create(page)
		expectRuns(op, page, 2)
	})

	It("O17 makes its primary due once if it adopts an object", func() {
		create(configMapOf(page, "another's"))
		op, _ := operate(ns, r, options())
		create(page)
		expectRuns(op, page, 2)
		setHTML("two")
		expectRuns(op, page, 3)
	})

	It("O8 makes the other primaries of a shared secondary due", func() {
		other := newPage(ns, "other")
		r.configMaps.Map = func(m *corev1.ConfigMap) []types.NamespacedName {
			return []types.NamespacedName{{Namespace: ns, Name: page.Name}, {Namespace: ns, Name: other.Name}}
		}
		apply := r.reconcile
		r.reconcile = func(ctx context.Context, p *Page, c *pageContext) (pageUpdate, error) {
			if p.Name == other.Name {
				return pageUpdate{}, nil
			}
			return apply(ctx, p, c)
		}
		op, _ := operate(ns, r, options())
		create(other)
		expectRuns(op, other, 1)
		create(page)
		expectRuns(op, page, 1)
		expectRuns(op, other, 2)
	})

	It("O8 makes its primary due with other controllers", func() {
		watcher := &pages{reconcile: func(context.Context, *Page, *pageContext) (pageUpdate, error) { return pageUpdate{}, nil }}
		op := newOperator(framework.OperatorOptions{Namespaces: []string{ns}})
		writes := options()
		writes.KeepRecords = 100
		Expect(framework.Register(op, r, writes)).To(Succeed())
		Expect(framework.Register(op, watcher, pageOptions{Name: "watcher", KeepRecords: 100, Secondaries: framework.Secondaries(&watcher.configMaps)})).To(Succeed())
		run(op)
		create(page)
		expectRuns(op, page, 1)
		setHTML("two")
		expectRuns(op, page, 2)
		causes := func() (written int) {
			for _, record := range op.Records("watcher") {
				for _, cause := range record.Causes {
					if strings.Contains(cause.String(), "ConfigMap") {
						written++
					}
				}
			}
			return written
		}
		Eventually(causes).Should(Equal(2))
	})

	It("O6 makes its primary due if it was unconditional, or is to be unfiltered", func() {
		for _, option := range []framework.WriteOption{framework.Unconditional(), framework.Unfiltered()} {
			ns = namespace()
			page = newPage(ns, "p")
			r = &pages{}
			r.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
				_, err := framework.Apply(ctx, c, configMapOf(page, page.Spec.HTML), framework.OwnedByPrimary(), option)
				return pageUpdate{}, err
			}
			op, stop := operate(ns, r, options())
			create(page)
			Eventually(func() int { return len(records(op, page)) }).ShouldNot(BeZero())
			Eventually(func() int { return framework.PendingKeys(op, "webpage") }).Should(Equal(1)) // its max interval
			before := len(records(op, page))
			setHTML("two")
			expectRuns(op, page, before+2)
			Expect(stop()).To(Succeed())
		}
	})

	It("is sent again if another undid it, and not if nothing changed", func() {
		op, _ := operate(ns, r, options())
		create(page)
		expectRuns(op, page, 1)
		change(configMapOf(page, ""), func(m *corev1.ConfigMap) { m.Labels = map[string]string{"theirs": "kept"} })
		expectRuns(op, page, 2)
		change(configMapOf(page, ""), func(m *corev1.ConfigMap) { m.Data["data"] = "theirs" })
		expectRuns(op, page, 3)
		Expect(read(configMapOf(page, "")).Data["data"]).To(Equal("<html/>"))
		change(page, func(p *Page) { p.Spec.HTML = "<html/> "; p.Labels = map[string]string{"x": "y"} })
		expectRuns(op, page, 4)
		change(page, func(p *Page) { p.Spec.Exposed = true }) // of no concern to the secondary
		expectRuns(op, page, 5)
		apply := Equal([]string{"apply ConfigMap " + ns + "/p"})
		Expect(requests(op, page)).To(HaveExactElements(apply, apply, apply, apply, BeEmpty()))
	})

	It("takes its turn among applies to one object, so that each costs one request", func() {
		const writers = 8
		var ready sync.WaitGroup
		ready.Add(writers)
		r.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			ready.Done()
			ready.Wait()
			shared := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "shared"}, Data: map[string]string{page.Name: "x"}}
			_, err := framework.Apply(ctx, c, shared, framework.FieldManager(page.Name))
			return pageUpdate{}, err
		}
		op, _ := operate(ns, r, pageOptions{Retry: slow, Concurrency: writers, Secondaries: framework.Secondaries(&r.configMaps)})
		for i := range writers {
			create(newPage(ns, "p"+string(rune('a'+i))))
		}
		Eventually(func() int { return len(op.Records("webpage")) }).Should(Equal(writers))
		for _, record := range op.Records("webpage") {
			Expect(record.Requests).To(HaveLen(1), record.Key)
		}
	})

	It("O11 is repeated under its name if its answer is lost, and found", func() {
		var lose atomic.Bool
		lose.Store(true)
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
		s := newStall("configmaps")
		op, _ := operate(ns, r, options(), func(config *restConfig) { config.Wrap(s.wrap) },
			answers(http.MethodPost, "configmaps", func(answer *http.Response) (*http.Response, error) {
				if lose.Swap(false) {
					_ = answer.Body.Close()
					return nil, context.DeadlineExceeded
				}
				return answer, nil
			}))
		create(page)
		expectRuns(op, page, 2)
		Expect(requests(op, page)).To(HaveExactElements(HaveLen(2), BeEmpty()))
		var all corev1.ConfigMapList
		Expect(admin.List(ctx, &all)).To(Succeed())
		var names []string
		for _, m := range all.Items {
			if m.Namespace == ns {
				names = append(names, m.Name)
			}
		}
		Expect(names).To(HaveLen(1))
	})

	It("G03 that takes the last finalizer off ends the primary at once, though the watch is silent", func() {
		s := newStall("webpages")
		cleaning := &cleaningPages{cleanup: func(context.Context, *Page, *pageContext) (framework.DeleteControl, error) {
			return framework.RemoveFinalizer(), nil
		}}
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
})
