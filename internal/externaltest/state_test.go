package externaltest

import (
	"context"
	"fmt"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/external"
	"github.com/evenkeel/evenkeel/internal/testenv"
	apiclient "github.com/evenkeel/evenkeel/internal/testenv/client"
	"github.com/evenkeel/evenkeel/retry"
	v1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

// monitor is what a system has of a page, under an id of its own choice. It knows neither tags nor
// tokens.
type monitor struct{ ID, Page, HTML string }

// monitoring is that system.
type monitoring struct {
	mu               sync.Mutex // guards below
	all              map[string]monitor
	created, removed int
}

func (m *monitoring) counts() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return fmt.Sprintf("%d created, %d removed, %d left", m.created, m.removed, len(m.all))
}

func (m *monitoring) create(_ context.Context, _ *framework.Context[*v1.WebPage], desired monitor, _ external.Creation) (monitor, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.created++
	desired.ID = fmt.Sprintf("monitor-%d", m.created)
	m.all[desired.ID] = desired
	return desired, nil
}

func (m *monitoring) remove(_ context.Context, _ *framework.Context[*v1.WebPage], actual monitor) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.removed++
	delete(m.all, actual.ID)
	return nil
}

func (m *monitoring) byID(_ context.Context, _ *framework.Context[*v1.WebPage], id string) (monitor, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	found, exists := m.all[id]
	return found, exists, nil
}

// monitored has nothing but a workflow.
type monitored struct{}

func (monitored) Reconcile(context.Context, *v1.WebPage, *framework.Context[*v1.WebPage]) (framework.UpdateControl[*v1.WebPage], error) {
	return framework.NoUpdate[*v1.WebPage](), nil
}

// With controllers that delete what is in a namespace in any order, and what is owned before its
// owner.
var _ = Describe("G13 ExternalStateIT What is remembered, on a whole control plane", Ordered, func() {
	var (
		plane  *testenv.Plane
		c      *apiclient.Client
		ns     *corev1.Namespace
		system *monitoring
	)
	BeforeAll(func() {
		var err error
		plane, err = testenv.StartSandbox(ctx)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(plane.Stop)
		err = testenv.InstallCRDs(plane.Config, testenv.WebPageCRDs())
		Expect(err).NotTo(HaveOccurred())
		c, err = apiclient.New(plane.Config, scheme)
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() error { return c.List(ctx, &v1.WebPageList{}) }).Should(Succeed())
	})
	BeforeEach(func() {
		ns = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "remembered-"}}
		Expect(c.Create(ctx, ns)).To(Succeed())
		system = &monitoring{all: map[string]monitor{}}
	})

	operate := func() (stop func()) {
		GinkgoHelper()
		watched := &external.Value[*v1.WebPage, monitor]{
			Name: "monitor",
			Desired: func(_ context.Context, page *v1.WebPage, _ *framework.Context[*v1.WebPage]) (monitor, error) {
				return monitor{Page: page.Name, HTML: page.Spec.HTML}, nil
			},
			Matches: func(actual, desired monitor) bool { return actual.HTML == desired.HTML },
			Create:  system.create, Remove: system.remove,
			State: &external.InConfigMap[*v1.WebPage]{}, ID: func(m monitor) string { return m.ID }, ByID: system.byID,
		}
		op, err := framework.NewOperator(plane.Config, framework.OperatorOptions{Logger: quiet, Scheme: scheme, Namespaces: []string{ns.Name}})
		Expect(err).NotTo(HaveOccurred())
		Expect(framework.Register(op, monitored{}, framework.ControllerOptions[*v1.WebPage]{
			Workflow: framework.Workflow[*v1.WebPage]{Dependents: []framework.Dependent[*v1.WebPage]{watched}},
			Retry:    retry.Policy{Initial: 50 * time.Millisecond, Max: time.Second},
		})).To(Succeed())
		running, cancel := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() { done <- op.Run(running) }()
		stop = sync.OnceFunc(func() {
			GinkgoHelper()
			cancel()
			Expect(<-done).To(Succeed())
		})
		DeferCleanup(stop)
		return stop
	}
	// remembered is a page that has a monitor, whose id is in the only ConfigMap with the label.
	remembered := func() (*v1.WebPage, *corev1.ConfigMap) {
		GinkgoHelper()
		page := &v1.WebPage{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "page"}, Spec: v1.WebPageSpec{HTML: "one"}}
		Expect(c.Create(ctx, page)).To(Succeed())
		var states corev1.ConfigMapList
		Eventually(func(g Gomega) {
			g.Expect(c.List(ctx, &states, apiclient.InNamespace(ns.Name), apiclient.HasLabels{external.StateKey})).To(Succeed())
			g.Expect(states.Items).To(HaveLen(1))
			g.Expect(states.Items[0].Data["records.json"]).To(ContainSubstring("monitor-1"))
		}).Should(Succeed())
		return page, &states.Items[0]
	}
	gone := func(o apiclient.Object) func() bool {
		return func() bool { return apierrors.IsNotFound(c.Get(ctx, apiclient.ObjectKeyFromObject(o), o)) }
	}

	It("outlives the end of its namespace until the value is gone", func() {
		stop := operate()
		_, state := remembered()
		stop()
		Expect(c.Delete(ctx, ns)).To(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(c.Get(ctx, apiclient.ObjectKeyFromObject(state), state)).To(Succeed())
			g.Expect(state.DeletionTimestamp).NotTo(BeNil())
		}).Should(Succeed())
		operate()
		Eventually(gone(ns)).WithTimeout(time.Minute).Should(BeTrue())
		Expect(system.counts()).To(Equal("1 created, 1 removed, 0 left"))
	})

	It("outlives a foreground deletion, and who deletes it by hand", func() {
		stop := operate()
		page, state := remembered()
		stop()
		Expect(c.Delete(ctx, state)).To(Succeed())
		Expect(c.Delete(ctx, page, apiclient.PropagationPolicy(metav1.DeletePropagationForeground))).To(Succeed())
		operate()
		Eventually(gone(page)).WithTimeout(time.Minute).Should(BeTrue())
		Expect(gone(state)()).To(BeTrue())
		Expect(system.counts()).To(Equal("1 created, 1 removed, 0 left"))
	})
})
