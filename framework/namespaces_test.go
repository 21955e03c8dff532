package framework_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/framework"
)

var _ = Describe("C98 The namespaces of an operator", func() {
	var one, two string
	BeforeEach(func() { one, two = namespace(), namespace() })

	// told is a reconciler that tells where it runs.
	told := func() (*pages, chan string) {
		runs := make(chan string, 1000)
		r := &pages{}
		r.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			found, err := r.configMaps.List(c)
			runs <- fmt.Sprint(page.Namespace, " ", len(found))
			if err == nil && len(found) == 0 {
				_, err = framework.Apply(ctx, c, configMapOf(page, "x"), framework.OwnedByPrimary())
			}
			return pageUpdate{}, err
		}
		return r, runs
	}
	keys := func(op *framework.Operator) func() int {
		return func() int { return framework.PendingKeys(op, "webpage") }
	}
	start := func(namespaces []string, r framework.Reconciler[*Page], options pageOptions, change ...func(*restConfig)) *framework.Operator {
		op := newOperator(framework.OperatorOptions{Namespaces: namespaces}, change...)
		options.KeepRecords = 1000
		Expect(framework.Register(op, r, options)).To(Succeed())
		run(op)
		Eventually(op.Ready).Should(Succeed())
		return op
	}

	It("are added and removed while it runs, and no key is left behind", func() {
		r, runs := told()
		op := start([]string{one}, r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)})
		create(newPage(one, "p"))
		waiting := create(newPage(two, "p"))
		Eventually(runs).Should(Receive(Equal(one + " 0")))
		Consistently(runs).ShouldNot(Receive())

		Expect(op.SetNamespaces([]string{one, two})).To(Succeed())
		Eventually(runs).Should(Receive(Equal(two + " 0")))
		Eventually(op.Ready).Should(Succeed())
		Expect(keys(op)()).To(Equal(2))
		Consistently(runs).ShouldNot(Receive(), "the other namespace is as it was")

		Expect(op.SetNamespaces([]string{two})).To(Succeed())
		Eventually(keys(op)).Should(Equal(1))
		Expect(op.Occupancy().Caches).To(HaveEach(HaveField("Objects", 1)))
		create(newPage(one, "q"))
		Consistently(runs).ShouldNot(Receive())
		change(waiting, func(page *Page) { page.Spec.HTML = "new" })
		Eventually(runs).Should(Receive(Equal(two + " 1")))

		Expect(op.SetNamespaces([]string{one, two})).To(Succeed())
		got := []string{}
		for range 2 {
			var ran string
			Eventually(runs).Should(Receive(&ran))
			got = append(got, ran)
		}
		Expect(got).To(ConsistOf(one+" 1", one+" 0"), "what it made there is seen in the first run")
		Eventually(keys(op)).Should(Equal(3))
		Expect(op.Ready()).To(Succeed())
	})

	It("may become all of them, and some again", func() {
		r, runs := told()
		op := start([]string{one}, r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps), LabelSelector: "of=" + one})
		page := func(ns string) *Page {
			p := newPage(ns, "p")
			p.Labels = map[string]string{"of": one}
			return p
		}
		create(page(one))
		create(page(two))
		Eventually(runs).Should(Receive(Equal(one + " 0")))
		Expect(op.SetNamespaces([]string{framework.AllNamespaces})).To(Succeed())
		Eventually(runs).Should(Receive(Equal(two + " 0")))
		Eventually(op.Ready).Should(Succeed())
		Expect(op.SetNamespaces([]string{two})).To(Succeed())
		Eventually(op.Ready).Should(Succeed())
		Eventually(keys(op)).Should(Equal(1))
		for len(runs) > 0 {
			<-runs
		}
		change(page(two), func(page *Page) { page.Spec.HTML = "new" })
		Eventually(runs).Should(Receive(Equal(two + " 1")))
		change(page(one), func(page *Page) { page.Spec.HTML = "new" })
		Consistently(runs).ShouldNot(Receive(HavePrefix(one)))
	})

	It("G01 are not entered by a run before all that it reads there is filled", func() {
		r, runs := told()
		s := newStall("configmaps")
		inTwo := func(next http.RoundTripper) http.RoundTripper {
			held := s.holdAll(next)
			return roundTripper(func(request *http.Request) (*http.Response, error) {
				if strings.Contains(request.URL.Path, two) {
					return held.RoundTrip(request)
				}
				return next.RoundTrip(request)
			})
		}
		op := start([]string{one}, r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)}, func(config *restConfig) { config.Wrap(inTwo) })
		page := create(newPage(two, "p"))
		m := configMapOf(page, "there")
		m.OwnerReferences = []metav1.OwnerReference{{APIVersion: "samples.evenkeel.dev/v1", Kind: "WebPage", Name: page.Name, UID: page.UID}}
		create(m)
		Expect(op.SetNamespaces([]string{one, two})).To(Succeed())
		Consistently(runs).ShouldNot(Receive())
		Expect(op.Ready()).To(MatchError(ContainSubstring(two)))
		create(newPage(one, "p"))
		Eventually(runs).Should(Receive(Equal(one+" 0")), "the others go on")
		s.release()
		Eventually(runs).Should(Receive(Equal(two + " 1")))
		Eventually(op.Ready).Should(Succeed())
	})

	It("cancel the runs in flight where they are removed, which write nothing more", func() {
		entered, ended := make(chan struct{}), make(chan error, 1)
		var runs atomic.Int32
		r := &pages{}
		r.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			if runs.Add(1) == 1 {
				close(entered)
				<-ctx.Done()
				_, err := framework.Apply(ctx, c, configMapOf(page, "late"))
				ended <- err
			}
			return pageUpdate{}, nil
		}
		op := start([]string{one}, r, pageOptions{})
		page := create(newPage(one, "p"))
		<-entered
		Expect(op.SetNamespaces([]string{two})).To(Succeed())
		Eventually(ended).Should(Receive(HaveOccurred()))
		Expect(read(configMapOf(page, "")).Name).To(BeEmpty())
		Eventually(keys(op)).Should(BeZero())
		Consistently(runs.Load).Should(BeEquivalentTo(1))
	})

	It("leave those alone that a controller names itself", func() {
		r, runs := told()
		op := start([]string{two}, r, pageOptions{Namespaces: []string{one}, Secondaries: framework.Secondaries(&r.configMaps)})
		Expect(op.SetNamespaces([]string{"elsewhere"})).To(Succeed())
		create(newPage(one, "p"))
		Eventually(runs).Should(Receive())
	})

	It("are taken in before the operator runs, and refused where they cannot exist", func() {
		r, runs := told()
		op := newOperator(framework.OperatorOptions{Namespaces: []string{one}})
		Expect(op.SetNamespaces([]string{"UPPER"})).To(MatchError(ContainSubstring(`"UPPER"`)))
		Expect(op.SetNamespaces([]string{two})).To(Succeed())
		Expect(framework.Register(op, r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)})).To(Succeed())
		stop := run(op)
		create(newPage(one, "p"))
		create(newPage(two, "p"))
		Eventually(runs).Should(Receive(Equal(two + " 0")))
		Consistently(runs).ShouldNot(Receive())
		Expect(stop()).To(Succeed())
		Expect(op.SetNamespaces([]string{one})).To(Succeed())
	})

	It("may be changed by many, over and over: what was said last counts", func() {
		r, runs := told()
		op := start([]string{one}, r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)})
		create(newPage(one, "p"))
		create(newPage(two, "p"))
		for i := range 20 {
			Expect(op.SetNamespaces([][]string{{two}, {one, two}, {}, {one}}[i%4])).To(Succeed())
		}
		Expect(op.SetNamespaces([]string{two})).To(Succeed())
		Eventually(op.Ready).Should(Succeed())
		Eventually(keys(op)).Should(Equal(1))
		for len(runs) > 0 {
			<-runs
		}
		change(newPage(two, "p"), func(page *Page) { page.Spec.HTML = "new" })
		Eventually(runs).Should(Receive(HavePrefix(two)))
		change(newPage(one, "p"), func(page *Page) { page.Spec.HTML = "new" })
		Consistently(runs).ShouldNot(Receive(HavePrefix(one)))
	})
})
