package framework_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/trc"
)

var _ = Describe("C105 Two instances", func() {
	It("hand over: the one that stands by has filled caches, and goes on where the other stopped", func() {
		ns := namespace()
		instance := func(identity string) (*framework.Operator, func() error) {
			r := &pages{}
			r.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
				_, err := framework.Apply(ctx, c, configMapOf(page, identity+" "+page.Spec.HTML), framework.OwnedByPrimary())
				return pageUpdate{}, err
			}
			op := newOperator(framework.OperatorOptions{Namespaces: []string{ns}, LeaderElection: quickElection(ns, identity)})
			Expect(framework.Register(op, r, pageOptions{KeepRecords: 100, Secondaries: framework.Secondaries(&r.configMaps)})).To(Succeed())
			return op, run(op)
		}
		a, stopA := instance("a")
		Eventually(a.Leading).Should(BeTrue())
		b, stopB := instance("b")
		Eventually(b.Ready).Should(Succeed())
		page := create(newPage(ns, "p"))
		data := func() string { return read(configMapOf(page, "")).Data["data"] }
		Eventually(data).Should(Equal("a <html/>"))
		Eventually(func() string {
			return framework.Shown(b, corev1.SchemeGroupVersion.WithKind("ConfigMap"), trc.KeyOf(page))
		}).
			Should(Equal(read(configMapOf(page, "")).ResourceVersion), "the caches of who stands by")
		Expect(b.Leading()).To(BeFalse())
		Expect(b.Records("webpage")).To(BeEmpty())
		Expect(framework.Delete(ctx, b.Writer(""), read(configMapOf(page, "")))).To(MatchError(framework.ErrStandby))

		Expect(stopA()).To(Succeed())
		Expect(holder(ns)).To(BeEmpty(), "the lease is released when Run has returned")
		Eventually(data).Should(Equal("b <html/>"))
		Expect(holder(ns)).To(Equal("b"))
		Expect(b.Leading()).To(BeTrue())
		Expect(stopB()).To(Succeed())
	})
})

// holder is who has the lease in a namespace.
func holder(ns string) string {
	lease := read(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "instances"}})
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

var _ = Describe("C105 A start without the rights to the lease", func() {
	// as makes an operator of a user with rights to pages, and the given ones to leases.
	as := func(ns string, verbs ...string) *framework.Operator {
		user := "user-" + ns
		rules := []rbacv1.PolicyRule{{APIGroups: []string{"samples.evenkeel.dev"}, Resources: []string{"*"}, Verbs: []string{"*"}}}
		if len(verbs) > 0 {
			rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: verbs})
		}
		create(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "operator"}, Rules: rules})
		create(&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "operator"},
			Subjects:   []rbacv1.Subject{{Kind: "User", Name: user}},
			RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "Role", Name: "operator"},
		})
		// The API server learns of roles through a watch, late on a busy machine.
		for _, verb := range append(verbs, "") {
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: ns, Group: "coordination.k8s.io", Resource: "leases", Verb: verb},
			}}
			if verb == "" { // the role without leases
				review.Spec.ResourceAttributes.Group, review.Spec.ResourceAttributes.Resource, review.Spec.ResourceAttributes.Verb = "samples.evenkeel.dev", "webpages", "list"
			}
			Eventually(func() bool { return create(review.DeepCopy()).Status.Allowed }).Should(BeTrue(), verb)
		}
		op := newOperator(framework.OperatorOptions{Namespaces: []string{ns}, LeaderElection: quickElection(ns, "a")}, func(config *restConfig) {
			config.Impersonate.UserName, config.Impersonate.Groups = user, []string{"system:authenticated"}
		})
		Expect(framework.Register(op, &pages{reconcile: func(context.Context, *Page, *pageContext) (pageUpdate, error) {
			return pageUpdate{}, nil
		}}, pageOptions{})).To(Succeed())
		return op
	}

	It("names what is missing", func() {
		ns := namespace()
		op := as(ns, "get", "list")
		Expect(op.Run(ctx)).To(MatchError(And(ContainSubstring("not allowed to create, update:"),
			ContainSubstring(fmt.Sprintf("lease %q in namespace %q", "instances", ns)), ContainSubstring("leases.coordination.k8s.io"))))
		Expect(as(namespace()).Run(ctx)).To(MatchError(ContainSubstring("not allowed to get, create, update:")))
	})

	It("is none with all rights, nor without that to create it if it exists", func() {
		ns, prepared := namespace(), namespace()
		create(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: prepared, Name: "instances"}})
		for _, op := range []*framework.Operator{as(ns, "get", "create", "update"), as(prepared, "get", "update")} {
			stop := run(op)
			Eventually(op.Leading).Should(BeTrue())
			Expect(stop()).To(Succeed())
		}
	})

	It("shows in Ready if they are lost later", func() {
		ns := namespace()
		op := as(ns, "get", "create", "update")
		stop := run(op)
		Eventually(op.Leading).Should(BeTrue())
		change(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "operator"}}, func(r *rbacv1.Role) { r.Rules = r.Rules[:1] })
		// That it does not lead may have another reason where all is slow. Only this one stays.
		Eventually(func() error {
			if op.Leading() {
				return nil
			}
			return op.Ready()
		}).Should(MatchError(And(ContainSubstring("leader election"), ContainSubstring("forbidden"))))
		Expect(stop()).To(Succeed())
	})
})
