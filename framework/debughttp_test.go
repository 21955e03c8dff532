package framework_test

import (
	"net/http"
	"net/http/httptest"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework/debughttp"
)

var _ = Describe("The guard of the listener", func() {
	It("lets pass who may get the path", func() {
		ns := namespace()
		clientset, err := kubernetes.NewForConfig(env.Config)
		Expect(err).NotTo(HaveOccurred())
		tokenOf := func(name string) string {
			GinkgoHelper()
			create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}})
			answer, err := clientset.CoreV1().ServiceAccounts(ns).CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			return answer.Status.Token
		}
		scraper, other := tokenOf("scraper"), tokenOf("other")
		role := create(&rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: "metrics-reader-" + ns},
			Rules:      []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}},
		})
		create(&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: role.Name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: ns, Name: "scraper"}},
		})

		asked := 0
		config := rest.CopyConfig(env.Config)
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) { asked++; return next.RoundTrip(r) })
		})
		newGuard := func() func(*http.Request) error {
			GinkgoHelper()
			guard, err := debughttp.Review(config)
			Expect(err).NotTo(HaveOccurred())
			return guard
		}
		guard := newGuard()
		code := func(token, path string) int {
			GinkgoHelper()
			r := httptest.NewRequest(http.MethodGet, path, nil)
			if token != "" {
				r.Header.Set("Authorization", "Bearer "+token)
			}
			err := guard(r)
			if err == nil {
				return http.StatusOK
			}
			refusal := &debughttp.Refusal{}
			Expect(err).To(BeAssignableToTypeOf(refusal))
			return err.(*debughttp.Refusal).Code
		}
		Eventually(func() int { // the server's authorizer learns of the role by a watch
			guard = newGuard()
			return code(scraper, "/metrics")
		}).Should(Equal(http.StatusOK))
		before := asked
		Expect(code(scraper, "/metrics")).To(Equal(http.StatusOK))
		Expect(asked).To(Equal(before), "the answer counts for a minute")
		Expect(code(scraper, "/debug/pprof/heap")).To(Equal(http.StatusForbidden))
		Expect(code(other, "/metrics")).To(Equal(http.StatusForbidden))
		Expect(code("garbage", "/metrics")).To(Equal(http.StatusUnauthorized))
		Expect(code("", "/metrics")).To(Equal(http.StatusUnauthorized))
	})
})
