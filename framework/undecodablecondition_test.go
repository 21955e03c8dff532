package framework_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/conditions"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

var _ = Describe("G15 A primary that is undecodable", func() {
	bad := map[string]any{"size": "huge"}
	for _, sharing := range []bool{true, false} {
		lists := map[bool]string{true: "can be shared", false: "belongs to one manager"}[sharing]
		var w *workshop
		start := func() (*framework.Operator, *gadgets, func() error) {
			GinkgoHelper()
			op, r := w.operator(framework.OperatorOptions{Namespaces: []string{w.ns}}), newGadgets()
			Expect(framework.Register(op, r, gadgetOptions{})).To(Succeed())
			return op, r, run(op)
		}
		Context("with a list of conditions that "+lists, func() {
			BeforeEach(func() {
				w = newWorkshop()
				w.sharing = sharing
				w.install()
			})

			It("says so in its status until it fits, which its run does not see any more", func() {
				_, r, _ := start()
				w.create("g", bad)
				Eventually(func() []metav1.Condition { return w.conditions("g") }).Should(ConsistOf(And(
					HaveField("Type", conditions.Stalled), HaveField("Status", metav1.ConditionTrue),
					HaveField("Reason", framework.ReasonUndecodable), HaveField("Message", ContainSubstring("size")),
					HaveField("ObservedGeneration", BeEquivalentTo(1)),
				)))
				said := w.read("g").GetResourceVersion()
				Consistently(func() string { return w.read("g").GetResourceVersion() }).Should(Equal(said), "it is written once")
				w.patch("g", `{"metadata":{"labels":{"a":"b"}}}`)
				Consistently(func() []metav1.Condition { return w.conditions("g") }).Should(HaveLen(1))
				w.patch("g", `{"spec":{"size":1}}`)
				var seen *Gadget
				Eventually(r.runs).Should(Receive(&seen))
				Expect(seen.Status.Conditions).To(BeEmpty())
				Expect(w.conditions("g")).To(BeEmpty())
				Consistently(r.runs).ShouldNot(Receive(), "its own write makes no run due")
			})

			It("is told of once more after a restart only if that is not there, and is believed once it fits", func() {
				_, _, stop := start()
				w.create("g", bad)
				Eventually(func() []metav1.Condition { return w.conditions("g") }).Should(HaveLen(1))
				said := w.read("g").GetResourceVersion()
				Expect(stop()).To(Succeed())
				op, _, stop := start()
				Eventually(op.Ready).Should(Succeed())
				Consistently(func() string { return w.read("g").GetResourceVersion() }).Should(Equal(said))
				Expect(stop()).To(Succeed())
				w.patch("g", `{"spec":{"size":1}}`)
				_, r, _ := start()
				Eventually(r.runs).Should(Receive())
				Expect(w.conditions("g")).To(BeEmpty())
			})

			It("keeps what others say in its status", func() {
				g := w.create("g", bad)
				Expect(unstructured.SetNestedSlice(g.Object, []any{map[string]any{
					"type": conditions.Stalled, "status": "True", "reason": "Mine", "message": "by another", "lastTransitionTime": "2026-01-01T00:00:00Z",
				}, map[string]any{
					"type": conditions.Ready, "status": "True", "reason": "Mine", "message": "by another", "lastTransitionTime": "2026-01-01T00:00:00Z",
				}}, "status", "conditions")).To(Succeed())
				Expect(admin.Status().Update(ctx, g, client.FieldOwner("other"))).To(Succeed())
				op, r, _ := start()
				Eventually(func() []string { return w.events("g") }).Should(ConsistOf(ContainSubstring(framework.ReasonUndecodable)))
				Eventually(func() int { return framework.PendingKeys(op, "gadget") }).Should(BeZero())
				Expect(w.conditions("g")).To(HaveEach(HaveField("Reason", "Mine")))
				w.patch("g", `{"spec":{"size":1}}`)
				Eventually(r.runs).Should(Receive(WithTransform(func(g *Gadget) int { return len(g.Status.Conditions) }, Equal(2))))
			})
		})
	}

	It("is told of once, too, if decoding ends before it comes to the status", func() {
		w := newWorkshop()
		w.sharing = true
		w.install()
		start := func() (*framework.Operator, func() error) {
			op := w.operator(framework.OperatorOptions{Namespaces: []string{w.ns}})
			Expect(framework.Register(op, newGadgets(), gadgetOptions{})).To(Succeed())
			return op, run(op)
		}
		_, stop := start()
		w.create("g", map[string]any{"every": "often"})
		Eventually(func() []metav1.Condition { return w.conditions("g") }).Should(HaveLen(1))
		said := w.read("g").GetResourceVersion()
		Expect(stop()).To(Succeed())
		since := w.conditions("g")[0].LastTransitionTime
		Eventually(func() bool { return time.Since(since.Time) > time.Second }).Should(BeTrue(), "times are written in whole seconds")
		op, _ := start()
		Eventually(op.Ready).Should(Succeed())
		Consistently(func() string { return w.read("g").GetResourceVersion() }).Should(Equal(said))
	})

	It("says so no more once it fits, if a filter lets no run follow, and if the status cannot be written", func() {
		w := newWorkshop()
		w.sharing = true
		w.install()
		filtered := gadgetOptions{Filter: func(_, now *Gadget) bool { return now != nil && now.Spec.Size > 1 }}
		op, r := w.operator(framework.OperatorOptions{Namespaces: []string{w.ns}}), newGadgets()
		Expect(framework.Register(op, &cleaningGadgets{gadgets: r}, filtered)).To(Succeed())
		stop := run(op)
		w.create("g", bad)
		w.create("h", bad)
		for _, name := range []string{"g", "h"} {
			Eventually(func() []metav1.Condition { return w.conditions(name) }).Should(HaveLen(1))
		}
		w.patch("g", `{"spec":{"size":1}}`)
		Eventually(func() []metav1.Condition { return w.conditions("g") }).Should(BeEmpty())
		Eventually(func() int { return framework.PendingKeys(op, "gadget") }).Should(BeZero())
		Expect(r.runs).NotTo(Receive())
		Expect(w.read("g").GetFinalizers()).To(BeEmpty())
		Expect(stop()).To(Succeed())

		var l line
		forbidden := answers(http.StatusForbidden)
		l.cut.Store(new(func(request *http.Request) (*http.Response, error) {
			if strings.HasSuffix(request.URL.Path, "/status") {
				return forbidden(request)
			}
			return nil, nil
		}))
		w.patch("h", `{"spec":{"size":2}}`)
		op = w.operator(framework.OperatorOptions{Namespaces: []string{w.ns}}, func(c *rest.Config) { c.Wrap(l.wrap) })
		Expect(framework.Register(op, r, gadgetOptions{})).To(Succeed())
		run(op)
		var ran []string
		for range 2 { // in any order
			var g *Gadget
			Eventually(r.runs).Should(Receive(&g), "what it says is not worth holding it up")
			ran = append(ran, g.Name)
		}
		Expect(ran).To(ConsistOf("g", "h"))
	})

	It("does not hold up its deletion, and leaves nothing", func() {
		w := newWorkshop()
		w.install()
		op, r := w.operator(framework.OperatorOptions{Namespaces: []string{w.ns}}), newGadgets()
		Expect(framework.Register(op, r, gadgetOptions{})).To(Succeed())
		run(op)
		w.create("g", bad)
		Eventually(func() []metav1.Condition { return w.conditions("g") }).Should(HaveLen(1))
		Expect(admin.Delete(ctx, w.gadget("g", nil))).To(Succeed())
		w.create("h", bad)
		Eventually(func() []metav1.Condition { return w.conditions("h") }).Should(HaveLen(1))
		Eventually(func() int { return framework.PendingKeys(op, "gadget") }).Should(BeZero())
		Expect(w.read("g").GetResourceVersion()).To(BeEmpty())
	})

	It("without a status sub-resource is told of by an event alone", func() {
		w := newWorkshop()
		w.noStatus = true
		w.install()
		op, r := w.operator(framework.OperatorOptions{Namespaces: []string{w.ns}}), newGadgets()
		Expect(framework.Register(op, r, gadgetOptions{})).To(Succeed())
		run(op)
		w.create("g", bad)
		Eventually(func() []string { return w.events("g") }).Should(ConsistOf(ContainSubstring(framework.ReasonUndecodable)))
		Expect(w.conditions("g")).To(BeEmpty())
	})

	It("without a status sub-resource is left alone, too, when a run of it was due already", func() {
		w := newWorkshop()
		w.noStatus = true
		w.install()
		var l line
		var written atomic.Int32
		l.cut.Store(new(func(request *http.Request) (*http.Response, error) {
			if request.Method == http.MethodPatch && strings.Contains(request.URL.Path, "/gadgets/") {
				written.Add(1)
			}
			return nil, nil
		}))
		op, r := w.operator(framework.OperatorOptions{Namespaces: []string{w.ns}}, func(c *rest.Config) { c.Wrap(l.wrap) }), newGadgets()
		r.reconcile = func(context.Context, *Gadget, *gadgetContext) (gadgetUpdate, error) {
			return gadgetUpdate{}.RescheduleAfter(100 * time.Millisecond), nil
		}
		Expect(framework.Register(op, r, gadgetOptions{})).To(Succeed())
		run(op)
		w.create("g", sized(1))
		Eventually(r.runs).Should(Receive())
		w.patch("g", `{"spec":{"size":"huge"}}`)
		Eventually(func() []string { return w.events("g") }).Should(ConsistOf(ContainSubstring(framework.ReasonUndecodable)))
		Eventually(func() int { return framework.PendingKeys(op, "gadget") }).Should(BeZero())
		Consistently(written.Load).Should(BeZero())
	})
})

// conditions are those in a gadget's status.
func (w *workshop) conditions(name string) []metav1.Condition {
	GinkgoHelper()
	var status GadgetStatus
	content, _, err := unstructured.NestedMap(w.read(name).Object, "status")
	Expect(err).NotTo(HaveOccurred())
	Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(content, &status)).To(Succeed())
	return status.Conditions
}

// writers are the field managers of a sub-resource of a gadget.
func (w *workshop) writers(name, subresource string) (all []string) {
	GinkgoHelper()
	for _, entry := range w.read(name).GetManagedFields() {
		if entry.Subresource == subresource {
			all = append(all, entry.Manager)
		}
	}
	return all
}
