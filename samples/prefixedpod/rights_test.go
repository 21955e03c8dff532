package prefixedpod_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/testenv"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
	"github.com/evenkeel/evenkeel/samples/prefixedpod"
	v1 "github.com/evenkeel/evenkeel/samples/prefixedpod/api/v1"
)

var _ = Describe("The rights of the PrefixedPod operator", Ordered, func() {
	const serviceAccount = "system:serviceaccount:prefixedpod-operator:prefixedpod-operator"
	var (
		admin    *client.Client
		operator *rest.Config
		ctx      = context.Background()
		audit    string
	)
	BeforeAll(func() {
		flags, file, err := testenv.AuditLog(GinkgoT().TempDir())
		Expect(err).NotTo(HaveOccurred())
		audit = file
		flags["enable-admission-plugins"] = "OwnerReferencesPermissionEnforcement"
		env, err := testenv.StartWithFlags(flags, filepath.Join("config", "crd", "bases"))
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(env.Stop)
		scheme := newScheme()
		Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
		admin, err = client.New(env.Config, scheme)
		Expect(err).NotTo(HaveOccurred())
		operator = rest.CopyConfig(env.Config)
		operator.Impersonate = rest.ImpersonationConfig{UserName: serviceAccount, Groups: []string{"system:serviceaccounts", "system:authenticated"}}
		install(ctx, admin, filepath.Join("config", "rbac"))
		denyPods(ctx, admin)
	})

	namespace := func() string {
		GinkgoHelper()
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "rights-"}}
		Expect(admin.Create(ctx, ns)).To(Succeed())
		Expect(admin.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "default"}})).To(Succeed())
		return ns.Name
	}

	It("are those that it uses, and no others", func() {
		lost := &testenv.LostAnswers{}
		start := func() (op *framework.Operator, stop func()) {
			config := rest.CopyConfig(operator)
			config.Wrap(lost.Wrap)
			op, err := framework.NewOperator(config, framework.OperatorOptions{
				Scheme: newScheme(), Grace: -1, Name: operatorName,
				LeaderElection: framework.LeaderElection{Mode: framework.Always, Namespace: "prefixedpod-operator"},
			})
			Expect(err).NotTo(HaveOccurred())
			Expect(prefixedpod.Register(op)).To(Succeed())
			running, cancel := context.WithCancel(ctx)
			done := make(chan error, 1)
			go func() { done <- op.Run(running) }()
			stop = sync.OnceFunc(func() {
				cancel()
				Expect(<-done).To(Succeed())
			})
			DeferCleanup(stop)
			return op, stop
		}
		first, stop := start()
		Eventually(first.Leading).Should(BeTrue())
		for range 2 {
			ns := namespace()
			p := &v1.PrefixedPod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "p"}, Spec: v1.PrefixedPodSpec{PodNamePrefix: "first-"}}
			Expect(admin.Create(ctx, p)).To(Succeed())
			rename := func(p *v1.PrefixedPod, prefix string) {
				GinkgoHelper()
				patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"podNamePrefix":"`+prefix+`"}}`))
				Expect(admin.Patch(ctx, p, patch)).To(Succeed())
			}
			named := func(prefix string) {
				GinkgoHelper()
				Eventually(func() string {
					Expect(admin.Get(ctx, client.ObjectKeyFromObject(p), p)).To(Succeed())
					return p.Status.GeneratedPodName
				}).Should(HavePrefix(prefix))
			}
			named("first-")
			rename(p, "second-")
			named("second-")
			// A failure that recurs is one event with a count.
			denied := &v1.PrefixedPod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "denied"}, Spec: v1.PrefixedPodSpec{PodNamePrefix: "denied-"}}
			Expect(admin.Create(ctx, denied)).To(Succeed())
			prefix := "denied-"
			Eventually(func() (counts []int32) {
				prefix += "x"
				rename(denied, prefix)
				var list eventsv1.EventList
				Expect(admin.List(ctx, &list, client.InNamespace(ns))).To(Succeed())
				for _, e := range list.Items {
					if e.Regarding.Name == "denied" && e.Series != nil {
						counts = append(counts, e.Series.Count)
					}
				}
				return counts
			}).WithPolling(500 * time.Millisecond).ShouldNot(BeEmpty())
		}
		// The new leader lists what it watches.
		second, stopSecond := start()
		Eventually(second.Ready).Should(Succeed())
		stop()
		Eventually(second.Leading).Should(BeTrue())
		stopSecond()
		used, refused, err := testenv.UsedRights(audit, serviceAccount)
		Expect(err).NotTo(HaveOccurred())
		Expect(refused).To(BeEmpty())
		// The API server asks for it itself, which the audit log does not show: the next spec does.
		used = append(used, testenv.Right{Group: "samples.evenkeel.dev", Resource: "prefixedpods/finalizers", Verb: "update"})
		granted, err := testenv.GrantedRights(filepath.Join("config", "rbac"))
		Expect(err).NotTo(HaveOccurred())
		Expect(testenv.RightsProblems(granted, used)).To(BeEmpty())
	})

	It("have that to finalizers, without which owner references may be refused", func() {
		ns := namespace()
		p := &v1.PrefixedPod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "p"}, Spec: v1.PrefixedPodSpec{PodNamePrefix: "first-"}}
		Expect(admin.Create(ctx, p)).To(Succeed())
		owned := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "owned", OwnerReferences: []metav1.OwnerReference{{
			APIVersion: v1.GroupVersion.String(), Kind: "PrefixedPod", Name: p.Name, UID: p.UID, BlockOwnerDeletion: ptr.To(true),
		}}}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
		own, err := client.New(operator, newScheme())
		Expect(err).NotTo(HaveOccurred())
		Expect(own.Create(ctx, owned.DeepCopy(), client.DryRunAll)).To(Succeed())
		var role unstructured.Unstructured
		role.SetAPIVersion("rbac.authorization.k8s.io/v1")
		role.SetKind("ClusterRole")
		Expect(admin.Get(ctx, client.ObjectKey{Name: operatorName}, &role)).To(Succeed())
		for _, rule := range role.Object["rules"].([]any) {
			if resources := rule.(map[string]any)["resources"].([]any); resources[0] == "prefixedpods/finalizers" {
				resources[0] = "none"
			}
		}
		Expect(admin.Update(ctx, &role)).To(Succeed())
		Eventually(func() error { return own.Create(ctx, owned.DeepCopy(), client.DryRunAll) }).Should(Satisfy(apierrors.IsForbidden))
	})
})

// install applies the manifests of a folder in the order of their names, as kubectl does.
func install(ctx context.Context, admin *client.Client, folder string) {
	GinkgoHelper()
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	Expect(err).NotTo(HaveOccurred())
	Expect(files).NotTo(BeEmpty())
	for _, file := range files {
		content, err := os.ReadFile(file)
		Expect(err).NotTo(HaveOccurred())
		for _, document := range bytes.Split(content, []byte("\n---\n")) {
			var o unstructured.Unstructured
			Expect(yaml.Unmarshal(document, &o.Object)).To(Succeed())
			Expect(admin.Create(ctx, &o)).To(Succeed(), file)
		}
	}
}

// denyPods makes the API server refuse Pods whose name begins with "denied", as too large: an event
// reports that at once.
func denyPods(ctx context.Context, admin *client.Client) {
	GinkgoHelper()
	Expect(admin.Create(ctx, &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "deny"},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
				},
			}}},
			Validations: []admissionregistrationv1.Validation{{
				Expression: `!has(object.metadata.generateName) || !object.metadata.generateName.startsWith("denied")`, Reason: ptr.To(metav1.StatusReasonRequestEntityTooLarge),
			}},
		},
	})).To(Succeed())
	Expect(admin.Create(ctx, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "deny"},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: "deny", ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	})).To(Succeed())
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "default"}}
	Expect(client.IgnoreAlreadyExists(admin.Create(ctx, account))).To(Succeed())
	// It counts a moment later.
	Eventually(func() error {
		return admin.Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "denied-"},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		}, client.DryRunAll)
	}).Should(Satisfy(apierrors.IsRequestEntityTooLargeError))
}
