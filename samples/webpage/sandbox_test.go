package webpage_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/framework/conditions"
	"github.com/evenkeel/evenkeel/internal/testenv"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
	v1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

// The garbage collector learns of a new kind within 30 s, so it may take that long to follow the
// first owner references to it.
const garbageCollection = 60 * time.Second

var _ = Describe("The WebPage operator on a whole control plane", Ordered, ContinueOnFailure, func() {
	var (
		c   *cluster
		ctx = context.Background()
		ns  string
	)
	BeforeAll(func(setup SpecContext) {
		plane, err := testenv.StartSandbox(context.Background(), "--nodes", "2")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(plane.Stop)
		c = newCluster(plane.Config)
		c.install(setup, "crd/bases")
		c.install(setup, "rbac")
		// A fresh CustomResourceDefinition is served a moment after it was created.
		Eventually(func() error { return c.List(ctx, &v1.WebPageList{}) }).Should(Succeed())
	})
	BeforeEach(func() { ns = c.namespace(ctx) })

	pods := func(p *v1.WebPage) []corev1.Pod {
		var list corev1.PodList
		Expect(c.List(ctx, &list, client.InNamespace(p.Namespace), client.MatchingLabels{"app.kubernetes.io/instance": p.Name})).To(Succeed())
		return list.Items
	}
	nothingLeft := func(p *v1.WebPage) {
		GinkgoHelper()
		Eventually(func(g Gomega) {
			g.Expect(c.page(p)).To(BeNil())
			g.Expect(c.configMap(p)).To(BeNil())
			g.Expect(c.deployment(p)).To(BeNil())
			g.Expect(c.service(p)).To(BeNil())
			g.Expect(c.ingress(p)).To(BeNil())
			g.Expect(pods(p)).To(BeEmpty())
		}).WithTimeout(garbageCollection).Should(Succeed())
	}

	It("becomes ready with a Deployment that really is available, rolls, and leaves nothing", func() {
		c.operator(ns)
		p := page(ns, "real", func(p *v1.WebPage) { p.Spec.Exposed = true })
		Expect(c.Create(ctx, p)).To(Succeed())
		Eventually(c.condition(p, conditions.Ready)).Should(Equal("True Ready"))
		Expect(pods(p)).To(HaveLen(1))
		first := pods(p)[0].UID

		update(c, c.page, p, func(p *v1.WebPage) { p.Spec.HTML += "<!-- changed -->" })
		Eventually(func(g Gomega) {
			g.Expect(c.condition(p, conditions.Ready)()).To(Equal("True Ready"))
			g.Expect(pods(p)).To(HaveLen(1))
			g.Expect(pods(p)[0].UID).NotTo(Equal(first))
		}).Should(Succeed())

		Expect(c.Delete(ctx, p)).To(Succeed())
		nothingLeft(p)
	})

	It("leaves nothing of a page deleted while the operator is down", func() {
		_, stop := c.operator(ns)
		p := page(ns, "while-down")
		Expect(c.Create(ctx, p)).To(Succeed())
		Eventually(c.condition(p, conditions.Ready)).Should(Equal("True Ready"))
		stop()
		Expect(c.Delete(ctx, p)).To(Succeed())
		c.operator(ns)
		nothingLeft(p)
	})
})
