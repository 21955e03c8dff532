package conditionstest

import (
	"context"
	"io"
	"net/http"
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
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/conditions"
	"github.com/evenkeel/evenkeel/framework/workflow"
	"github.com/evenkeel/evenkeel/internal/spectimes"
	"github.com/evenkeel/evenkeel/internal/testenv"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
	v1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

type (
	page        = v1.WebPage
	pageContext = framework.Context[*page]
	pageUpdate  = framework.UpdateControl[*page]
	pageOptions = framework.ControllerOptions[*page]
	pageNode    = framework.Node[*page]
	step        = func(context.Context, *pageContext) error
)

var (
	ctx    = context.Background()
	scheme = runtime.NewScheme()
	plane  *testenv.Plane
	admin  *client.Client
)

func TestConditions(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(40 * time.Second)
	SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	SetDefaultConsistentlyDuration(500 * time.Millisecond)
	RunSpecs(t, "Conditions")
}

var _ = ReportAfterEach(spectimes.Append)

var _ = BeforeSuite(func() {
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1.AddToScheme} {
		Expect(add(scheme)).To(Succeed())
	}
	var err error
	plane, err = testenv.StartSandbox(ctx, "--nodes", "1")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() error { return plane.Stop() })
	config := rest.CopyConfig(plane.Config)
	config.QPS = -1
	admin, err = client.New(config, scheme)
	Expect(err).NotTo(HaveOccurred())
	err = testenv.InstallCRDs(plane.Config, testenv.WebPageCRDs())
	Expect(err).NotTo(HaveOccurred())
})

// watching is a reconciler of pages that does nothing but say how far their workflow is.
type watching struct{ passes atomic.Int32 }

func (w *watching) Reconcile(_ context.Context, p *page, c *pageContext) (pageUpdate, error) {
	w.passes.Add(1)
	conditions.MarkWorkflow(&p.Status.Conditions, p.Generation, c.WorkflowResult())
	return framework.PatchStatus(p), nil
}

// operate runs a workflow of pages of a namespace of its own.
func operate(ns string, secondaries []framework.SecondarySource, nodes []pageNode, change ...func(*rest.Config)) (*framework.Operator, *watching) {
	GinkgoHelper()
	config := rest.CopyConfig(plane.Config)
	for _, f := range change {
		f(config)
	}
	op, err := framework.NewOperator(config, framework.OperatorOptions{
		Scheme: scheme, Namespaces: []string{ns}, Grace: -1,
		Logger: funcr.New(func(prefix, args string) { GinkgoWriter.Println(prefix, args) }, funcr.Options{Verbosity: 2}),
	})
	Expect(err).NotTo(HaveOccurred())
	w := &watching{}
	var flow framework.Workflow[*page]
	for _, n := range nodes {
		flow.Dependents = append(flow.Dependents, n)
	}
	Expect(framework.Register(op, w, pageOptions{Workflow: flow, Secondaries: secondaries, KeepRecords: 1000})).To(Succeed())
	running, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- op.Run(running) }()
	DeferCleanup(func() { cancel(); Expect(<-done).To(Succeed()) })
	return op, w
}

func namespace() string {
	GinkgoHelper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "conditions-"}}
	Expect(admin.Create(ctx, ns)).To(Succeed())
	return ns.Name
}

func create[T client.Object](o T) T {
	GinkgoHelper()
	Expect(admin.Create(ctx, o)).To(Succeed())
	return o
}

func newPage(ns, name string) *page {
	return create(&page{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Spec: v1.WebPageSpec{HTML: "<html/>"}})
}

// condition returns "STATUS: message" of a condition of a page.
func condition(p *page, kind string) func() string {
	return func() string {
		now := &page{}
		Expect(client.IgnoreNotFound(admin.Get(ctx, client.ObjectKeyFromObject(p), now))).To(Succeed())
		for _, c := range now.Status.Conditions {
			if c.Type == kind {
				return string(c.Status) + ": " + c.Message
			}
		}
		return "none"
	}
}

// ready is a typed condition as that of a node.
func met[S framework.Object](of *framework.Secondary[S], says func(S) workflow.Verdict) workflow.Condition[*pageContext] {
	return func(_ context.Context, c *pageContext) (workflow.Verdict, error) {
		live, err := of.Get(c)
		return says(live), err
	}
}

// counted counts the requests of which the path holds a text, and tells of each what is asked.
type counted struct {
	of    string
	mu    sync.Mutex
	asked []string
	fails atomic.Bool // with "forbidden"
}

func (c *counted) wrap(config *rest.Config) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			if strings.Contains(request.URL.Path, c.of) {
				c.mu.Lock()
				c.asked = append(c.asked, request.Method+" "+request.URL.RequestURI())
				c.mu.Unlock()
				if c.fails.Load() {
					return &http.Response{
						StatusCode: http.StatusForbidden, Header: http.Header{"Content-Type": {"application/json"}}, Request: request,
						Body: io.NopCloser(strings.NewReader(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"it is forbidden","reason":"Forbidden","code":403}`)),
					}, nil
				}
			}
			return next.RoundTrip(request)
		})
	})
}

func (c *counted) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.asked...)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }
