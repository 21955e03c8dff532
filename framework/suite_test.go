package framework_test

import (
	"context"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/spectimes"
	"github.com/evenkeel/evenkeel/internal/testenv"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
	prefixedpodv1 "github.com/evenkeel/evenkeel/samples/prefixedpod/api/v1"
	webpagev1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
	"github.com/evenkeel/evenkeel/timeline"
)

// The suite borrows the samples' kinds as primaries: one with a status that holds conditions, one
// with a status of one string.
type (
	Page        = webpagev1.WebPage
	pageContext = framework.Context[*Page]
	pageUpdate  = framework.UpdateControl[*Page]
	pageOptions = framework.ControllerOptions[*Page]
)

var (
	env    *testenv.Env
	admin  *client.Client
	scheme = newScheme()
	ctx    = context.Background()
)

func TestFramework(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(20 * time.Second)
	SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	SetDefaultConsistentlyDuration(400 * time.Millisecond)
	RunSpecs(t, "Framework")
}

var _ = ReportAfterEach(spectimes.Append)

var _ = BeforeSuite(func() {
	var err error
	env, err = testenv.Start(testenv.WebPageCRDs(), filepath.Join(testenv.Root(), "samples", "prefixedpod", "config", "crd", "bases"))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() error { return env.Stop() })
	config := rest.CopyConfig(env.Config)
	config.QPS = -1
	admin, err = client.New(config, scheme)
	Expect(err).NotTo(HaveOccurred())
})

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, webpagev1.AddToScheme, prefixedpodv1.AddToScheme, addTools} {
		utilruntime.Must(add(scheme))
	}
	return scheme
}

// pages is a reconciler made of functions.
type pages struct {
	configMaps framework.Secondary[*corev1.ConfigMap]
	reconcile  func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error)
}

func (r *pages) Reconcile(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
	return r.reconcile(ctx, page, c)
}

// inFirstRun makes it do something in the first of its runs only, which are counted.
func (r *pages) inFirstRun(f func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error)) (ran *atomic.Int32) {
	ran = &atomic.Int32{}
	r.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
		if ran.Add(1) > 1 {
			return pageUpdate{}, nil
		}
		return f(ctx, page, c)
	}
	return ran
}

// cleaningPages is one that is a Cleaner too.
type cleaningPages struct {
	pages
	cleanup func(ctx context.Context, page *Page, c *pageContext) (framework.DeleteControl, error)
}

func (r *cleaningPages) Cleanup(ctx context.Context, page *Page, c *pageContext) (framework.DeleteControl, error) {
	return r.cleanup(ctx, page, c)
}

// failingPages is one that shows its failures.
type failingPages struct {
	pages
	errorStatus func(page *Page, c *pageContext, failure error) framework.ErrorStatusControl[*Page]
}

func (r *failingPages) ErrorStatus(_ context.Context, page *Page, c *pageContext, failure error) framework.ErrorStatusControl[*Page] {
	return r.errorStatus(page, c, failure)
}

func namespace() string {
	GinkgoHelper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "framework-"}}
	Expect(admin.Create(ctx, ns)).To(Succeed())
	return ns.Name
}

func newOperator(options framework.OperatorOptions, change ...func(*rest.Config)) *framework.Operator {
	GinkgoHelper()
	config := rest.CopyConfig(env.Config)
	for _, f := range change {
		f(config)
	}
	options.Scheme = scheme
	options.Logger = funcr.New(func(prefix, args string) { GinkgoWriter.Println(prefix, args) }, funcr.Options{Verbosity: 2})
	op, err := framework.NewOperator(config, options)
	Expect(err).NotTo(HaveOccurred())
	return op
}

// run runs an operator until the spec ends or stop is called.
func run(op *framework.Operator) (stop func() error) {
	running, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- op.Run(running) }()
	stop = sync.OnceValue(func() error { cancel(); return <-done })
	DeferCleanup(stop)
	return stop
}

