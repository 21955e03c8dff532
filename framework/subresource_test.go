package framework_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net/http"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	appsv1apply "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

// sentWrites notes the writes that leave an operator.
type sentWrites struct {
	mu   sync.Mutex // guards below
	sent []string
}

func (s *sentWrites) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if request.Method != http.MethodGet && !strings.HasSuffix(request.URL.Path, "/events") {
			s.mu.Lock()
			s.sent = append(s.sent, request.Method+" "+request.URL.Path)
			s.mu.Unlock()
		}
		return next.RoundTrip(request)
	})
}

// since returns what was sent since the last call.
func (s *sentWrites) since() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	sent := s.sent
	s.sent = nil
	return sent
}

func deploymentOf(ns, name string) *appsv1.Deployment {
	labels := map[string]string{"a": "b"}
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		},
	}}
}

// signingRequest is a request for a certificate, as PEM.
func signingRequest() []byte {
	GinkgoHelper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "tested"}}, key)
	Expect(err).NotTo(HaveOccurred())
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: request})
}

func podOf(ns, account, name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "c", Image: "i"}}, AutomountServiceAccountToken: new(bool), ServiceAccountName: account,
	}}
}

var _ = Describe("Sub-resources and kinds that are only created", func() {
	var (
		ns        string
		account   string
		sent      *sentWrites
		op        *framework.Operator
		w         framework.Writes
		clientset *kubernetes.Clientset
	)
	deployment := appsv1.SchemeGroupVersion.WithKind("Deployment")
	pod := corev1.SchemeGroupVersion.WithKind("Pod")
	shown := func(gvk schema.GroupVersionKind, name string) func() string {
		return func() string { return framework.Shown(op, gvk, types.NamespacedName{Namespace: ns, Name: name}) }
	}
	BeforeEach(func() {
		ns, sent = namespace(), &sentWrites{}
		account = serviceAccount(ns)
		r := &pages{reconcile: func(context.Context, *Page, *pageContext) (pageUpdate, error) { return pageUpdate{}, nil }}
		pods := &framework.Secondary[*corev1.Pod]{Map: func(*corev1.Pod) []types.NamespacedName { return nil }}
		deployed := &framework.Secondary[*appsv1.Deployment]{Map: func(*appsv1.Deployment) []types.NamespacedName { return nil }}
		untyped := &framework.Secondary[*unstructuredObject]{Name: "untyped", GroupVersionKind: deployment, Map: func(*unstructuredObject) []types.NamespacedName { return nil }}
		op, _ = operate(ns, r, pageOptions{Secondaries: framework.Secondaries(pods, deployed, untyped)}, func(config *restConfig) { config.Wrap(sent.wrap) })
		Eventually(op.Ready).Should(Succeed())
		w = op.Writer("ours")
		var err error
		clientset, err = kubernetes.NewForConfig(env.Config)
		Expect(err).NotTo(HaveOccurred())
	})
	nothingSent := func(err error, reason ...string) {
		GinkgoHelper()
		Expect(err).To(HaveOccurred())
		for _, part := range reason {
			Expect(err).To(MatchError(ContainSubstring(part)))
		}
		Expect(sent.since()).To(BeEmpty(), err.Error())
	}

	It("G01 patches the scale, and reads show what came of it", func() {
		d := create(deploymentOf(ns, "d"))
		Eventually(shown(deployment, "d")).Should(Equal(d.ResourceVersion))
		for replicas, patch := range map[int32]func() (*appsv1.Deployment, error){
			3: func() (*appsv1.Deployment, error) {
				return framework.MergePatch(ctx, w, deploymentOf(ns, "d"), []byte(`{"spec":{"replicas":3}}`), framework.Subresource("scale"))
			},
			5: func() (*appsv1.Deployment, error) {
				return framework.JSONPatch(ctx, w, deploymentOf(ns, "d"), []byte(`[{"op":"replace","path":"/spec/replicas","value":5}]`), framework.Subresource("scale"))
			},
			7: func() (*appsv1.Deployment, error) {
				return framework.MergePatch(ctx, w, d, []byte(`{"spec":{"replicas":7}}`), framework.Subresource("scale"), framework.Unconditional())
			},
		} {
			now, err := patch()
			Expect(err).NotTo(HaveOccurred())
			Expect(*now.Spec.Replicas).To(Equal(replicas))
			Expect(now.Spec.Template.Spec.Containers).To(HaveLen(1))
			Expect(shown(deployment, "d")()).To(Equal(now.ResourceVersion))
			Expect(read(d).ResourceVersion).To(Equal(now.ResourceVersion))
		}
		_, err := framework.MergePatch(ctx, w, d, []byte(`{"spec":{"replicas":9}}`), framework.Subresource("scale"))
		Expect(err).To(Satisfy(apierrors.IsConflict), "it carries a version that is old")
		sent.since()
		_, err = framework.MergePatch(ctx, w, deploymentOf(ns, "d"), []byte(`{"spec":{"replicas":9}}`), framework.Subresource("scale"), framework.DryRun())
		nothingSent(err, "DryRun")
	})

	It("G05 a patch of the scale in a run brings no further run", func() {
		r := &pages{}
		var scaled framework.Secondary[*appsv1.Deployment]
		r.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			intent := deploymentOf(page.Namespace, page.Name)
			if _, err := framework.Apply(ctx, c, intent, framework.OwnedByPrimary()); err != nil {
				return pageUpdate{}, err
			}
			now, err := framework.MergePatch(ctx, c, intent, []byte(`{"spec":{"replicas":2}}`), framework.Subresource("scale"))
			if err == nil {
				Expect(*now.Spec.Replicas).To(BeEquivalentTo(2))
			}
			return pageUpdate{}, err
		}
		op, _ := operate(ns, r, pageOptions{LabelSelector: "scales", Secondaries: framework.Secondaries(&scaled)})
		page := newPage(ns, "p")
		page.Labels = map[string]string{"scales": ""}
		create(page)
		expectRuns(op, page, 1)
	})

	It("refuse what they do not take before anything is sent, with the reason", func() {
		d, p := create(deploymentOf(ns, "d")), create(podOf(ns, account, "p"))
		Eventually(shown(deployment, "d")).ShouldNot(BeEmpty())
		Eventually(shown(pod, "p")).ShouldNot(BeEmpty())
		_, err := framework.Update(ctx, w, d, framework.Subresource("scale"))
		nothingSent(err, "Scale", "Do")
		_, err = framework.ApplyConfiguration[*appsv1.Deployment](ctx, w, appsv1apply.Deployment("d", ns).WithSpec(appsv1apply.DeploymentSpec().WithReplicas(2)), framework.Subresource("scale"))
		nothingSent(err, "scale", "MergePatch")
		for _, sub := range []string{"eviction", "binding", "nonsense", "", "log", "proxy"} {
			_, err = framework.MergePatch(ctx, w, p, []byte(`{"metadata":{"labels":{"a":"b"}}}`), framework.Subresource(sub))
			nothingSent(err, sub)
			_, err = framework.Update(ctx, w, p, framework.Subresource(sub))
			nothingSent(err, sub)
		}
		_, err = framework.Create(ctx, w, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "p"}})
		nothingSent(err, "pods/eviction", "Do")
		_, err = framework.Create(ctx, w, &authenticationv1.TokenRequest{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "default"}})
		nothingSent(err, "serviceaccounts/token", "Do")
		_, err = framework.Create(ctx, w, &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "p"}, Target: corev1.ObjectReference{Kind: "Node", Name: "n"}})
		nothingSent(err, "pods/binding", "Do")
		_, err = framework.Create(ctx, w, podOf(ns, account, "p"), framework.Subresource("eviction"))
		nothingSent(err, "Subresource")
		_, err = framework.Update(ctx, w, &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "d", ResourceVersion: "1"}})
		nothingSent(err, "scale", "Do")
		scale := &unstructuredObject{}
		scale.SetGroupVersionKind(autoscalingv1.SchemeGroupVersion.WithKind("Scale"))
		scale.SetNamespace(ns)
		scale.SetName("d")
		_, err = framework.Apply(ctx, w, scale)
		nothingSent(err, "scale", "Do")
	})

	It("write those that answer the object", func() {
		p := create(podOf(ns, account, "p"))
		Eventually(shown(pod, "p")).ShouldNot(BeEmpty())
		container := corev1apply.EphemeralContainer().WithName("e").WithImage("i")
		now, err := framework.ApplyConfiguration[*corev1.Pod](ctx, w,
			corev1apply.Pod("p", ns).WithSpec(corev1apply.PodSpec().WithEphemeralContainers(container)), framework.Subresource("ephemeralcontainers"))
		Expect(err).NotTo(HaveOccurred())
		Expect(now.Spec.EphemeralContainers).To(HaveLen(1))
		Expect(shown(pod, "p")()).To(Equal(now.ResourceVersion))
		_, err = framework.MergePatch(ctx, w, p, []byte(`{"spec":{"containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":"1"}}}]}}`), framework.Subresource("resize"))
		Expect(err).To(Satisfy(apierrors.IsConflict), "the version is old")

		By("approving a request")
		request := create(&certificatesv1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{Name: ns},
			Spec:       certificatesv1.CertificateSigningRequestSpec{Request: signingRequest(), SignerName: "example.com/signer", Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth}},
		})
		DeferCleanup(func() { Expect(client.IgnoreNotFound(admin.Delete(ctx, request))).To(Succeed()) })
		request.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Tested"}}
		approved, err := framework.Update(ctx, w, request, framework.Subresource("approval"))
		Expect(err).NotTo(HaveOccurred())
		Expect(approved.Status.Conditions).To(HaveLen(1))

		By("finalizing a namespace")
		leaving := create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "leaving-"}})
		Expect(admin.Delete(ctx, leaving)).To(Succeed())
		leaving = read(leaving)
		leaving.Spec.Finalizers = nil
		_, err = framework.Update(ctx, w, leaving, framework.Subresource("finalize"))
		Expect(err).NotTo(HaveOccurred())
		Expect(read(leaving).Name).To(BeEmpty())
	})

	It("G01 G03 evict within Do, whether the Pod is gone at once or not", func() {
		atOnce, later := create(podOf(ns, account, "at-once")), podOf(ns, account, "later")
		later.Finalizers = []string{"example.com/stay"}
		create(later)
		DeferCleanup(func() { change(later, func(p *corev1.Pod) { p.Finalizers = nil }) })
		for _, p := range []*corev1.Pod{atOnce, later} {
			Eventually(shown(pod, p.Name)).ShouldNot(BeEmpty())
		}
		evict := func(p *corev1.Pod) (*corev1.Pod, error) {
			return framework.Do(ctx, w, p, func(ctx context.Context) (*corev1.Pod, error) {
				return nil, clientset.PolicyV1().Evictions(ns).Evict(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: p.Name}})
			})
		}
		now, err := evict(atOnce)
		Expect(err).NotTo(HaveOccurred())
		Expect(now).To(BeNil())
		Expect(shown(pod, "at-once")()).To(BeEmpty())
		now, err = evict(later)
		Expect(err).NotTo(HaveOccurred())
		Expect(now.DeletionTimestamp).NotTo(BeNil())
		Expect(shown(pod, "later")()).To(Equal(now.ResourceVersion))
		_, err = evict(atOnce)
		Expect(err).To(Satisfy(apierrors.IsNotFound), "there is nothing to evict")
	})

	It("request a token within Do, and bind", func() {
		about := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: account}}
		var token string
		now, err := framework.Do(ctx, w, about, func(ctx context.Context) (*corev1.ServiceAccount, error) {
			answer, err := clientset.CoreV1().ServiceAccounts(ns).CreateToken(ctx, account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
			if err == nil {
				token = answer.Status.Token
			}
			return nil, err
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(now.UID).NotTo(BeEmpty())
		Expect(token).NotTo(BeEmpty())

		p := podOf(ns, account, "p")
		p.Spec.SchedulerName = "nobody"
		create(p)
		Eventually(shown(pod, "p")).ShouldNot(BeEmpty())
		bound, err := framework.Do(ctx, w, p, func(ctx context.Context) (*corev1.Pod, error) {
			return nil, clientset.CoreV1().Pods(ns).Bind(ctx, &corev1.Binding{
				ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "p"}, Target: corev1.ObjectReference{Kind: "Node", Name: "somewhere"},
			}, metav1.CreateOptions{})
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(bound.Spec.NodeName).To(Equal("somewhere"))
		Expect(shown(pod, "p")()).To(Equal(bound.ResourceVersion))
	})

	It("answer reviews, which are never stored", func() {
		self, err := framework.Create(ctx, w, &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Resource: "pods"},
		}})
		Expect(err).NotTo(HaveOccurred())
		Expect(self.Status.Allowed).To(BeTrue())
		_, err = framework.Create(ctx, w, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "nobody", ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Resource: "pods"},
		}})
		Expect(err).NotTo(HaveOccurred())
		local, err := framework.Create(ctx, w, &authorizationv1.LocalSubjectAccessReview{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns}, Spec: authorizationv1.SubjectAccessReviewSpec{
				User: "nobody", ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: ns, Verb: "get", Resource: "pods"},
			},
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(local.Spec.User).To(Equal("nobody"))
		_, err = framework.Create(ctx, w, &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: ns}})
		Expect(err).NotTo(HaveOccurred())
		reviewed, err := framework.Create(ctx, w, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: "wrong"}})
		Expect(err).NotTo(HaveOccurred())
		Expect(reviewed.Status.Authenticated).To(BeFalse())
		whoami := &unstructuredObject{Object: map[string]any{}}
		whoami.SetGroupVersionKind(authenticationv1.SchemeGroupVersion.WithKind("SelfSubjectReview"))
		answered, err := framework.Create(ctx, w, whoami)
		Expect(err).NotTo(HaveOccurred())
		Expect(answered.Object["status"]).To(HaveKey("userInfo"))
		sent.since()

		By("refusing the rest")
		_, err = framework.Create(ctx, w, &authorizationv1.LocalSubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: "nobody"}})
		nothingSent(err, "namespace")
		_, err = framework.Create(ctx, w, &authorizationv1.SelfSubjectAccessReview{}, framework.OwnedByPrimary())
		nothingSent(err, "OwnedByPrimary")
		review := &authorizationv1.SelfSubjectAccessReview{ObjectMeta: metav1.ObjectMeta{Name: "x", UID: "u", ResourceVersion: "1"}}
		_, err = framework.Update(ctx, w, review)
		nothingSent(err, "never stored")
		_, err = framework.MergePatch(ctx, w, review, []byte(`{}`))
		nothingSent(err, "never stored")
		nothingSent(framework.Delete(ctx, w, review), "never stored")
		_, err = framework.Apply(ctx, w, &authorizationv1.SelfSubjectAccessReview{ObjectMeta: metav1.ObjectMeta{Name: "x"}})
		nothingSent(err, "never stored")

		By("refusing to watch them")
		other := newOperator(framework.OperatorOptions{Namespaces: []string{ns}})
		var reviews framework.Secondary[*authorizationv1.SubjectAccessReview]
		reviews.Map = func(*authorizationv1.SubjectAccessReview) []types.NamespacedName { return nil }
		Expect(framework.Register(other, &pages{}, pageOptions{Secondaries: framework.Secondaries(&reviews)})).To(Succeed())
		Expect(other.Run(ctx)).To(MatchError(ContainSubstring("never stored")))
	})
})
