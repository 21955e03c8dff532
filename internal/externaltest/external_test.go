package externaltest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/spectimes"
	"github.com/evenkeel/evenkeel/internal/testenv"
	apiclient "github.com/evenkeel/evenkeel/internal/testenv/client"
	"github.com/evenkeel/evenkeel/retry"
	v1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
	"github.com/evenkeel/evenkeel/trc"
)

var (
	env    *testenv.Env
	admin  *apiclient.Client
	scheme = runtime.NewScheme()
	ctx    = context.Background()
)

func TestExternal(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(20 * time.Second)
	SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	RunSpecs(t, "External")
}

var _ = ReportAfterEach(spectimes.Append)

var _ = BeforeSuite(func() {
	Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
	Expect(v1.AddToScheme(scheme)).To(Succeed())
	var err error
	env, err = testenv.Start(testenv.WebPageCRDs())
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() error { return env.Stop() })
	admin, err = apiclient.New(env.Config, scheme)
	Expect(err).NotTo(HaveOccurred())
})

// setup is an operator of the pages of a namespace, and the service that it publishes them with.
type setup struct {
	way       string
	namespace string
	service   *service
	hooks     atomic.Value // the URL of the operator's web hooks
	op        *framework.Operator
	stop      func()
}

func newSetup(way string) *setup {
	GinkgoHelper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "external-"}}
	Expect(admin.Create(ctx, ns)).To(Succeed())
	s := &setup{way: way, namespace: ns.Name}
	s.hooks.Store("")
	s.service = newService(func() string { return s.hooks.Load().(string) })
	DeferCleanup(s.service.close)
	return s
}

// run runs a new operator until the spec ends, or it is stopped.
func (s *setup) run() {
	GinkgoHelper()
	service := client{Client: &http.Client{Transport: &http.Transport{}}, url: s.service.URL}
	var reconciler *publisher
	var source eventsource.Source
	var err error
	hooks := http.NewServeMux()
	switch s.way {
	case "by polling":
		reconciler, source, err = byPolling(service)
	case "by polling each":
		reconciler, source, err = byPollingEach(service)
	case "by push":
		reconciler, source, err = byPush(service, hooks)
	}
	Expect(err).NotTo(HaveOccurred())
	s.op, err = framework.NewOperator(env.Config, framework.OperatorOptions{Logger: quiet, Scheme: scheme, Namespaces: []string{s.namespace}})
	Expect(err).NotTo(HaveOccurred())
	Expect(framework.Register(s.op, reconciler, framework.ControllerOptions[*v1.WebPage]{
		Sources: []eventsource.Source{source}, KeepRecords: 1000,
		Retry: retry.Policy{Initial: 50 * time.Millisecond, Max: 200 * time.Millisecond},
	})).To(Succeed())
	listener := httptest.NewServer(hooks)
	s.hooks.Store(listener.URL)
	running, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- s.op.Run(running) }()
	s.stop = sync.OnceFunc(func() {
		GinkgoHelper()
		cancel()
		Expect(<-done).To(Succeed())
		s.hooks.Store("")
		listener.Close()
	})
	DeferCleanup(s.stop)
}

func (s *setup) page(name, html string) (*v1.WebPage, trc.Key) {
	GinkgoHelper()
	page := &v1.WebPage{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}, Spec: v1.WebPageSpec{HTML: html}}
	Expect(admin.Create(ctx, page)).To(Succeed())
	return page, trc.KeyOf(page)
}

func edit(page *v1.WebPage, html string) {
	GinkgoHelper()
	Expect(admin.Patch(ctx, page, apiclient.RawPatch("application/merge-patch+json", []byte(`{"spec":{"html":"`+html+`"}}`)))).To(Succeed())
}

func url(page *v1.WebPage) func() string {
	return func() string {
		now := &v1.WebPage{}
		if err := admin.Get(ctx, apiclient.ObjectKeyFromObject(page), now); err != nil {
			return err.Error()
		}
		return now.Status.URL
	}
}

