package framework_test

import (
	"context"
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework"
)

var _ = Describe("An operator heals without a restart", func() {
	var w *workshop
	BeforeEach(func() {
		w = newWorkshop()
		w.install()
	})

	// objects is what the caches of the operator show.
	objects := func(op *framework.Operator) func() int {
		return func() (n int) {
			for _, c := range op.Occupancy().Caches {
				n += c.Objects
			}
			return n
		}
	}
	uid := func(g *Gadget) types.UID { return g.UID }

	It("G12 when its kind is removed and installed again", func() {
		op, r := w.operator(framework.OperatorOptions{Namespaces: []string{w.ns}}), &cleaningGadgets{newGadgets(), make(chan string, 10)}
		Expect(framework.Register(op, r, gadgetOptions{KeepRecords: 100})).To(Succeed())
		run(op)
		before := w.create("g", sized(1))
		Eventually(r.runs).Should(Receive(WithTransform(uid, Equal(before.GetUID()))))
		w.uninstall()
		Eventually(r.cleanups).Should(Receive(Equal("g")))
		Eventually(objects(op)).Should(BeZero())
		Eventually(func() int { return framework.PendingKeys(op, "gadget") }).Should(BeZero())
		Eventually(op.Ready, healing).Should(MatchError(ContainSubstring(w.group)))
		w.install()
		after := w.create("g", sized(1))
		Eventually(r.runs, healing).Should(Receive(WithTransform(uid, Equal(after.GetUID()))))
		Eventually(op.Ready).Should(Succeed())
	})

	It("G03 when that happens unseen: the objects of before are gone", func() {
		var l line
		op, r := w.operator(framework.OperatorOptions{Namespaces: []string{w.ns}}, func(config *rest.Config) { config.Wrap(l.wrap) }), newGadgets()
		Expect(framework.Register(op, r, gadgetOptions{KeepRecords: 100})).To(Succeed())
		run(op)
		w.create("gone", sized(1))
		before := w.create("again", sized(1))
		Eventually(r.runs).Should(Receive())
		Eventually(r.runs).Should(Receive())
		l.sever(func(*http.Request) (*http.Response, error) { return nil, http.ErrServerClosed })
		w.uninstall()
		w.install()
		after := w.create("again", sized(1))
		Expect(after.GetUID()).NotTo(Equal(before.GetUID()))
		Consistently(r.runs).ShouldNot(Receive())
		Expect(op.Ready()).To(MatchError(ContainSubstring(w.group)))
		l.cut.Store(nil)
		Eventually(r.runs, healing).Should(Receive(WithTransform(uid, Equal(after.GetUID()))))
		Expect(objects(op)()).To(Equal(1))
		Eventually(func() int { return framework.PendingKeys(op, "gadget") }).Should(Equal(1))
		Eventually(op.Ready).Should(Succeed())
	})

	It("G18 when its rights are taken away and given back", func() {
		user := "healing-" + w.ns
		revoke := w.allow(user)
		var l line
		op, r := w.operator(framework.OperatorOptions{Namespaces: []string{w.ns}}, as(user), func(config *rest.Config) { config.Wrap(l.wrap) }), newGadgets()
		r.reconcile = func(_ context.Context, g *Gadget, _ *gadgetContext) (gadgetUpdate, error) {
			g.Status.Seen = g.Spec.Size
			return framework.PatchStatus(g), nil
		}
		seen := func(name string) func() any {
			return func() any { status, _ := w.read(name).Object["status"].(map[string]any); return status["seen"] }
		}
		Expect(framework.Register(op, r, gadgetOptions{KeepRecords: 100})).To(Succeed())
		run(op)
		w.create("g", sized(1))
		Eventually(seen("g")).Should(BeEquivalentTo(1))
		revoke()
		// A watch lives on; what is asked for anew is refused.
		w.patch("g", `{"spec":{"size":2}}`)
		Eventually(func() bool {
			for _, record := range op.Records("gadget") {
				if strings.Contains(record.Err, "forbidden") {
					return true
				}
			}
			return false
		}).Should(BeTrue())
		l.sever(nil)
		Eventually(op.Ready).Should(MatchError(ContainSubstring("forbidden")))
		w.create("h", sized(3))
		w.allow(user)
		Eventually(seen("g"), healing).Should(BeEquivalentTo(2))
		Eventually(seen("h"), healing).Should(BeEquivalentTo(3))
		Eventually(op.Ready, healing).Should(Succeed())
	})

	It("G04 when the API server is restarted", func() {
		second, err := env.StartStaleServer()
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(second.Stop)
		op, r := w.operator(framework.OperatorOptions{Namespaces: []string{w.ns}}, func(config *rest.Config) { *config = *rest.CopyConfig(second.Config) }), newGadgets()
		Expect(framework.Register(op, r, gadgetOptions{KeepRecords: 100})).To(Succeed())
		run(op)
		w.create("g", sized(1))
		w.create("gone", sized(1))
		Eventually(r.runs).Should(Receive())
		Eventually(r.runs).Should(Receive())
		Expect(second.Restart(func() {
			Eventually(op.Ready).ShouldNot(Succeed())
			w.patch("g", `{"spec":{"size":2}}`)
			Expect(admin.Delete(ctx, w.gadget("gone", nil))).To(Succeed())
		})).To(Succeed())
		Eventually(r.runs, healing).Should(Receive(WithTransform(func(g *Gadget) int { return g.Spec.Size }, Equal(2))))
		Eventually(objects(op)).Should(Equal(1))
		Eventually(op.Ready, healing).Should(Succeed())
	})
})
