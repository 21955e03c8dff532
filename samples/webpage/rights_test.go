package webpage_test

import (
	"context"
	"maps"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/conditions"
	"github.com/evenkeel/evenkeel/internal/testenv"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
	"github.com/evenkeel/evenkeel/samples/webpage"
	v1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

const serviceAccount = "system:serviceaccount:webpage-operator:webpage-operator"

// asInACluster runs the operator on all namespaces, with leader election, as its service account.
func (c *cluster) asInACluster(wrap func(http.RoundTripper) http.RoundTripper) (op *framework.Operator, stop func()) {
	config := rest.CopyConfig(c.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: serviceAccount, Groups: []string{"system:serviceaccounts", "system:authenticated"}}
	config.Wrap(wrap)
	op, err := framework.NewOperator(config, framework.OperatorOptions{
		Scheme: c.Scheme(), Grace: -1, Name: "webpage-operator",
		LeaderElection: framework.LeaderElection{Mode: framework.Always, Namespace: "webpage-operator"},
	})
	Expect(err).NotTo(HaveOccurred())
	Expect(c.register(op)).To(Succeed())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- op.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		Expect(<-done).To(Succeed())
	})
	DeferCleanup(stop)
	return op, stop
}

// deny has the API server refuse the creation of ConfigMaps named "denied".
func (c *cluster) deny(ctx context.Context) {
	GinkgoHelper()
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "deny"},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
				},
			}}},
			Validations: []admissionregistrationv1.Validation{{Expression: `request.name != "denied"`, Reason: ptr.To(metav1.StatusReasonInvalid)}},
		},
	}
	Expect(c.Create(ctx, policy)).To(Succeed())
	Expect(c.Create(ctx, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "deny"},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: "deny", ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	})).To(Succeed())
	// It counts a moment later.
	Eventually(func() error {
		denied := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "denied"}}
		return c.Create(ctx, denied, client.DryRunAll)
	}).Should(Satisfy(apierrors.IsInvalid))
}

var _ = Describe("The rights of the WebPage operator", Ordered, func() {
	var (
		c     *cluster
		ctx   = context.Background()
		audit string
	)
	BeforeAll(func() {
		flags, file, err := testenv.AuditLog(GinkgoT().TempDir())
		Expect(err).NotTo(HaveOccurred())
		audit = file
		maps.Copy(flags, map[string]string{"enable-admission-plugins": "OwnerReferencesPermissionEnforcement"})
		env, err := testenv.StartWithFlags(flags, testenv.WebPageCRDs())
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(env.Stop)
		c = newCluster(env.Config)
		c.register = webpage.Register
		c.install(ctx, "rbac")
		c.deny(ctx)
	})

	It("are those that it uses, and no others", func() {
		lost := &testenv.LostAnswers{}
		first, stop := c.asInACluster(lost.Wrap)
		Eventually(first.Leading).Should(BeTrue())
		for range 2 {
			ns := c.namespace(ctx)
			p := page(ns, "p", func(p *v1.WebPage) { p.Spec.Exposed = true })
			Expect(c.Create(ctx, p)).To(Succeed())
			ready := func() string {
				c.rollOut(p) // whatever the Deployment is now
				return c.condition(p, conditions.Ready)()
			}
			Eventually(ready).Should(Equal("True Ready"))
			update(c, c.page, p, func(p *v1.WebPage) { p.Spec.HTML += "<!-- changed -->" })
			Eventually(ready).Should(Equal("True Ready"))
			update(c, c.page, p, func(p *v1.WebPage) { p.Spec.Exposed = false })
			Eventually(func() any { return c.ingress(p) }).Should(BeNil())
			// Somebody changes what belongs to the page.
			update(c, c.service, p, func(s *corev1.Service) { s.Spec.Selector = map[string]string{"a": "b"} })
			Eventually(func() map[string]string { return c.service(p).Spec.Selector }).ShouldNot(HaveKey("a"))
			// A failure that recurs is one event with a count.
			denied := page(ns, "denied")
			Expect(c.Create(ctx, denied)).To(Succeed())
			Eventually(func() (counts []int32) {
				var list eventsv1.EventList
				Expect(c.List(ctx, &list, client.InNamespace(ns))).To(Succeed())
				update(c, c.page, denied, func(p *v1.WebPage) { p.Spec.HTML += "<!-- again -->" })
				for _, e := range list.Items {
					if e.Regarding.Name == "denied" && e.Series != nil {
						counts = append(counts, e.Series.Count)
					}
				}
				return counts
			}).WithPolling(500 * time.Millisecond).ShouldNot(BeEmpty())
			Expect(c.Delete(ctx, denied)).To(Succeed())
			Expect(c.Delete(ctx, p)).To(Succeed())
		}
		// The new leader lists what it watches.
		second, stopSecond := c.asInACluster(lost.Wrap)
		Eventually(second.Ready).Should(Succeed())
		stop()
		Eventually(second.Leading).Should(BeTrue())
		stopSecond()
		used, refused, err := testenv.UsedRights(audit, serviceAccount)
		Expect(err).NotTo(HaveOccurred())
		Expect(refused).To(BeEmpty())
		// The API server asks for it itself, which the audit log does not show: the next spec does.
		used = append(used, testenv.Right{Group: "samples.evenkeel.dev", Resource: "webpages/finalizers", Verb: "update"})
		granted, err := testenv.GrantedRights(filepath.Join("config", "rbac"))
		Expect(err).NotTo(HaveOccurred())
		Expect(testenv.RightsProblems(granted, used)).To(BeEmpty())
	})

	It("have that to finalizers, without which owner references may be refused", func() {
		ns := c.namespace(ctx)
		p := page(ns, "p")
		Expect(c.Create(ctx, p)).To(Succeed())
		owned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "owned", OwnerReferences: []metav1.OwnerReference{{
			APIVersion: v1.GroupVersion.String(), Kind: "WebPage", Name: p.Name, UID: p.UID, BlockOwnerDeletion: ptr.To(true),
		}}}}
		config := rest.CopyConfig(c.config)
		config.Impersonate = rest.ImpersonationConfig{UserName: serviceAccount, Groups: []string{"system:authenticated"}}
		operator, err := client.New(config, c.Scheme())
		Expect(err).NotTo(HaveOccurred())
		Expect(operator.Create(ctx, owned.DeepCopy(), client.DryRunAll)).To(Succeed())
		var role rbacv1.ClusterRole
		Expect(c.Get(ctx, client.ObjectKey{Name: "webpage-operator"}, &role)).To(Succeed())
		for i := range role.Rules {
			if role.Rules[i].Resources[0] == "webpages/finalizers" {
				role.Rules[i].Resources[0] = "none"
			}
		}
		Expect(c.Update(ctx, &role)).To(Succeed())
		Eventually(func() error { return operator.Create(ctx, owned.DeepCopy(), client.DryRunAll) }).Should(Satisfy(apierrors.IsForbidden))
	})
})
