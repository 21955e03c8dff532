package prefixedpod_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
	"github.com/evenkeel/evenkeel/samples/prefixedpod"
	v1 "github.com/evenkeel/evenkeel/samples/prefixedpod/api/v1"
)

// cluster is a real API server that a spec works against, as an administrator.
type cluster struct {
	*client.Client
	typed  *kubernetes.Clientset // for what the other has not
	config *rest.Config
}

func newCluster(config *rest.Config) *cluster {
	GinkgoHelper()
	config = rest.CopyConfig(config)
	config.QPS = -1
	c, err := client.New(config, newScheme())
	Expect(err).NotTo(HaveOccurred())
	typed, err := kubernetes.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	return &cluster{Client: c, typed: typed, config: config}
}

// namespace makes a namespace in which Pods can be made.
func (c *cluster) namespace(ctx context.Context) string {
	GinkgoHelper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "prefixed-"}}
	Expect(c.Create(ctx, ns)).To(Succeed())
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "default"}}
	Expect(client.IgnoreAlreadyExists(c.Create(ctx, account))).To(Succeed())
	return ns.Name
}

// operator runs an operator of a namespace until the spec ends or stop is called.
func (c *cluster) operator(config *rest.Config, namespace string) (stop func()) {
	GinkgoHelper()
	logger := funcr.New(func(prefix, args string) { GinkgoWriter.Println(prefix, args) }, funcr.Options{Verbosity: 2})
	op, err := newOperator(config, logger, namespace)
	Expect(err).NotTo(HaveOccurred())
	running, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- op.Run(running) }()
	stop = sync.OnceFunc(func() {
		cancel()
		Expect(<-done).To(Succeed())
	})
	DeferCleanup(stop)
	return stop
}

// act lets somebody act until the spec ends or stop is called.
func act(actor func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- actor(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		Expect(<-done).To(Succeed())
	})
	DeferCleanup(stop)
	return stop
}

func (c *cluster) prefixedPod(ctx context.Context, namespace, prefix string) *v1.PrefixedPod {
	GinkgoHelper()
	primary := &v1.PrefixedPod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p"}, Spec: v1.PrefixedPodSpec{PodNamePrefix: prefix}}
	Expect(c.Create(ctx, primary)).To(Succeed())
	return primary
}

func (c *cluster) changePrefix(ctx context.Context, primary *v1.PrefixedPod, prefix string) error {
	patch := fmt.Appendf(nil, `{"spec":{"podNamePrefix":%q}}`, prefix)
	return c.Patch(ctx, &v1.PrefixedPod{ObjectMeta: metav1.ObjectMeta{Namespace: primary.Namespace, Name: primary.Name}}, client.RawPatch("application/merge-patch+json", patch))
}

func (c *cluster) pods(ctx context.Context, namespace string) ([]corev1.Pod, error) {
	var list corev1.PodList
	err := c.List(ctx, &list, client.InNamespace(namespace))
	return list.Items, err
}

// named waits until the PrefixedPod has one living Pod with the prefix, and says so; it returns the
// Pod.
func (c *cluster) named(ctx context.Context, primary *v1.PrefixedPod, prefix string) (pod *corev1.Pod) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		pods, err := c.pods(ctx, primary.Namespace)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(pods).To(HaveLen(1))
		pod = &pods[0]
		g.Expect(pod.Name).To(HavePrefix(prefix))
		g.Expect(pod.DeletionTimestamp).To(BeNil())
		g.Expect(pod.Spec.NodeName).NotTo(BeEmpty())
		g.Expect(metav1.GetControllerOf(pod).UID).To(Equal(primary.UID))
		now := &v1.PrefixedPod{}
		g.Expect(c.Get(ctx, client.ObjectKeyFromObject(primary), now)).To(Succeed())
		g.Expect(now.Status.GeneratedPodName).To(Equal(pod.Name))
	}).Should(Succeed())
	return pod
}

// operatorName is how the requests of the operator are known.
const operatorName = "prefixedpod-operator"

// newOperator returns the operator as its program makes it, but impatient at its end.
func newOperator(config *rest.Config, logger logr.Logger, namespaces ...string) (*framework.Operator, error) {
	op, err := framework.NewOperator(config, framework.OperatorOptions{
		Scheme: newScheme(), Name: operatorName, Grace: -1, Logger: logger, Namespaces: namespaces,
	})
	if err != nil {
		return nil, err
	}
	return op, prefixedpod.Register(op)
}
