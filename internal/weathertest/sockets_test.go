package weathertest

import (
	"fmt"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/wire"
)

// childrenOf are the ConfigMaps with generated names.
func childrenOf(ns string) (names []string) {
	GinkgoHelper()
	for _, name := range namesOf(ns, &corev1.ConfigMapList{}) {
		if strings.HasPrefix(name, "child-of-") {
			names = append(names, name)
		}
	}
	return names
}

var _ = Describe("Sockets that break", func() {
	const objects = 24
	for name, way := range map[string]wire.Way{ // internal/freshnesstest has all of them
		"a reset": wire.Reset, "a half-closed connection": wire.HalfClose, "a TLS record that is cut": wire.CutRecord,
	} {
		It(fmt.Sprintf("G07 G12 G13 lose nothing, and nothing is made twice: %s", name), func() {
			ns := namespace()
			w, err := wire.Start(env.Config)
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(w.Stop)
			broken := make(chan struct{})
			var once sync.Once
			b := &breeder{births: func() {
				once.Do(func() {
					before := len(childrenOf(ns))
					w.HoldAnswers()
					go func() {
						defer GinkgoRecover()
						defer close(broken)
						Eventually(func() int { return len(childrenOf(ns)) }).Should(BeNumerically(">", before))
						Eventually(w.Held).Should(BeNumerically(">", 0))
						w.Break(way)
					}()
				})
			}}
			op, _ := operate(w.Config(), ns, b, pageOptions{
				Name: "breeder", Secondaries: framework.Secondaries(&b.maps), Concurrency: 16, Retry: hurried, KeepRecords: 10_000,
			})
			book := begin(ns)
			By("creating, while connections break before the answer to a creation has come")
			eachOf(ns, objects, func(p *page) error { return admin.Create(ctx, p) })
			Eventually(broken).Should(BeClosed())
			Eventually(settled(ns, "first")).Should(Equal(objects))
			for _, r := range op.Records("breeder") {
				Expect(r.Err).To(BeEmpty(), "nothing failed but connections: %s", r)
			}
			By("changing, while connections break before requests have arrived")
			w.HoldRequests()
			eachOf(ns, objects, func(p *page) error { _, err := change(p, "second"); return err })
			Eventually(w.Held).Should(BeNumerically(">", 0))
			w.Break(way)
			Eventually(settled(ns, "second")).Should(Equal(objects))
			By("coming to rest")
			Eventually(func() []string { return leftOf(op, false) }).Should(BeEmpty())
			last := book.last()
			Consistently(book.last).Should(Equal(last), "something is written at rest")
			Expect(namesOf(ns, &corev1.ConfigMapList{})).To(HaveLen(2*objects), "each page has its ConfigMap and one child")
			judgeCreations(book.commits())
		})
	}
})
