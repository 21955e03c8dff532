package framework_test

import (
	"context"
	"fmt"
	"slices"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
	"github.com/evenkeel/evenkeel/internal/wire"
)

// wired starts an operator of pages whose connections a wire can break.
func wired(ns string, r framework.Reconciler[*Page], options pageOptions) (*framework.Operator, *wire.Wire) {
	GinkgoHelper()
	w, err := wire.Start(env.Config)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(w.Stop)
	op, _ := operate(ns, r, options, func(config *rest.Config) { *config = *w.Config() })
	Eventually(op.Ready).Should(Succeed())
	return op, w
}

func configMapsIn(ns string) []string {
	GinkgoHelper()
	var all corev1.ConfigMapList
	Expect(admin.List(ctx, &all, client.InNamespace(ns))).To(Succeed())
	var names []string
	for _, m := range all.Items {
		if m.Name != "kube-root-ca.crt" {
			names = append(names, m.Name)
		}
	}
	return names
}

var _ = Describe("Sockets that break", func() {
	var ns string
	BeforeEach(func() { ns = namespace() })

	for name, way := range wire.Ways() {
		for _, watched := range []bool{true, false} {
			It(fmt.Sprintf("G13 make no second object of a generated name: %s after the commit, watched %t", name, watched), func() {
				r, options := unwatched(framework.OwnedByPrimary()), pageOptions{Retry: slow}
				if watched {
					r = allocator()
					options = withConfigMaps(r, options)
				}
				var w *wire.Wire
				var once sync.Once
				reconcile := r.reconcile
				r.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
					once.Do(func() {
						w.HoldAnswers()
						go func() {
							defer GinkgoRecover()
							Eventually(func() []string { return configMapsIn(ns) }).Should(HaveLen(1))
							Eventually(w.Held).Should(BeNumerically(">", 0))
							w.Break(way)
						}()
					})
					return reconcile(ctx, page, c)
				}
				var op *framework.Operator
				op, w = wired(ns, r, options)
				By("having discovery asked about the kind, whose answer would be held")
				_, err := framework.Create(ctx, op.Writer("outside"), configMapOf(newPage(ns, "dry"), ""), framework.DryRun())
				Expect(err).NotTo(HaveOccurred())
				page := create(newPage(ns, "p"))
				Eventually(func() string { return read(page).Status.URL }, healing).ShouldNot(BeEmpty())
				Expect(configMapsIn(ns)).To(Equal([]string{read(page).Status.URL}))
				for _, record := range records(op, page) {
					Expect(record.Err).To(BeEmpty(), "nothing failed but a connection")
				}

				if way != wire.HalfClose || watched {
					return // watches that are to begin anew pause before, which takes half a minute
				}
				By("going on with the watches")
				next := create(newPage(ns, "q"))
				Eventually(func() string { return read(next).Status.URL }, healing).ShouldNot(BeEmpty())
				Expect(configMapsIn(ns)).To(HaveLen(2))
			})
		}
	}

	It("G12 G13 come in any order, and each page has one object in the end", func() {
		const n, breaks = 20, 40
		r := unwatched(framework.OwnedByPrimary())
		_, w := wired(ns, r, pageOptions{})
		for i := range n {
			create(newPage(ns, fmt.Sprintf("p%d", i)))
		}
		ways := []wire.Way{wire.Reset, wire.HalfClose, wire.CutRecord, wire.Corrupt, wire.Close}
		urls := func() []string {
			var all []string
			for i := range n {
				if url := read(newPage(ns, fmt.Sprintf("p%d", i))).Status.URL; url != "" {
					all = append(all, url)
				}
			}
			return all
		}
		for i := range breaks {
			if i%2 == 0 {
				w.HoldAnswers()
			} else {
				w.HoldRequests()
			}
			// At rest nothing comes; watches that begin anew make for bytes before that.
			if len(urls()) == n {
				break
			}
			Eventually(w.Held, healing).Should(BeNumerically(">", 0))
			w.Break(ways[i%len(ways)])
		}
		w.Release()
		Eventually(urls, "1m").Should(HaveLen(n))
		made, known := configMapsIn(ns), urls()
		slices.Sort(made)
		slices.Sort(known)
		Expect(made).To(Equal(known))
	})
})
