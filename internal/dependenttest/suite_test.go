package dependenttest

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/spectimes"
	"github.com/evenkeel/evenkeel/internal/testenv"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

// garbageCollection is how long it may take: of a new kind the garbage collector learns within 30
// s.
const garbageCollection = 60 * time.Second

var (
	plane *testenv.Plane
	admin *client.Client
	ctx   = context.Background()
)

// TestDependents are specs on a whole control plane, with its controllers, its garbage collector
// and simulated nodes.
func TestDependents(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(40 * time.Second)
	SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	SetDefaultConsistentlyDuration(500 * time.Millisecond)
	RunSpecs(t, "Dependents")
}

var _ = ReportAfterEach(spectimes.Append)

var _ = BeforeSuite(func() {
	var err error
	plane, err = testenv.StartSandbox(ctx, "--nodes", "2")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(plane.Stop)
	config := rest.CopyConfig(plane.Config)
	config.QPS = -1
	admin, err = client.New(config, scheme)
	Expect(err).NotTo(HaveOccurred())
	err = testenv.InstallCRDs(plane.Config, testenv.WebPageCRDs())
	Expect(err).NotTo(HaveOccurred())
})

// install creates the objects of a manifest.
func install(manifest string) {
	GinkgoHelper()
	for _, document := range strings.Split(manifest, "\n---\n") {
		var o unstructured.Unstructured
		Expect(yaml.Unmarshal([]byte(document), &o.Object)).To(Succeed())
		Expect(admin.Create(ctx, &o)).To(Succeed(), document)
	}
}

// namespace makes a namespace for one spec.
func namespace() string {
	GinkgoHelper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "dependents-"}}
	Expect(admin.Create(ctx, ns)).To(Succeed())
	return ns.Name
}

// wrote counts the writes of an operator but events, by resource. No operator here elects a leader.
type wrote struct {
	mu    sync.Mutex // guards all
	all   []string
	stale int // patches that were refused for their version
	next  http.RoundTripper
}

func (w *wrote) RoundTrip(request *http.Request) (*http.Response, error) {
	path := request.URL.Path
	if request.Method != http.MethodGet && !strings.Contains(path, "/events") {
		w.mu.Lock()
		w.all = append(w.all, request.Method+" "+path)
		w.mu.Unlock()
	}
	answer, err := w.next.RoundTrip(request)
	if err == nil && answer.StatusCode == http.StatusConflict && request.Method == http.MethodPatch {
		w.mu.Lock()
		w.stale++
		w.mu.Unlock()
	}
	return answer, err
}

// carriedOut is the number of writes without the patches that were refused for their version, as
// somebody else, a controller of the cluster for instance, was faster.
func (w *wrote) carriedOut() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.all) - w.stale
}

func (w *wrote) writes() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.all...)
}

func (w *wrote) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all, w.stale = nil, 0
}

// rig is an operator of pages of a namespace on the control plane.
type rig struct {
	*wrote
	op   *framework.Operator
	ns   string
	stop func()
}

// operate runs an operator until the spec ends or stop is called.
func operate(ns string, r framework.Reconciler[*Page], options pageOptions) *rig {
	GinkgoHelper()
	w := &wrote{}
	config := rest.CopyConfig(plane.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { w.next = next; return w })
	op, err := framework.NewOperator(config, framework.OperatorOptions{
		Scheme: scheme, Namespaces: []string{ns}, Grace: -1,
		Logger: funcr.New(func(prefix, args string) { GinkgoWriter.Println(prefix, args) }, funcr.Options{Verbosity: 2}),
	})
	Expect(err).NotTo(HaveOccurred())
	options.KeepRecords = 1000
	Expect(framework.Register(op, r, options)).To(Succeed())
	running, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- op.Run(running) }()
	stop := sync.OnceFunc(func() { cancel(); Expect(<-done).To(Succeed()) })
	DeferCleanup(stop)
	return &rig{wrote: w, op: op, ns: ns, stop: stop}
}

// states are those of the newest pass, by node.
func (r *rig) states(page *Page) func() map[string]string {
	return func() map[string]string {
		all := map[string]string{}
		if result, ok := r.op.WorkflowResult("webpage", client.ObjectKeyFromObject(page)); ok {
			for _, n := range result.Nodes {
				all[n.Name] = n.State.String()
			}
		}
		return all
	}
}

func (r *rig) create(name, html string) *Page {
	GinkgoHelper()
	page := newPage(name, html)
	page.Namespace = r.ns
	Expect(admin.Create(ctx, page)).To(Succeed())
	return page
}

// read returns an object as it is now; its name is empty if there is none.
func read[T any, P interface {
	*T
	client.Object
}](namespace, name string,
) P {
	o := P(new(T))
	if err := admin.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, o); client.IgnoreNotFound(err) != nil {
		Fail(err.Error())
	}
	return o
}

func merge(o client.Object, patch string) {
	GinkgoHelper()
	Expect(admin.Patch(ctx, o, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
}
