package prefixedpod_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/yaml"

	"github.com/evenkeel/evenkeel/internal/faultproxy"
	"github.com/evenkeel/evenkeel/internal/testenv"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
	v1 "github.com/evenkeel/evenkeel/samples/prefixedpod/api/v1"
)

// badDays is what happens to the operator's requests and watches.
var badDays = faultproxy.Plan{Seed: 1, Rules: []faultproxy.Rule{
	faultproxy.Lag("late pods", 2*time.Second, "pods"),
	faultproxy.Lag("late primaries", 2*time.Second, "prefixedpods"),
	{Name: "creates", Match: faultproxy.Match{Verbs: []string{"create"}, Resources: []string{"pods"}}, When: faultproxy.When{Every: 2}, Do: faultproxy.Action{LoseAnswer: true}},
	{Name: "deletes", Match: faultproxy.Match{Verbs: []string{"delete"}, Resources: []string{"pods"}}, When: faultproxy.When{Every: 2}, Do: faultproxy.Action{LoseAnswer: true}},
	{Name: "status", Match: faultproxy.Match{Resources: []string{"prefixedpods/status"}}, When: faultproxy.When{Probability: 0.2}, Do: faultproxy.Action{LoseAnswer: true}},
}}

// follow reports all present and future Pods to a census until ctx ends. A sandbox does not expose
// its etcd, but an uninterrupted watch also delivers every version of every Pod; its end is an
// error.
func (c *cluster) follow(ctx context.Context, namespace string, counted *census) (func(context.Context) error, error) {
	events, err := c.typed.CoreV1().Pods(namespace).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		defer events.Stop()
		for {
			select {
			case e, open := <-events.ResultChan():
				pod, isPod := e.Object.(*corev1.Pod)
				if !open || !isPod {
					return fmt.Errorf("the watch of Pods was interrupted: %v", e.Object)
				}
				version, err := strconv.ParseInt(pod.ResourceVersion, 10, 64)
				if err != nil {
					return err
				}
				if e.Type == watch.Deleted {
					counted.gone(pod)
				} else {
					counted.put(version, pod)
				}
			case <-ctx.Done():
				return nil
			}
		}
	}, nil
}

var _ = Describe("The PrefixedPod operator on a whole control plane", Label("G11"), func() {
	var (
		c   *cluster
		ctx = context.Background()
	)
	BeforeEach(func() {
		plane, err := testenv.StartSandbox(ctx, "--nodes", "2", "--stages", filepath.Join("testdata", "slow-pods.yaml"))
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(plane.Stop)
		c = newCluster(plane.Config)
		content, err := os.ReadFile(filepath.Join("config", "crd", "bases", "samples.evenkeel.dev_prefixedpods.yaml"))
		Expect(err).NotTo(HaveOccurred())
		var crd unstructured.Unstructured
		Expect(yaml.Unmarshal(content, &crd.Object)).To(Succeed())
		Expect(c.Create(ctx, &crd)).To(Succeed())
		// A fresh CustomResourceDefinition is served a moment after it was created.
		Eventually(func() error { return c.List(ctx, &v1.PrefixedPodList{}) }).Should(Succeed())
	})

	It("never has two Pods, though kubelets are slow, watches lag, answers get lost and others interfere", func() {
		ns := c.namespace(ctx)
		counted := newCensus()
		watching, err := c.follow(ctx, ns, counted)
		Expect(err).NotTo(HaveOccurred())
		unwatch := act(watching)
		proxy, err := faultproxy.Start(c.config, badDays)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(proxy.Stop)
		stop := c.operator(proxy.Config(), ns)
		primary := c.prefixedPod(ctx, ns, "p-0-")

		undelete := act(func(ctx context.Context) error { return c.deletePods(ctx, ns) })
		random := rand.New(rand.NewPCG(1, 1))
		last := ""
		// In real time, as the cluster lives in it: some changes come in one run, some minutes apart for
		// the operator.
		for i := range 12 {
			last = fmt.Sprintf("p-%d-", i+1)
			Expect(c.changePrefix(ctx, primary, last)).To(Succeed())
			pause := time.NewTimer(time.Duration(random.Int64N(int64(4 * time.Second))))
			<-pause.C
		}
		undelete()
		stop()
		stop = c.operator(proxy.Config(), ns) // and a restart
		c.named(ctx, primary, last)
		for _, rule := range []string{"creates", "deletes"} {
			Expect(proxy.Wait(ctx, rule, 1)).To(Succeed())
		}
		pod := c.named(ctx, primary, last)
		Consistently(func(g Gomega) {
			g.Expect(c.named(ctx, primary, last).UID).To(Equal(pod.UID))
		}).WithTimeout(5 * time.Second).Should(Succeed())
		stop()
		unwatch()
		Expect(counted.violations).To(BeEmpty())
		GinkgoWriter.Println("there were", counted.names(primary.UID))
		Expect(len(counted.names(primary.UID))).To(BeNumerically(">", 3))
	})
})

// deletePods deletes whatever Pod there is now and then.
func (c *cluster) deletePods(ctx context.Context, namespace string) error {
	now := time.NewTicker(7 * time.Second) // somebody who watches nothing
	defer now.Stop()
	for {
		select {
		case <-now.C:
		case <-ctx.Done():
			return nil
		}
		pods, err := c.pods(ctx, namespace)
		for i := range pods {
			err = errors.Join(err, client.IgnoreNotFound(c.Delete(ctx, &pods[i])))
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
}
