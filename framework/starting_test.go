package framework_test

import (
	"context"
	"net/http"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/framework"
)

var _ = Describe("A start that is not complete", func() {
	var w *workshop
	BeforeEach(func() { w = newWorkshop() })

	It("G15 waits for a kind that is not served, says so, and lets the others run", func() {
		op := w.operator(framework.OperatorOptions{Namespaces: []string{w.ns}})
		missing, served := newGadgets(), make(chan string, 10)
		Expect(framework.Register(op, missing, gadgetOptions{})).To(Succeed())
		Expect(framework.Register(op, &pages{reconcile: func(_ context.Context, page *Page, _ *pageContext) (pageUpdate, error) {
			served <- page.Name
			return pageUpdate{}, nil
		}}, pageOptions{})).To(Succeed())
		stop := run(op)
		create(newPage(w.ns, "p"))
		Eventually(served).Should(Receive(Equal("p")))
		Eventually(op.Ready).Should(MatchError(And(ContainSubstring(`"gadget"`), ContainSubstring(w.group), ContainSubstring("CustomResourceDefinition"))))
		w.install()
		w.create("g", sized(1))
		Eventually(missing.runs).Should(Receive())
		Eventually(op.Ready).Should(Succeed())
		Expect(stop()).To(Succeed())
	})

	It("waits for the kind of a secondary alike", func() {
		op := w.operator(framework.OperatorOptions{Namespaces: []string{w.ns}})
		var owned framework.Secondary[*Gadget]
		runs := make(chan int, 10)
		r := &pages{reconcile: func(_ context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			found, err := owned.List(c)
			runs <- len(found)
			return pageUpdate{}, err
		}}
		Expect(framework.Register(op, r, pageOptions{Secondaries: framework.Secondaries(&owned)})).To(Succeed())
		run(op)
		page := create(newPage(w.ns, "p"))
		Eventually(op.Ready).Should(MatchError(And(ContainSubstring(`secondary "gadget"`), ContainSubstring(w.group))))
		Expect(runs).NotTo(Receive())
		w.install()
		g := w.gadget("g", sized(1))
		g.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "samples.evenkeel.dev/v1", Kind: "WebPage", Name: page.Name, UID: page.UID}})
		create(g)
		Eventually(runs).Should(Receive(Equal(1)))
		Eventually(op.Ready).Should(Succeed())
	})

	It("stops in an orderly way while it waits", func() {
		op := w.operator(framework.OperatorOptions{})
		Expect(framework.Register(op, newGadgets(), gadgetOptions{})).To(Succeed())
		stop := run(op)
		Eventually(op.Ready).Should(MatchError(ContainSubstring(w.group)))
		Expect(stop()).To(Succeed())
		Expect(op.Ready()).To(MatchError(ContainSubstring("not running")))
	})

	It("outlasts an API server that answers discovery with 503", func() {
		w.install()
		var l line
		discovery := func(request *http.Request) (*http.Response, error) {
			if strings.HasSuffix(request.URL.Path, "/apis/"+w.group+"/v1") {
				return answers(http.StatusServiceUnavailable)(request)
			}
			return nil, nil
		}
		l.cut.Store(&discovery)
		op := w.operator(framework.OperatorOptions{}, func(config *restConfig) { config.Wrap(l.wrap) })
		r := newGadgets()
		Expect(framework.Register(op, r, gadgetOptions{})).To(Succeed())
		run(op)
		w.create("g", sized(1))
		Eventually(op.Ready).Should(MatchError(ContainSubstring("waits to start")))
		Consistently(r.runs).ShouldNot(Receive())
		l.cut.Store(nil)
		Eventually(r.runs).Should(Receive())
	})

	It("ends with an error if the API server answers discovery with 503 for too long", func() {
		op := w.operator(framework.OperatorOptions{SyncTimeout: time.Second}, func(config *restConfig) {
			config.Wrap(func(http.RoundTripper) http.RoundTripper { return roundTripper(answers(http.StatusServiceUnavailable)) })
		})
		Expect(framework.Register(op, newGadgets(), gadgetOptions{})).To(Succeed())
		Expect(op.Run(ctx)).To(MatchError(And(ContainSubstring(`"gadget"`), ContainSubstring("1s"))))
	})

	It("goes on without a cache that may not be filled, if told so, and fills it once it may", func() {
		w.install()
		w.create("g", sized(1))
		op := w.operator(framework.OperatorOptions{SyncTimeout: time.Second, StartPolicy: framework.WaitForAll}, as("start-"+w.ns))
		r := newGadgets()
		Expect(framework.Register(op, r, gadgetOptions{})).To(Succeed())
		run(op)
		Eventually(op.Ready).Should(MatchError(And(ContainSubstring("is not synced after 1s"), ContainSubstring("forbidden"))))
		Expect(r.runs).NotTo(Receive())
		w.allow("start-" + w.ns)
		Eventually(r.runs, healing).Should(Receive())
		Eventually(op.Ready).Should(Succeed())
	})
})

// as makes an operator a user without any rights but to ask discovery.
func as(user string) func(*restConfig) {
	return func(config *restConfig) {
		config.Impersonate.UserName = user
		config.Impersonate.Groups = []string{"system:authenticated"}
	}
}

// allow gives a user all rights on gadgets; revoke takes them back.
func (w *workshop) allow(user string) (revoke func()) {
	GinkgoHelper()
	role := create(&rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{w.group}, Resources: []string{"*"}, Verbs: []string{"*"}}},
	})
	binding := create(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
	})
	return func() {
		GinkgoHelper()
		Expect(admin.Delete(ctx, binding)).To(Succeed())
		Expect(admin.Delete(ctx, role)).To(Succeed())
	}
}
