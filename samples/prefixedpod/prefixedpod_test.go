package prefixedpod_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/spectimes"
	"github.com/evenkeel/evenkeel/internal/testenv"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
	"github.com/evenkeel/evenkeel/samples/prefixedpod"
	v1 "github.com/evenkeel/evenkeel/samples/prefixedpod/api/v1"
)

func TestPrefixedPod(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(20 * time.Second)
	RunSpecs(t, "PrefixedPod")
}

var _ = ReportAfterEach(spectimes.Append)

var _ = Describe("The PrefixedPod operator", Ordered, func() {
	var (
		admin *client.Client
		ctx   = context.Background()
	)
	BeforeAll(func() {
		env, err := testenv.Start(filepath.Join("config", "crd", "bases"))
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(env.Stop)
		scheme := runtime.NewScheme()
		Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
		Expect(v1.AddToScheme(scheme)).To(Succeed())
		admin, err = client.New(env.Config, scheme)
		Expect(err).NotTo(HaveOccurred())
		// Pods get the default service account, which no controller makes here.
		Expect(admin.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "default"}})).To(Succeed())

		op, err := framework.NewOperator(env.Config, framework.OperatorOptions{Logger: quiet, Scheme: scheme})
		Expect(err).NotTo(HaveOccurred())
		Expect(prefixedpod.Register(op)).To(Succeed())
		running, stop := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() { done <- op.Run(running) }()
		DeferCleanup(func() {
			stop()
			Expect(<-done).To(Succeed())
		})
	})

	It("creates one Pod, and another one only after a change of the prefix and the end of the first", func() {
		primary := &v1.PrefixedPod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}, Spec: v1.PrefixedPodSpec{PodNamePrefix: "first-"}}
		Expect(admin.Create(ctx, primary)).To(Succeed())
		pods := func() []corev1.Pod {
			var list corev1.PodList
			Expect(admin.List(ctx, &list, client.InNamespace("default"))).To(Succeed())
			return list.Items
		}
		named := func(prefix string) {
			GinkgoHelper()
			Eventually(func(g Gomega) {
				now := pods()
				g.Expect(now).To(HaveLen(1))
				g.Expect(now[0].Name).To(HavePrefix(prefix))
				g.Expect(metav1.GetControllerOf(&now[0]).UID).To(Equal(primary.UID))
				g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(primary), primary)).To(Succeed())
				g.Expect(primary.Status.GeneratedPodName).To(Equal(now[0].Name))
			}).Should(Succeed())
		}
		named("first-")
		primary.Spec.PodNamePrefix = "second-"
		Expect(admin.Update(ctx, primary)).To(Succeed())
		named("second-")
		Expect(admin.Delete(ctx, &pods()[0])).To(Succeed())
		named("second-")
	})
})
