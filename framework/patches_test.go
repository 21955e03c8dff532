package framework_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/retry"
	webpagev1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

var _ = Describe("A patch at its limits", func() {
	var ns string
	BeforeEach(func() { ns = namespace() })

	It("keeps whole numbers that no float64 holds", func() {
		r := &pages{reconcile: func(_ context.Context, page *Page, _ *pageContext) (pageUpdate, error) {
			page.Status.ObservedGeneration = 1<<53 + 1
			return framework.PatchStatus(page), nil
		}}
		op, _ := operate(ns, r, pageOptions{})
		page := create(newPage(ns, "p"))
		Eventually(func() int { return len(records(op, page)) }).Should(Equal(1))
		Expect(read(page).Status.ObservedGeneration).To(BeEquivalentTo(1<<53 + 1))
	})

	It("refuses to create nil with an error", func() {
		r := &pages{reconcile: func(ctx context.Context, _ *Page, c *pageContext) (pageUpdate, error) {
			var m *corev1.ConfigMap
			_, err := framework.Create(ctx, c, m)
			return pageUpdate{}, err
		}}
		op, _ := operate(ns, r, pageOptions{Retry: slow})
		page := create(newPage(ns, "p"))
		Eventually(func() int { return len(records(op, page)) }).ShouldNot(BeZero())
		Expect(records(op, page)[0].Err).To(ContainSubstring("the object is nil"))
	})

	It("writes unstructured primaries", func() {
		r := unstructuredPages(func(u *unstructuredObject) framework.UpdateControl[*unstructuredObject] {
			u.Object["status"] = map[string]any{"url": "http://x", "observedGeneration": int64(1<<53 + 1)}
			u.SetLabels(map[string]string{"a": "b"})
			return framework.PatchResourceAndStatus(u)
		})
		op := newOperator(framework.OperatorOptions{Namespaces: []string{ns}})
		Expect(framework.Register(op, r, framework.ControllerOptions[*unstructuredObject]{GroupVersionKind: webpagev1.GroupVersion.WithKind("WebPage"), KeepRecords: 100})).To(Succeed())
		run(op)
		page := create(newPage(ns, "p"))
		Eventually(func() string { return read(page).Status.URL }).Should(Equal("http://x"))
		Expect(read(page).Labels).To(HaveKey("a"))
		Expect(read(page).Status.ObservedGeneration).To(BeEquivalentTo(1<<53 + 1))
	})

	It("takes the ints of Go in unstructured objects", func() {
		r := unstructuredPages(func(u *unstructuredObject) framework.UpdateControl[*unstructuredObject] {
			u.Object["status"] = map[string]any{"observedGeneration": 7}
			return framework.PatchStatus(u)
		})
		op := newOperator(framework.OperatorOptions{Namespaces: []string{ns}})
		Expect(framework.Register(op, r, framework.ControllerOptions[*unstructuredObject]{GroupVersionKind: webpagev1.GroupVersion.WithKind("WebPage"), KeepRecords: 100})).To(Succeed())
		run(op)
		page := create(newPage(ns, "p"))
		Eventually(func() int { return len(records(op, page)) }).ShouldNot(BeZero())
		Expect(records(op, page)[0].Err).NotTo(ContainSubstring("panic"))
	})

	It("refuses an object that is neither a copy nor fresh, as it would remove what others have set", func() {
		r := &pages{reconcile: func(_ context.Context, p *Page, _ *pageContext) (pageUpdate, error) {
			half := &Page{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: p.Name, UID: p.UID}, Spec: p.Spec}
			return framework.PatchResource(half), nil
		}}
		op, _ := operate(ns, r, pageOptions{Retry: slow})
		page := newPage(ns, "p")
		page.Finalizers = []string{"somebody.else/holds"}
		create(page)
		Eventually(func() int { return len(records(op, page)) }).Should(Equal(1))
		Expect(records(op, page)[0].Err).To(ContainSubstring("no resourceVersion"))
		Expect(read(page).Finalizers).To(Equal([]string{"somebody.else/holds"}))
		change(page, func(p *Page) { p.Finalizers = nil })
	})
})

type unstructuredPages func(*unstructuredObject) framework.UpdateControl[*unstructuredObject]

func (f unstructuredPages) Reconcile(_ context.Context, u *unstructuredObject, _ *framework.Context[*unstructuredObject]) (framework.UpdateControl[*unstructuredObject], error) {
	return f(u), nil
}

// slow keeps retries out of a spec.
var slow = retry.Policy{Initial: time.Minute, Max: time.Minute}

func nothing(context.Context, *Page, *pageContext) (pageUpdate, error) { return pageUpdate{}, nil }
