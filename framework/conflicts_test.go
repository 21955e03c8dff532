package framework_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/retry"
)

var _ = Describe("A run that meets the changes of others", func() {
	var ns string
	BeforeEach(func() { ns = namespace() })

	spins := func(options pageOptions, reconcile func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error)) int {
		GinkgoHelper()
		var runs atomic.Int32
		r := &pages{}
		r.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			runs.Add(1)
			return reconcile(ctx, page, c)
		}
		options.Retry = slow
		_, stop := operate(ns, r, options)
		create(newPage(ns, "p"))
		Eventually(runs.Load).ShouldNot(BeZero())
		Consistently(runs.Load).Should(BeNumerically(">", 0))
		Expect(stop()).To(Succeed())
		return int(runs.Load())
	}

	It("backs off at the claim of another field manager, which looking again does not change", func() {
		page := newPage(ns, "p")
		theirs := configMapOf(page, "theirs")
		create(theirs)
		Expect(spins(pageOptions{}, func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			_, err := framework.Apply(ctx, c, configMapOf(page, "ours"), framework.WithoutForce())
			return pageUpdate{}, err
		})).To(BeNumerically("<", 4))
	})

	It("backs off at a conflict that is not of the framework's own writes", func() {
		Expect(spins(pageOptions{}, func(context.Context, *Page, *pageContext) (pageUpdate, error) {
			return pageUpdate{}, apierrors.NewConflict(schema.GroupResource{Resource: "databases"}, "x", errors.New("locked"))
		})).To(BeNumerically("<", 4))
	})

	It("backs off when it deletes a namespace that is terminating already", func() {
		victim := namespace()
		Expect(spins(pageOptions{}, func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			live, err := framework.Live[*corev1.Namespace](ctx, c, "", victim)
			if err != nil {
				return pageUpdate{}, err
			}
			return pageUpdate{}, framework.Delete(ctx, c, live)
		})).To(BeNumerically("<", 4))
	})

	It("does not hide a failure that is joined with a conflict", func() {
		Expect(spins(pageOptions{}, func(context.Context, *Page, *pageContext) (pageUpdate, error) {
			return pageUpdate{}, errors.Join(errors.New("disk full"), apierrors.NewConflict(schema.GroupResource{Resource: "webpages"}, "x", errors.New("stale")))
		})).To(BeNumerically("<", 4))
	})

	It("reads a secondary anew, so that the next run does not meet the same stale view", func() {
		s := newStall("configmaps")
		var runs atomic.Int32
		var op *framework.Operator
		r := &pages{}
		r.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			m, err := r.configMaps.Get(c)
			if err != nil || m == nil {
				_, err := framework.Create(ctx, c, configMapOf(page, "one"), framework.OwnedByPrimary())
				return framework.NoUpdate[*Page]().Reschedule(), err
			}
			if runs.Add(1) == 1 {
				change(configMapOf(page, ""), func(m *corev1.ConfigMap) { m.Data["theirs"] = "kept" })
			}
			if m.Data["data"] == "two" {
				return pageUpdate{}, nil
			}
			m.Data["data"] = "two"
			_, err = framework.Update(ctx, c, m)
			return framework.NoUpdate[*Page]().Reschedule(), err
		}
		op, _ = operate(ns, r, pageOptions{Retry: slow, Secondaries: framework.Secondaries(&r.configMaps)}, func(config *restConfig) { config.Wrap(s.wrap) })
		page := create(newPage(ns, "p"))
		_ = op
		Eventually(func() map[string]string { return read(configMapOf(page, "")).Data }, "3s").Should(Equal(map[string]string{"data": "two", "theirs": "kept"}))
		Expect(runs.Load()).To(BeNumerically("<", 5))
	})

	It("G03 does not take an object for gone that came to be while the answer that there is none was on its way", func() {
		r := &pages{}
		var ran atomic.Bool
		var operator atomic.Pointer[framework.Operator]
		shown := func() bool {
			return framework.Shown(operator.Load(), corev1.SchemeGroupVersion.WithKind("ConfigMap"), types.NamespacedName{Namespace: ns, Name: "p"}) != ""
		}
		outrun := func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(request *http.Request) (*http.Response, error) {
				response, err := next.RoundTrip(request)
				if err == nil && request.Method == http.MethodGet && strings.HasSuffix(request.URL.Path, "/configmaps/p") && response.StatusCode == http.StatusNotFound {
					owner := read(newPage(ns, "p")) // the answer to create may not be there yet
					theirs := configMapOf(owner, "theirs")
					theirs.OwnerReferences = []metav1.OwnerReference{{APIVersion: "samples.evenkeel.dev/v1", Kind: "WebPage", Name: "p", UID: owner.UID}}
					create(theirs)
					Eventually(shown).Should(BeTrue())
				}
				return response, err
			})
		}
		r.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			if !ran.Swap(true) {
				stale := configMapOf(page, "ours")
				stale.ResourceVersion, stale.UID = "1", "gone-long-ago"
				_, err := framework.Update(ctx, c, stale)
				Expect(err).To(HaveOccurred())
			}
			return pageUpdate{}, nil
		}
		op, _ := operate(ns, r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)}, func(config *restConfig) { config.Wrap(outrun) })
		operator.Store(op)
		page := create(newPage(ns, "p"))
		Eventually(func() int { return len(records(op, page)) }).Should(BeNumerically(">=", 2))
		Expect(shown()).To(BeTrue())
	})

	It("runs on the new incarnation at once if the primary was replaced under it", func() {
		s := newStall("webpages")
		page := create(newPage(ns, "p"))
		var runs atomic.Int32
		r := &cleaningPages{cleanup: func(context.Context, *Page, *pageContext) (framework.DeleteControl, error) {
			return framework.RemoveFinalizer(), nil
		}}
		gate := make(chan struct{})
		r.reconcile = func(_ context.Context, p *Page, _ *pageContext) (pageUpdate, error) {
			runs.Add(1)
			if p.UID == page.UID {
				change(p, func(p *Page) { p.Finalizers = nil })
				Expect(admin.Delete(ctx, p)).To(Succeed())
				create(newPage(ns, "p"))
				close(gate)
			}
			p.Status.URL = "http://" + string(p.UID)
			return framework.PatchStatus(p), nil
		}
		op, _ := operate(ns, r, pageOptions{Retry: slow}, func(config *restConfig) { config.Wrap(s.wrap) })
		<-gate
		Eventually(func() string { return read(page).Status.URL }, "3s").ShouldNot(BeEmpty(), func() string { return fmt.Sprintf("%+v", records(op, page)) })
	})

	It("G08 leaves the attempts of a failing primary as they are", func() {
		var runs atomic.Int32
		attempts := make(chan int, 100)
		r := &pages{}
		r.reconcile = func(_ context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			n := runs.Add(1)
			attempts <- c.Retry().Attempt
			if n%2 == 0 { // a busy neighbour
				change(page, func(p *Page) { p.Annotations = map[string]string{"n": fmt.Sprint(n)} })
				page.Status.URL = fmt.Sprint("http://", n)
				return framework.PatchStatus(page), nil
			}
			return pageUpdate{}, errors.New("broken")
		}
		operate(ns, r, pageOptions{Retry: retry.Policy{Initial: 10 * time.Millisecond, Jitter: retry.NoJitter}})
		create(newPage(ns, "p"))
		got := []int{<-attempts, <-attempts, <-attempts, <-attempts}
		Expect(got).To(Equal([]int{0, 1, 1, 2}))
	})

	It("takes the finalizer off no other incarnation than the one that was cleaned up", func() {
		var cleaned []types.UID
		r := &cleaningPages{pages: pages{reconcile: nothing}}
		r.cleanup = func(_ context.Context, page *Page, _ *pageContext) (framework.DeleteControl, error) {
			cleaned = append(cleaned, page.UID)
			if len(cleaned) > 1 {
				return framework.RemoveFinalizer(), nil
			}
			change(page, func(p *Page) { p.Finalizers = nil })
			again := newPage(ns, "p")
			again.Finalizers = []string{finalizer, "somebody.else/holds"}
			create(again)
			Expect(admin.Delete(ctx, again)).To(Succeed())
			return framework.RemoveFinalizer(), nil
		}
		op, _ := operate(ns, r, pageOptions{Concurrency: 1})
		page := create(newPage(ns, "p"))
		Eventually(func() []string { return read(page).Finalizers }).Should(ContainElement(finalizer))
		Expect(admin.Delete(ctx, page)).To(Succeed())
		Eventually(func() []string { return read(page).Finalizers }).Should(Equal([]string{"somebody.else/holds"}))
		second := read(page)
		change(second, func(p *Page) { p.Finalizers = nil })
		Eventually(func() int { return framework.PendingKeys(op, "webpage") }).Should(BeZero())
		Expect(cleaned).To(HaveLen(2))
		Expect(cleaned[1]).To(Equal(second.UID))
	})

	It("shows a namespace that terminates as what it is", func() {
		victim := namespace()
		var namespaces framework.Secondary[*corev1.Namespace]
		namespaces.Map = func(n *corev1.Namespace) []types.NamespacedName { return nil }
		seen := make(chan *corev1.Namespace, 100)
		r := &pages{reconcile: func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			n, err := namespaces.GetNamed(c, "", victim)
			if err != nil || n == nil {
				return pageUpdate{}, err
			}
			if err := framework.Delete(ctx, c, n); err != nil {
				return pageUpdate{}, err
			}
			n, err = namespaces.GetNamed(c, "", victim)
			seen <- n
			return pageUpdate{}, err
		}}
		operate(ns, r, pageOptions{Retry: slow, Secondaries: framework.Secondaries(&namespaces)})
		create(newPage(ns, "p"))
		var n *corev1.Namespace
		Eventually(seen).Should(Receive(&n))
		Expect(n).NotTo(BeNil())
		Expect(n.DeletionTimestamp).NotTo(BeNil())
	})

	It("keeps the owners that others have added, by patch", func() {
		page := newPage(ns, "p")
		m := configMapOf(page, "one")
		m.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Secret", Name: "s", UID: "123"}}
		create(m)
		r := &pages{}
		r.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			_, err := framework.Apply(ctx, c, configMapOf(page, "two"), framework.OwnedByPrimary(), framework.WithMode(framework.ByPatch))
			return pageUpdate{}, err
		}
		op, _ := operate(ns, r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)})
		create(page)
		Eventually(func() int { return len(records(op, page)) }).ShouldNot(BeZero())
		Expect(read(m).Data["data"]).To(Equal("two"))
		Expect(read(m).OwnerReferences).To(HaveLen(2))
	})

	It("leaves no write of a run under way when it ends", func() {
		began, outcome := make(chan struct{}), make(chan error, 1)
		hold := func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(request *http.Request) (*http.Response, error) {
				if request.Method == http.MethodPost && strings.HasSuffix(request.URL.Path, "/configmaps") {
					close(began)
					<-request.Context().Done()
					return nil, request.Context().Err()
				}
				return next.RoundTrip(request)
			})
		}
		r := &pages{reconcile: func(_ context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			go func() {
				_, err := framework.Create(context.Background(), c, configMapOf(page, "late"))
				outcome <- err
			}()
			<-began
			return pageUpdate{}, nil
		}}
		op, _ := operate(ns, r, pageOptions{}, func(config *restConfig) { config.Wrap(hold) })
		page := create(newPage(ns, "p"))
		Eventually(outcome).Should(Receive(MatchError(context.Canceled)))
		Eventually(func() int { return len(records(op, page)) }).Should(Equal(1))
	})

	It("lets a run that outlives the operator write nothing", func() {
		started, goOn, outcome := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		r := &pages{reconcile: func(_ context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			close(started)
			<-goOn
			_, err := framework.Create(context.Background(), c, configMapOf(page, "late"))
			outcome <- err
			return pageUpdate{}, err
		}}
		op, _ := operate(ns, r, pageOptions{Retry: slow})
		create(newPage(ns, "p"))
		<-started
		framework.EndWrites(op)
		close(goOn)
		Eventually(outcome).Should(Receive(MatchError(framework.ErrRunEnded)))
	})

	It("is over at once if the primary has vanished under it, though the watch is silent", func() {
		s := newStall("webpages")
		page := create(newPage(ns, "p"))
		r := &pages{reconcile: func(_ context.Context, p *Page, _ *pageContext) (pageUpdate, error) {
			Expect(admin.Delete(ctx, newPage(ns, "p"))).To(Succeed())
			p.Status.URL = "http://late"
			return framework.PatchStatus(p), nil
		}}
		op, _ := operate(ns, r, pageOptions{Retry: slow}, func(config *restConfig) { config.Wrap(s.wrap) })
		Eventually(func() int { return len(records(op, page)) }).Should(Equal(1))
		Eventually(func() int { return framework.PendingKeys(op, "webpage") }).Should(BeZero())
		Expect(records(op, page)[0].Err).To(BeEmpty())
	})
})

