package framework_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework"
)

var _ = Describe("What feeds a controller", func() {
	var ns string
	BeforeEach(func() { ns = namespace() })

	It("survives a Map that panics, and so do the other primaries", func() {
		r := &pages{}
		r.configMaps.Map = func(m *corev1.ConfigMap) []types.NamespacedName {
			if m.Data["data"] == "boom" {
				panic("boom")
			}
			return []types.NamespacedName{{Namespace: m.Namespace, Name: m.Name}}
		}
		r.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			data := "fine"
			if page.Name == "bad" {
				data = "boom"
			}
			_, err := framework.Apply(ctx, c, configMapOf(page, data))
			page.Status.URL = "http://done"
			return framework.PatchStatus(page), err
		}
		operate(ns, r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps), Retry: slow})
		create(newPage(ns, "bad"))
		Eventually(func() string { return read(configMapOf(newPage(ns, "bad"), "")).Name }).ShouldNot(BeEmpty())
		good := create(newPage(ns, "good"))
		Eventually(func() string { return read(good).Status.URL }, "3s").Should(Equal("http://done"))
	})

	It("takes a Filter that panics to let the change pass", func() {
		r := &pages{}
		r.configMaps.Filter = func(_, m *corev1.ConfigMap) bool {
			if m != nil && m.Data["data"] == "boom" {
				panic("boom")
			}
			return true
		}
		var runs atomic.Int32
		r.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			runs.Add(1)
			_, err := framework.Apply(ctx, c, configMapOf(page, "boom"), framework.OwnedByPrimary())
			return pageUpdate{}, err
		}
		op, _ := operate(ns, r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps), Retry: slow})
		page := create(newPage(ns, "p"))
		Eventually(func() int { return len(records(op, page)) }).ShouldNot(BeZero())
		Expect(records(op, page)[0].Err).To(BeEmpty())
	})

	It("starts no run if the operator is stopped before all caches are filled", func() {
		for i := range 15 {
			s := newStall("configmaps")
			var runs atomic.Int32
			r := &pages{}
			r.reconcile = func(context.Context, *Page, *pageContext) (pageUpdate, error) {
				runs.Add(1)
				return pageUpdate{}, nil
			}
			if i == 0 {
				for j := range 10 {
					create(newPage(ns, fmt.Sprint("p", j)))
				}
			}
			op := newOperator(framework.OperatorOptions{Namespaces: []string{ns}}, func(config *restConfig) { config.Wrap(s.holdAll) })
			Expect(framework.Register(op, r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)})).To(Succeed())
			stop := run(op)
			Eventually(func() int { return framework.PendingKeys(op, "webpage") }).Should(Equal(10))
			Expect(stop()).To(Succeed())
			Expect(runs.Load()).To(BeZero())
		}
	})

	It("shows a controller no object outside its field selector, though the operator wrote it", func() {
		runs := make(chan string, 100)
		r := &pages{}
		r.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			runs <- page.Name
			if page.Name != "p" {
				return pageUpdate{}, nil
			}
			_, err := framework.Apply(ctx, c, newPage(ns, "other"))
			return pageUpdate{}, err
		}
		operate(ns, r, pageOptions{FieldSelector: "metadata.name=p"})
		create(newPage(ns, "p"))
		Eventually(runs).Should(Receive(Equal("p")))
		Consistently(runs).ShouldNot(Receive())
	})

	It("awaits the sources that authors bring, shows their failures and stops them", func() {
		src := &fakeSource{stopped: make(chan struct{}), synced: make(chan struct{})}
		op := newOperator(framework.OperatorOptions{Namespaces: []string{ns}})
		var runs atomic.Int32
		r := &pages{reconcile: func(context.Context, *Page, *pageContext) (pageUpdate, error) { runs.Add(1); return pageUpdate{}, nil }}
		Expect(framework.Register(op, r, pageOptions{Sources: []eventsource.Source{src}})).To(Succeed())
		stop := run(op)
		create(newPage(ns, "p"))
		Consistently(runs.Load, "300ms").Should(BeZero(), "the source is not synced")
		close(src.synced)
		Eventually(runs.Load).ShouldNot(BeZero())
		src.err.Store(true)
		Eventually(op.Ready).Should(MatchError(ContainSubstring("wire cut")))
		Expect(stop()).To(Succeed())
		Expect(src.stopped).To(BeClosed())
	})

	It("is refused at registration if it makes no sense", func() {
		op := newOperator(framework.OperatorOptions{})
		r := &pages{}
		Expect(framework.Register(op, r, pageOptions{FieldSelector: "a b"})).To(MatchError(ContainSubstring("FieldSelector")))
		r.configMaps.FieldSelector = "a b"
		Expect(framework.Register(op, r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)})).To(MatchError(And(ContainSubstring(`secondary "configmap"`), ContainSubstring("FieldSelector"))))
		r.configMaps.FieldSelector = ""
		r.configMaps.LabelSelector = "a in"
		Expect(framework.Register(op, r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)})).To(MatchError(ContainSubstring("LabelSelector")))
		Expect(framework.Register(op, r, pageOptions{Sources: []eventsource.Source{nil}})).To(MatchError(ContainSubstring("nil")))
		var nobody *pages
		Expect(framework.Register(op, nobody, pageOptions{})).To(MatchError(ContainSubstring("nil")))
	})

	It("G19 stops at once while the API server does not answer", func() {
		op := newOperator(framework.OperatorOptions{}, func(config *restConfig) {
			config.Wrap(func(http.RoundTripper) http.RoundTripper {
				return roundTripper(func(request *http.Request) (*http.Response, error) {
					<-request.Context().Done()
					return nil, request.Context().Err()
				})
			})
		})
		Expect(framework.Register(op, &pages{}, pageOptions{})).To(Succeed())
		stop := run(op)
		stopped := make(chan error, 1)
		go func() { stopped <- stop() }()
		Eventually(stopped).WithTimeout(5 * time.Second).Should(Receive(BeNil()))
	})
})

type fakeSource struct {
	stopped, synced chan struct{}
	err             atomic.Bool
}

func (s *fakeSource) Name() string { return "fake" }
func (s *fakeSource) Start(eventsource.Sink) (func(), error) {
	return func() { close(s.stopped) }, nil
}
func (s *fakeSource) Synced() <-chan struct{} { return s.synced }
func (s *fakeSource) Err() error {
	if s.err.Load() {
		return errors.New("wire cut")
	}
	return nil
}
