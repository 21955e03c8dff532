package prefixedpod_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/internal/testenv"
)

// On an API server without kubelets the truth is what etcd stored; a kubelet is played.
var _ = Describe("The PrefixedPod operator, dead at any of its writes", Ordered, ContinueOnFailure, Label("G11"), func() {
	var (
		env   *testenv.Env
		c     *cluster
		truth *testenv.Truth
		ctx   = context.Background()
	)
	BeforeAll(func() {
		var err error
		env, err = testenv.Start(filepath.Join("config", "crd", "bases"))
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(env.Stop)
		c = newCluster(env.Config)
		truth, err = env.Truth(ctx)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(truth.Stop)
	})

	// counted counts the Pods of a namespace at every version that etcd had.
	counted := func(namespace string) *census {
		GinkgoHelper()
		Expect(truth.WaitNow(ctx)).To(Succeed())
		counted := newCensus()
		for _, e := range truth.Events() {
			if !strings.HasPrefix(e.Key, "/registry/pods/"+namespace+"/") {
				continue
			}
			o, err := e.Object()
			Expect(err).NotTo(HaveOccurred())
			if pod := o.(metav1.Object); e.Deleted {
				counted.gone(pod)
			} else {
				counted.put(e.Revision, pod)
			}
		}
		return counted
	}

	// A Pod and its name, its end, another Pod and its name.
	const writes = 5
	for at := 1; at <= writes; at++ {
		for _, when := range []testenv.When{testenv.BeforeRequest, testenv.AfterCommit, testenv.AfterAnswer} {
			It(fmt.Sprintf("dead %v write %d, has one Pod at any time and comes to the same end", when, at), func() {
				ns := c.namespace(ctx)
				k := &kubelet{
					client: c.Client, every: 20 * time.Millisecond, slowness: 300 * time.Millisecond,
					random: rand.New(rand.NewPCG(uint64(at), uint64(when))),
					pods:   func(ctx context.Context) ([]corev1.Pod, error) { return c.pods(ctx, ns) },
					bind: func(ctx context.Context, pod *corev1.Pod) error {
						return c.typed.CoreV1().Pods(ns).Bind(ctx, &corev1.Binding{
							ObjectMeta: metav1.ObjectMeta{Name: pod.Name},
							Target:     corev1.ObjectReference{Kind: "Node", Name: "node"},
						}, metav1.CreateOptions{})
					},
				}
				act(k.run)
				crash := testenv.NewCrash(at, when)
				config := rest.CopyConfig(c.config)
				config.Wrap(crash.Wrap)
				first := c.operator(config, ns)
				act(func(ctx context.Context) error {
					select {
					case <-crash.Dead:
						first()
						c.operator(c.config, ns)
					case <-ctx.Done():
					}
					return nil
				})
				primary := c.prefixedPod(ctx, ns, "first-")
				one := c.named(ctx, primary, "first-")
				Expect(c.changePrefix(ctx, primary, "second-")).To(Succeed())
				two := c.named(ctx, primary, "second-")
				Eventually(crash.Dead).Should(BeClosed(), "the operator made only %d writes", crash.Writes())
				counted := counted(ns)
				Expect(counted.violations).To(BeEmpty())
				Expect(counted.names(primary.UID)).To(Equal([]string{one.Name, two.Name}))
			})
		}
	}
})
