package framework_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/testenv"
)

// instanceVariable makes the test binary an instance of an operator, as its content says.
const instanceVariable = "EVENKEEL_TEST_INSTANCE"

// instanceOrder is what an instance is to do.
type instanceOrder struct {
	Name, Namespace string
	Host            string
	TLS             rest.TLSClientConfig
}

// beInstance runs an operator that writes without a pause, and says in what it writes who it is.
func beInstance(given string) int {
	running, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var order instanceOrder
	err := json.Unmarshal([]byte(given), &order)
	if err == nil {
		err = order.run(running)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func (order instanceOrder) run(ctx context.Context) error {
	op, err := framework.NewOperator(&rest.Config{Host: order.Host, TLSClientConfig: order.TLS}, framework.OperatorOptions{
		Scheme: scheme, Namespaces: []string{order.Namespace}, Grace: -1, LeaderElection: quickElection(order.Namespace, order.Name),
	})
	if err != nil {
		return err
	}
	r := &pages{}
	n := 0
	r.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
		for ; ctx.Err() == nil; n++ {
			if _, err := framework.Apply(ctx, c, configMapOf(page, fmt.Sprintf("%s %d", order.Name, n))); err != nil {
				return pageUpdate{}, err
			}
		}
		return pageUpdate{}, ctx.Err()
	}
	if err := framework.Register(op, r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)}); err != nil {
		return err
	}
	return op.Run(ctx)
}

// quickElection is one with a short lease.
func quickElection(ns, identity string) framework.LeaderElection {
	return framework.LeaderElection{
		Mode: framework.Always, Namespace: ns, Name: "instances", Identity: identity,
		LeaseDuration: 3 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: 300 * time.Millisecond,
	}
}

// instanceProcess is an instance in a process of its own.
type instanceProcess struct {
	*exec.Cmd
	kill func() error
}

func startInstance(ns, name string) *instanceProcess {
	GinkgoHelper()
	order, err := json.Marshal(instanceOrder{Name: name, Namespace: ns, Host: env.Config.Host, TLS: env.Config.TLSClientConfig})
	Expect(err).NotTo(HaveOccurred())
	program, err := os.Executable()
	Expect(err).NotTo(HaveOccurred())
	p := &instanceProcess{Cmd: exec.Command(program)}
	p.Env = append(os.Environ(), instanceVariable+"="+string(order))
	p.Stdout, p.Stderr = GinkgoWriter, GinkgoWriter
	p.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt of the tests is not for it
	Expect(p.Start()).To(Succeed())
	p.kill = sync.OnceValue(func() error {
		if err := p.Process.Kill(); err != nil {
			return err
		}
		_ = p.Wait() // says that it was killed
		return nil
	})
	DeferCleanup(p.kill)
	return p
}

func (p *instanceProcess) signal(s syscall.Signal) {
	GinkgoHelper()
	Expect(p.Process.Signal(s)).To(Succeed())
}

// onlyHoldersWroteTruly checks by etcd's history that whoever wrote the ConfigMaps of a namespace
// held the lease then, and returns in which order they wrote.
func onlyHoldersWroteTruly(truth *testenv.Truth, ns string) (order []string) {
	GinkgoHelper()
	Expect(truth.WaitNow(ctx)).To(Succeed())
	holder := ""
	for _, e := range truth.Events() {
		if e.Deleted || !strings.Contains(e.Key, "/"+ns+"/") {
			continue
		}
		switch {
		case strings.HasPrefix(e.Key, "/registry/leases/"):
			o, err := e.Object()
			Expect(err).NotTo(HaveOccurred())
			holder = *o.(*coordinationv1.Lease).Spec.HolderIdentity
		case strings.HasPrefix(e.Key, "/registry/configmaps/"):
			o, err := e.Object()
			Expect(err).NotTo(HaveOccurred())
			by, _, written := strings.Cut(o.(*corev1.ConfigMap).Data["data"], " ")
			if !written {
				continue // not by an instance
			}
			Expect(by).To(Equal(holder), "who wrote %s, and who held the lease", e)
			if len(order) == 0 || order[len(order)-1] != by {
				order = append(order, by)
			}
		}
	}
	return order
}

var _ = Describe("G06 Instances in processes of their own", func() {
	It("hand over when one is killed, and when one is stopped for longer than the lease", func() {
		ns := namespace()
		truth, err := env.Truth(ctx)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(truth.Stop)
		page := create(newPage(ns, "p"))
		// Two writes in a row: the second is by an operator that takes its answers into its caches.
		writes := func(name string) {
			GinkgoHelper()
			for range 2 {
				before := read(configMapOf(page, "")).ResourceVersion
				Eventually(func() string {
					now := read(configMapOf(page, ""))
					if now.ResourceVersion == before {
						return ""
					}
					return strings.Fields(now.Data["data"])[0]
				}).Should(Equal(name))
			}
		}
		a := startInstance(ns, "a")
		writes("a")
		b := startInstance(ns, "b")
		writes("a")
		Expect(a.kill()).To(Succeed())
		writes("b")

		c := startInstance(ns, "c")
		writes("b")
		b.signal(syscall.SIGSTOP)
		writes("c")
		b.signal(syscall.SIGCONT)
		writes("c")
		c.signal(syscall.SIGSTOP)
		writes("b")
		c.signal(syscall.SIGCONT)
		writes("b")
		b.signal(syscall.SIGTERM)
		writes("c")
		Expect(onlyHoldersWroteTruly(truth, ns)).To(Equal([]string{"a", "b", "c", "b", "c"}))
	})
})