// operate registers one reconciler of pages of a namespace and runs it.
func operate(ns string, r framework.Reconciler[*Page], options pageOptions, change ...func(*rest.Config)) (*framework.Operator, func() error) {
	GinkgoHelper()
	op := newOperator(framework.OperatorOptions{Namespaces: []string{ns}}, change...)
	options.KeepRecords = 1000
	Expect(framework.Register(op, r, options)).To(Succeed())
	return op, run(op)
}

func newPage(ns, name string) *Page {
	return &Page{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Spec: webpagev1.WebPageSpec{HTML: "<html/>"}}
}

func create[T client.Object](o T) T {
	GinkgoHelper()
	Expect(admin.Create(ctx, o)).To(Succeed())
	return o
}

// read returns the object as it is now; its name is empty if there is none.
func read[T any, P interface {
	*T
	client.Object
}](o P,
) P {
	now := P(new(T))
	if err := admin.Get(ctx, client.ObjectKeyFromObject(o), now); client.IgnoreNotFound(err) != nil {
		Fail(err.Error())
	}
	return now
}

// change updates an object as another client would.
func change[T any, P interface {
	*T
	client.Object
}](o P, f func(P),
) {
	GinkgoHelper()
	Eventually(func() error {
		now := read(o)
		f(now)
		return admin.Update(ctx, now)
	}).Should(Succeed())
}

// requests returns the write requests of every run of a page, run by run.
func requests(op *framework.Operator, page *Page) [][]string {
	var all [][]string
	for _, record := range records(op, page) {
		all = append(all, texts(record))
	}
	return all
}

// texts are the requests of a run, without what they proved.
func texts(record timeline.Record) []string {
	var all []string
	for _, request := range record.Requests {
		all = append(all, request.Text)
	}
	return all
}

func records(op *framework.Operator, page *Page) []timeline.Record {
	var own []timeline.Record
	for _, record := range op.Records("webpage") {
		if record.Key == page.Namespace+"/"+page.Name {
			own = append(own, record)
		}
	}
	return own
}

func configMapOf(page *Page, data string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: page.Namespace, Name: page.Name},
		Data:       map[string]string{"data": data},
	}
}

// stall holds back what watches of a resource deliver after their first list, until it is closed.
type stall struct {
	resource string
	released chan struct{}
}

func newStall(resource string) *stall {
	s := &stall{resource: resource, released: make(chan struct{})}
	DeferCleanup(s.release)
	return s
}

func (s *stall) release() {
	select {
	case <-s.released:
	default:
		close(s.released)
	}
}

func (s *stall) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(request)
		if err == nil && strings.HasSuffix(request.URL.Path, "/"+s.resource) && request.URL.Query().Get("watch") == "true" {
			response.Body = &stalledBody{ReadCloser: response.Body, stall: s}
		}
		return response, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// stalledBody lets the first list pass, which arrives without delay, and then nothing.
type stalledBody struct {
	io.ReadCloser
	stall *stall
	seen  []byte
}

func (b *stalledBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	// The first list ends with a bookmark that carries this annotation, in JSON and protobuf alike.
	if listed := strings.Contains(string(b.seen), metav1.InitialEventsAnnotationKey); listed {
		<-b.stall.released
	} else {
		b.seen = append(b.seen, p[:n]...)
	}
	return n, err
}

// holdAll holds back every byte of the watches.
func (s *stall) holdAll(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if strings.HasSuffix(request.URL.Path, "/"+s.resource) {
			select {
			case <-s.released:
			case <-request.Context().Done():
				return nil, request.Context().Err()
			}
		}
		return next.RoundTrip(request)
	})
}

type (
	restConfig         = rest.Config
	unstructuredObject = unstructured.Unstructured
)

// unserved reconciles a kind that no API server has.
type unserved struct{}

func (unserved) Reconcile(context.Context, *unstructuredObject, *framework.Context[*unstructuredObject]) (framework.UpdateControl[*unstructuredObject], error) {
	return framework.UpdateControl[*unstructuredObject]{}, nil
}