// published waits until the service has a page in this form.
func (s *setup) published(page trc.Key, html string) {
	GinkgoHelper()
	Eventually(func() string { return s.service.html(page) }).Should(Equal(html))
}

// polled waits until the service was asked some more times; with push it is not.
func (s *setup) polled() {
	GinkgoHelper()
	if s.way == "by push" {
		return
	}
	before, _ := s.service.counts()
	Eventually(func() int { gets, _ := s.service.counts(); return gets - before }).Should(BeNumerically(">", 5))
}

var _ = Describe("C104 What lies outside of the cluster", func() {
	for _, way := range []string{"by polling", "by polling each", "by push"} {
		Describe(way, func() {
			var s *setup
			BeforeEach(func() { s = newSetup(way) })

			It("is made, changed and removed with its primary, each by one write", func() {
				s.run()
				page, key := s.page("p", "one")
				Eventually(url(page)).Should(Equal("https://pages.example.com/" + key.String()))
				edit(page, "two")
				s.published(key, "two")
				s.polled()
				Expect(s.service.putsOf(key)).To(Equal(2))
				// A poll or a hook may see a write before its answer has come, which makes one run more.
				Expect(len(s.op.Records("webpage"))).To(BeNumerically("<=", 4))
				Expect(admin.Delete(ctx, page)).To(Succeed())
				s.published(key, "")
				Eventually(url(page)).Should(ContainSubstring("not found"))
			})

			It("is repaired when others change or remove it", func() {
				s.run()
				_, key := s.page("p", "one")
				_, other := s.page("other", "other")
				s.published(key, "one")
				s.published(other, "other")
				s.service.change(key, "vandalised")
				s.published(key, "one")
				s.service.lose(key)
				s.published(key, "one")
				s.polled()
				Expect(s.service.putsOf(key)).To(Equal(3))
				Expect(s.service.putsOf(other)).To(Equal(1))
			})

			for _, trouble := range []mood{down, garbled, hanging} {
				It("G15 G18 heals when the service was "+string(trouble), func() {
					s.run()
					page, key := s.page("p", "one")
					s.published(key, "one")
					s.service.be(trouble)
					edit(page, "two")
					_, late := s.page("late", "late")
					if way != "by push" { // there, only the runs fail
						Eventually(s.op.Ready).Should(MatchError(ContainSubstring(`source "records" fails: eventsource: poll "records"`)))
					}
					Eventually(func() string { return lastError(s.op, key) }).ShouldNot(BeEmpty())
					s.service.be(well)
					s.published(key, "two")
					s.published(late, "late")
					Eventually(s.op.Ready).Should(Succeed())
				})
			}

			It("is left alone by an operator that is started anew", func() {
				s.run()
				_, key := s.page("p", "one")
				_, changed := s.page("changed", "one")
				s.published(key, "one")
				s.published(changed, "one")
				s.stop()
				s.service.change(changed, "vandalised")
				s.run()
				s.published(changed, "one")
				s.polled()
				Expect(s.service.putsOf(key)).To(Equal(1))
				Expect(s.service.putsOf(changed)).To(Equal(2))
			})
		})
	}

	for _, way := range []string{"by polling", "by polling each"} {
		It("G01 is not taken back by an older answer, "+way, func() {
			s := newSetup(way)
			s.run()
			page, key := s.page("p", "one")
			s.published(key, "one")
			s.polled()
			s.service.hold()
			Eventually(func() int { _, holding := s.service.counts(); return holding }).ShouldNot(BeZero()) // one that has read "one"
			edit(page, "two")
			s.published(key, "two")
			s.service.release()
			s.polled()
			Expect(s.service.putsOf(key)).To(Equal(2), "it was written again because an older answer said so")
		})
	}
})

// lastError is how the newest run of a page failed.
func lastError(op *framework.Operator, page trc.Key) (failure string) {
	for _, record := range op.Records("webpage") {
		if record.Key == page.String() {
			failure = record.Err
		}
	}
	return failure
}
