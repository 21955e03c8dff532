package framework_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8stypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

var _ = Describe("G15 An object that does not fit its Go type", func() {
	var w *workshop
	BeforeEach(func() {
		w = newWorkshop()
		w.install()
	})
	bad := map[string]any{"size": "huge"}
	named := func(name string) types.GomegaMatcher {
		return WithTransform(func(g *Gadget) string { return g.Name }, Equal(name))
	}
	setAside := func(op *framework.Operator) func() int {
		return func() (n int) {
			for _, c := range op.Occupancy().Caches {
				n += c.Undecodable
			}
			return n
		}
	}

	for _, way := range []string{"streamed", "listed"} {
		It("is undecodable when it is "+way+", reported, and does not stop the others", func() {
			var l line
			if way == "listed" {
				refuse := func(request *http.Request) (*http.Response, error) {
					if request.URL.Query().Get("sendInitialEvents") == "true" {
						return answers(http.StatusBadRequest)(request)
					}
					return nil, nil
				}
				l.cut.Store(&refuse)
			}
			w.create("a", sized(1))
			w.create("bad", bad)
			w.create("c", sized(3))
			op, r := w.operator(framework.OperatorOptions{Namespaces: []string{w.ns}}, func(config *rest.Config) { config.Wrap(l.wrap) }), newGadgets()
			Expect(framework.Register(op, r, gadgetOptions{})).To(Succeed())
			run(op)
			Eventually(r.runs).Should(Receive())
			Eventually(r.runs).Should(Receive())
			Consistently(r.runs).ShouldNot(Receive())
			Expect(setAside(op)()).To(Equal(1))
			Expect(op.Ready()).To(Succeed())
			Eventually(func() []string { return w.events("bad") }).Should(ConsistOf(And(ContainSubstring("Undecodable"), ContainSubstring("size"))))

			w.patch("a", `{"spec":{"size":7}}`)
			Eventually(r.runs).Should(Receive(WithTransform(func(g *Gadget) int { return g.Spec.Size }, Equal(7))))
			w.patch("bad", `{"spec":{"size":8}}`)
			Eventually(r.runs).Should(Receive(WithTransform(func(g *Gadget) int { return g.Spec.Size }, Equal(8))))
			Expect(setAside(op)()).To(BeZero())
		})
	}

	It("is undecodable when it is changed so, and its runs end; the watch goes on", func() {
		var l line
		op, r := w.operator(framework.OperatorOptions{Namespaces: []string{w.ns}}, func(config *rest.Config) { config.Wrap(l.wrap) }), newGadgets()
		Expect(framework.Register(op, r, gadgetOptions{})).To(Succeed())
		run(op)
		w.create("a", sized(1))
		w.create("b", sized(1))
		Eventually(r.runs).Should(Receive())
		Eventually(r.runs).Should(Receive())
		for i := range 5 {
			w.patch("a", fmt.Sprintf(`{"spec":{"size":"huge%d"}}`, i))
		}
		w.patch("b", `{"spec":{"size":2}}`)
		Eventually(r.runs).Should(Receive(named("b")))
		Eventually(setAside(op)).Should(Equal(1))
		Consistently(r.runs).ShouldNot(Receive())
		Expect(l.opened()).To(Equal(1), "one watch has brought all")
		w.patch("a", `{"spec":{"size":1}}`)
		Eventually(r.runs).Should(Receive(named("a")), "though its specification is as it was")
		Expect(admin.Delete(ctx, w.gadget("a", nil))).To(Succeed())
		Eventually(func() int { return framework.PendingKeys(op, "gadget") }).Should(Equal(1))
	})

	It("G09 is not taken for deleted: it is cleaned up once it fits again, and keeps its finalizer until then", func() {
		op, r := w.operator(framework.OperatorOptions{Namespaces: []string{w.ns}}), &cleaningGadgets{newGadgets(), make(chan string, 10)}
		Expect(framework.Register(op, r, gadgetOptions{})).To(Succeed())
		run(op)
		w.create("g", sized(1))
		Eventually(r.runs).Should(Receive())
		w.patch("g", `{"spec":{"size":"huge"}}`)
		Eventually(setAside(op)).Should(Equal(1))
		Expect(admin.Delete(ctx, w.gadget("g", nil))).To(Succeed())
		Consistently(r.cleanups).ShouldNot(Receive())
		Expect(w.read("g").GetFinalizers()).To(HaveLen(1))
		w.patch("g", `{"spec":{"size":1}}`)
		Eventually(r.cleanups).Should(Receive(Equal("g")))
		Eventually(func() string { return w.read("g").GetResourceVersion() }).Should(BeEmpty())
		Eventually(setAside(op)).Should(BeZero())
	})

	It("is forgotten when it is deleted", func() {
		op, r := w.operator(framework.OperatorOptions{Namespaces: []string{w.ns}}), newGadgets()
		Expect(framework.Register(op, r, gadgetOptions{})).To(Succeed())
		run(op)
		w.create("g", bad)
		Eventually(setAside(op)).Should(Equal(1))
		Expect(admin.Delete(ctx, w.gadget("g", nil))).To(Succeed())
		Eventually(setAside(op)).Should(BeZero())
		w.create("g", sized(1))
		Eventually(r.runs).Should(Receive(named("g")))
	})

	It("fails the reads of the primary whose secondary it is, and no others", func() {
		op := w.operator(framework.OperatorOptions{Namespaces: []string{w.ns}})
		var owned framework.Secondary[*Gadget]
		referred := framework.Secondary[*Gadget]{Name: "referred"}
		byName := func(page *Page) []k8stypes.NamespacedName { return []k8stypes.NamespacedName{{Name: page.Name}} }
		type outcome struct {
			Page  string
			Found int
			Err   error
		}
		runs := make(chan outcome, 100)
		r := &pages{reconcile: func(_ context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			found, err := owned.List(c)
			_, got := owned.GetNamed(c, w.ns, page.Name)
			_, listed := referred.List(c)
			if (err == nil) != (got == nil) || (err == nil) != (listed == nil) {
				err = errors.New("the ways to read disagree")
			}
			runs <- outcome{page.Name, len(found), err}
			return pageUpdate{}, err
		}}
		Expect(framework.Register(op, r, pageOptions{Secondaries: framework.Secondaries(&owned, framework.Referred(&referred, byName))})).To(Succeed())
		for name, spec := range map[string]any{"good": sized(1), "bad": bad} {
			page := create(newPage(w.ns, name))
			g := w.gadget(name, spec)
			g.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "samples.evenkeel.dev/v1", Kind: "WebPage", Name: page.Name, UID: page.UID}})
			create(g)
		}
		run(op)
		is := func(page string, found int, err any) types.GomegaMatcher {
			return And(HaveField("Page", page), HaveField("Found", found), HaveField("Err", err))
		}
		Eventually(runs).Should(Receive(is("good", 1, BeNil())))
		Eventually(runs).Should(Receive(is("bad", 0, MatchError(ContainSubstring("size")))))
		w.patch("bad", `{"spec":{"size":1}}`)
		Eventually(runs).Should(Receive(is("bad", 1, BeNil())))
	})
})

// events returns reason and note of those about a gadget.
func (w *workshop) events(name string) (all []string) {
	GinkgoHelper()
	list := &eventsv1.EventList{}
	Expect(admin.List(ctx, list, client.InNamespace(w.ns))).To(Succeed())
	for _, e := range list.Items {
		if e.Regarding.Name == name {
			all = append(all, e.Reason+": "+e.Note)
		}
	}
	return all
}
