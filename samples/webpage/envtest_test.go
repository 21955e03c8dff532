package webpage_test

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/conditions"
	"github.com/evenkeel/evenkeel/internal/testenv"
	"github.com/evenkeel/evenkeel/samples/webpage"
	v1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

var _ = Describe("The WebPage operator on an API server", Ordered, ContinueOnFailure, func() { onAnAPIServer(webpage.Register) })

var _ = Describe("The WebPage operator without a workflow, on an API server", Ordered, ContinueOnFailure, func() { onAnAPIServer(webpage.RegisterLowLevel) })

func onAnAPIServer(register func(*framework.Operator) error) {
	var (
		c   *cluster
		ctx context.Context
		ns  string
	)
	BeforeAll(func(setup SpecContext) {
		env, err := testenv.Start(testenv.WebPageCRDs())
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(env.Stop)
		c = newCluster(env.Config)
		c.register = register
		c.install(setup, "rbac")
	})
	BeforeEach(func(spec SpecContext) {
		ctx = context.Background()
		ns = c.namespace(ctx)
	})

	create := func(p *v1.WebPage) *v1.WebPage {
		GinkgoHelper()
		Expect(c.Create(ctx, p)).To(Succeed())
		return p
	}
	ready := func(p *v1.WebPage) {
		GinkgoHelper()
		c.rollOut(p)
		Eventually(c.condition(p, conditions.Ready)).Should(Equal("True Ready"))
	}

	It("creates what a page needs, owned by it, and says when it is ready", func() {
		c.operator(ns)
		p := create(page(ns, "hello"))
		Eventually(c.condition(p, conditions.Ready)).Should(Equal("False NotReady"))
		Expect(c.condition(p, conditions.Reconciling)()).To(Equal("True NotReady"))
		Expect(c.configMap(p).Data).To(Equal(map[string]string{"index.html": fullHTML}))
		Expect(c.deployment(p).Spec.Template.Spec.Volumes[0].ConfigMap.Name).To(Equal("hello"))
		Expect(c.service(p).Spec.Selector).To(Equal(c.deployment(p).Spec.Template.Labels))
		Expect(c.ingress(p)).To(BeNil())
		for _, o := range []metav1.Object{c.configMap(p), c.deployment(p), c.service(p)} {
			Expect(metav1.GetControllerOf(o).UID).To(Equal(p.UID))
		}

		ready(p)
		now := c.page(p)
		Expect(now.Status.URL).To(Equal("http://hello." + ns + ".svc/"))
		Expect(now.Status.ObservedGeneration).To(Equal(now.Generation))
		Expect(c.condition(p, conditions.Reconciling)()).To(Equal("none"))
		Expect(c.condition(p, conditions.Stalled)()).To(Equal("none"))
		Expect(c.condition(p, v1.ConditionDocument)()).To(Equal("True FullDocument"))
		Expect(now.Finalizers).To(BeEmpty())
		Eventually(c.events(p)).Should(ConsistOf("Normal Created"))
	})

	It("rolls the Deployment when the html changes", func() {
		c.operator(ns)
		p := create(page(ns, "changing"))
		ready(p)
		before := c.deployment(p)
		update(c, c.page, p, func(p *v1.WebPage) { p.Spec.HTML = strings.Replace(fullHTML, "hello", "bye", 1) })
		Eventually(func() string { return c.configMap(p).Data["index.html"] }).Should(ContainSubstring("bye"))
		Eventually(func() map[string]string { return c.deployment(p).Spec.Template.Annotations }).
			ShouldNot(Equal(before.Spec.Template.Annotations))
		Eventually(c.condition(p, conditions.Ready)).Should(Equal("False NotReady"))
		ready(p)
		Expect(c.deployment(p).UID).To(Equal(before.UID))
	})

	It("has an Ingress only while the page is exposed", func() {
		c.operator(ns)
		p := create(page(ns, "exposed", func(p *v1.WebPage) { p.Spec.Exposed = true }))
		Eventually(func() any { return c.ingress(p) }).ShouldNot(BeNil())
		Expect(ownerUIDs(c.ingress(p))).To(ContainElement(p.UID))
		Eventually(func() string { return c.page(p).Status.URL }).Should(Equal("http://exposed." + ns + ".webpages.example/"))
		update(c, c.page, p, func(p *v1.WebPage) { p.Spec.Exposed = false })
		Eventually(func() any { return c.ingress(p) }).Should(BeNil())
		Eventually(func() string { return c.page(p).Status.URL }).Should(Equal("http://exposed." + ns + ".svc/"))
		update(c, c.page, p, func(p *v1.WebPage) { p.Spec.Exposed = true })
		Eventually(func() any { return c.ingress(p) }).ShouldNot(BeNil())
	})

	It("scales, also to zero", func() {
		c.operator(ns)
		p := create(page(ns, "scaled", func(p *v1.WebPage) { p.Spec.Replicas = ptr.To[int32](3) }))
		ready(p)
		Expect(*c.deployment(p).Spec.Replicas).To(BeEquivalentTo(3))
		update(c, c.page, p, func(p *v1.WebPage) { p.Spec.Replicas = ptr.To[int32](0) })
		Eventually(func() int32 { return *c.deployment(p).Spec.Replicas }).Should(BeZero())
		ready(p)
	})

	It("puts back what somebody deletes", func() {
		c.operator(ns)
		p := create(page(ns, "deleted"))
		ready(p)
		before := c.uids(p)
		Expect(c.Delete(ctx, c.configMap(p))).To(Succeed())
		Expect(c.Delete(ctx, c.deployment(p))).To(Succeed())
		Expect(c.Delete(ctx, c.service(p))).To(Succeed())
		Eventually(func(g Gomega) {
			now := c.uids(p)
			g.Expect(now).To(HaveLen(3))
			for kind, uid := range before {
				g.Expect(now[kind]).NotTo(Equal(uid))
			}
		}).Should(Succeed())
		ready(p)
	})

	It("puts back what somebody edits, and leaves alone what is not its own", func() {
		c.operator(ns)
		p := create(page(ns, "edited"))
		ready(p)
		update(c, c.configMap, p, func(m *corev1.ConfigMap) {
			m.Data["index.html"] = "defaced"
			m.Data["other"] = "somebody's"
			m.Annotations = map[string]string{"somebody": "else"}
		})
		update(c, c.deployment, p, func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.Containers[0].Image = "defaced"
			d.Spec.Template.Spec.TerminationGracePeriodSeconds = ptr.To[int64](7)
		})
		Eventually(func() string { return c.configMap(p).Data["index.html"] }).Should(Equal(fullHTML))
		Eventually(func() string { return c.deployment(p).Spec.Template.Spec.Containers[0].Image }).Should(HavePrefix("nginx"))
		Expect(c.configMap(p).Data["other"]).To(Equal("somebody's"))
		Expect(c.configMap(p).Annotations["somebody"]).To(Equal("else"))
		Expect(*c.deployment(p).Spec.Template.Spec.TerminationGracePeriodSeconds).To(BeEquivalentTo(7))
	})

	It("keeps two pages apart", func() {
		c.operator(ns)
		one := create(page(ns, "one"))
		two := create(page(ns, "two", func(p *v1.WebPage) { p.Spec.HTML = strings.Replace(fullHTML, "hello", "two", 1) }))
		ready(one)
		Eventually(c.condition(two, conditions.Ready)).Should(Equal("False NotReady")) // its first run may come later
		ready(two)
		Expect(c.configMap(one).Data["index.html"]).To(ContainSubstring("hello"))
		Expect(c.configMap(two).Data["index.html"]).To(ContainSubstring("two"))
		before := c.versions(two)
		Expect(c.Delete(ctx, one)).To(Succeed())
		Eventually(func() any { return c.page(one) }).Should(BeNil())
		Consistently(func() map[string]string { return c.versions(two) }).Should(Equal(before))
	})

	DescribeTable("refuses pages that cannot be served, with a message that says why",
		func(p func() *v1.WebPage, message string) {
			Expect(c.Create(ctx, p())).To(MatchError(ContainSubstring(message)))
		},
		Entry("empty html", func() *v1.WebPage { return page(ns, "empty", html("")) },
			"spec.html: Invalid value: \"\": spec.html in body should be at least 1 chars long"),
		Entry("too long html", func() *v1.WebPage { return page(ns, "long", html(strings.Repeat("x", 262145))) },
			"spec.html: Too long: may not be more than 262144 bytes"),
		Entry("negative replicas", func() *v1.WebPage {
			return page(ns, "negative", func(p *v1.WebPage) { p.Spec.Replicas = ptr.To[int32](-1) })
		}, "spec.replicas: Invalid value: -1: spec.replicas in body should be greater than or equal to 0"),
		Entry("a name that no Service can have", func() *v1.WebPage { return page(ns, "dotted.name") },
			"metadata.name: must be a DNS label of at most 63 characters that starts with a letter"),
		Entry("a name that is too long for a Service", func() *v1.WebPage { return page(ns, strings.Repeat("n", 64)) },
			"metadata.name: must be a DNS label of at most 63 characters that starts with a letter"),
	)

	It("accepts html of 262,144 characters and a name of 63", func() {
		c.operator(ns)
		p := create(page(ns, strings.Repeat("n", 63), html(strings.Repeat("x", 262144))))
		ready(p)
	})

	It("serves html that is no document as it is, and says so", func() {
		c.operator(ns)
		for i, fragment := range []string{"<p>just a paragraph", "<html><body>", "no tags", "<<<>&\x00</html", "<html></html><body>"} {
			p := create(page(ns, fmt.Sprintf("fragment-%d", i), html(fragment)))
			Eventually(c.condition(p, v1.ConditionDocument)).Should(Equal("False Fragment"))
			ready(p)
			Expect(c.configMap(p).Data["index.html"]).To(Equal(fragment))
		}
	})

	It("serves the largest page there can be", func() {
		c.operator(ns)
		// 1 MiB: all that a ConfigMap holds.
		p := create(page(ns, "huge", html(strings.Repeat("𝄞", 262144))))
		ready(p)
		Expect(c.configMap(p).Data["index.html"]).To(HaveLen(1 << 20))
	})

	It("does not take over what another controller owns: it reports, works on for others, and recovers", func() {
		owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "owner"}}
		Expect(c.Create(ctx, owner)).To(Succeed())
		foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: ns, Name: "taken",
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, corev1.SchemeGroupVersion.WithKind("ConfigMap"))},
		}, Data: map[string]string{"index.html": "foreign"}}
		Expect(c.Create(ctx, foreign)).To(Succeed())
		c.operator(ns)
		p := create(page(ns, "taken"))
		fine := create(page(ns, "fine"))
		Eventually(c.condition(p, conditions.Stalled)).Should(Equal("True Refused"))
		Expect(c.condition(p, conditions.Ready)()).To(Equal("False Refused"))
		Eventually(c.events(p)).Should(ContainElement("Warning Failed"))
		ready(fine)
		Expect(c.configMap(p).Data["index.html"]).To(Equal("foreign"))
		Expect(c.deployment(p)).To(BeNil())
		Expect(c.Delete(ctx, foreign)).To(Succeed())
		ready(p)
		Expect(c.condition(p, conditions.Stalled)()).To(Equal("none"))
	})

	It("does nothing for a page deleted while it was down", func() {
		_, stop := c.operator(ns)
		p := create(page(ns, "while-down"))
		ready(p)
		stop()
		Expect(c.Delete(ctx, p)).To(Succeed())
		Eventually(func() any { return c.page(p) }).Should(BeNil())
		before := c.configMap(p).ResourceVersion
		op, _ := c.operator(ns)
		other := create(page(ns, "other"))
		ready(other)
		Expect(c.configMap(p).ResourceVersion).To(Equal(before))
		for _, record := range op.Records("webpage") {
			Expect(record.Err).To(BeEmpty())
			if record.Key == ns+"/while-down" {
				Expect(record.Requests).To(BeEmpty())
			}
		}
	})

	It("writes nothing more once everything is as it should be", func() {
		_, stop := c.operator(ns)
		p := create(page(ns, "calm"))
		ready(p)
		stop()
		before := c.versions(p)
		c.operator(ns) // a restart looks at everything again
		Consistently(func() map[string]string { return c.versions(p) }).Should(Equal(before))
	})
}

func html(html string) func(*v1.WebPage) { return func(p *v1.WebPage) { p.Spec.HTML = html } }