var _ = Describe("A run that writes its primary itself", func() {
	It("builds on its own writes: what it returns arrives in the same run", func() {
		ns := namespace()
		r := &pages{reconcile: func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			progress := &Page{}
			progress.Namespace, progress.Name = page.Namespace, page.Name
			progress.Status.ObservedGeneration = page.Generation
			if _, err := framework.ApplyStatus(ctx, c, progress); err != nil {
				return pageUpdate{}, err
			}
			page.Status.URL = "http://done"
			page.Labels = map[string]string{"done": "yes"}
			return framework.PatchResourceAndStatus(page), nil
		}}
		op, _ := operate(ns, r, pageOptions{})
		page := create(newPage(ns, "p"))
		Eventually(func() string { return read(page).Status.URL }).Should(Equal("http://done"))
		Eventually(func() [][]string { return requests(op, page) }).ShouldNot(BeEmpty())
		Expect(requests(op, page)[0]).To(Equal([]string{
			"apply status of WebPage " + ns + "/p", "patch WebPage " + ns + "/p", "patch status of WebPage " + ns + "/p",
		}))
		Expect(read(page).Status.ObservedGeneration).To(BeEquivalentTo(1))
	})

	It("still does not overwrite what another wrote in between", func() {
		ns := namespace()
		page := newPage(ns, "p")
		first := true
		r := &pages{reconcile: func(ctx context.Context, p *Page, c *pageContext) (pageUpdate, error) {
			if first {
				first = false
				change(newPage(ns, "p"), func(p *Page) { p.Labels = map[string]string{"theirs": "yes"} })
			}
			progress := &Page{}
			progress.Namespace, progress.Name = p.Namespace, p.Name
			progress.Status.ObservedGeneration = p.Generation
			if _, err := framework.ApplyStatus(ctx, c, progress); err != nil {
				return pageUpdate{}, err
			}
			p.Labels = map[string]string{"seen": p.Labels["theirs"]}
			return framework.PatchResource(p), nil
		}}
		operate(ns, r, pageOptions{})
		create(page)
		Eventually(func() map[string]string { return read(page).Labels }).Should(Equal(map[string]string{"seen": "yes"}))
	})

	It("is refused an apply of a copy of what it read", func() {
		ns := namespace()
		failures := make(chan error, 100)
		r := &pages{reconcile: func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			_, err := framework.ApplyStatus(ctx, c, page)
			failures <- err
			return pageUpdate{}, nil
		}}
		operate(ns, r, pageOptions{})
		create(newPage(ns, "p"))
		Expect(<-failures).To(MatchError(ContainSubstring("takes a fresh object")))
	})
})
