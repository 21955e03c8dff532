package gaps

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/evenkeel/evenkeel/benchmarks/wire"
	"github.com/evenkeel/evenkeel/framework"
	v1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

const (
	// patience is for what must come to pass.
	patience = time.Minute
	// blocked is what a read gets that will not return: it would do so within milliseconds.
	blocked = time.Second
)

// requests are those of one client, as "VERB path".
type requests struct {
	mu  sync.Mutex // guards all; a leaf
	all []string
}

func (r *requests) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		verb := request.Method
		if request.URL.Query().Get("watch") != "" {
			verb = "WATCH"
		}
		r.mu.Lock()
		r.all = append(r.all, verb+" "+request.URL.Path)
		r.mu.Unlock()
		return next.RoundTrip(request)
	})
}

// of returns the requests of a verb for a resource or one of its objects.
func (r *requests) of(verb, resource string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []string
	for _, request := range r.all {
		if strings.HasPrefix(request, verb+" ") && strings.Contains(request+"/", "/"+resource+"/") {
			found = append(found, request)
		}
	}
	return found
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// stalled makes watches whose path ends so deliver their first list and nothing after it.
func stalled(pathEnd string) func(*rest.Config) {
	return func(config *rest.Config) {
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			late := wire.Lag(24 * time.Hour).Wrap(next)
			return roundTripper(func(request *http.Request) (*http.Response, error) {
				if strings.HasSuffix(request.URL.Path, pathEnd) {
					return late.RoundTrip(request)
				}
				return next.RoundTrip(request)
			})
		})
	}
}

func configOf(change []func(*rest.Config)) (*rest.Config, *requests) {
	config, sent := rest.CopyConfig(server), &requests{}
	for _, f := range change {
		f(config)
	}
	config.Wrap(sent.wrap)
	return config, sent
}

// peerClient returns controller-runtime's client with its cache of ConfigMaps filled.
func peerClient(t *testing.T, readYourWrites bool, of cache.Options, change ...func(*rest.Config)) (client.Client, *requests) {
	t.Helper()
	config, sent := configOf(change)
	c, err := cluster.New(config, func(o *cluster.Options) {
		o.Scheme, o.Cache = scheme, of
		o.Client.Cache = &client.CacheOptions{EnableReadYourWritesConsistency: &readYourWrites}
	})
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	filling, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err = c.GetCache().GetInformer(filling, &corev1.ConfigMap{})
	must(t, err)
	return c.GetClient(), sent
}

// author is the code of a test within a run of this framework.
type author struct {
	configMaps framework.Secondary[*corev1.ConfigMap]
	code       func(ctx context.Context, c *framework.Context[*v1.WebPage], configMaps *framework.Secondary[*corev1.ConfigMap]) error
	once       sync.Once
	result     chan error
}

func (a *author) Reconcile(ctx context.Context, _ *v1.WebPage, c *framework.Context[*v1.WebPage]) (framework.UpdateControl[*v1.WebPage], error) {
	a.once.Do(func() { a.result <- a.code(ctx, c, &a.configMaps) })
	return framework.NoUpdate[*v1.WebPage](), nil
}

// inOurRun runs code once in a run of this framework, for a page in the first of the namespaces,
// and returns the requests that were sent until the operator had stopped.
func inOurRun(t *testing.T, a *author, namespaces []string, change ...func(*rest.Config)) *requests {
	t.Helper()
	config, sent := configOf(change)
	op, err := framework.NewOperator(config, framework.OperatorOptions{Scheme: scheme, Logger: logr.Discard(), Namespaces: namespaces})
	must(t, err)
	a.result = make(chan error, 1)
	must(t, framework.Register(op, a, framework.ControllerOptions[*v1.WebPage]{
		Secondaries: framework.Secondaries(&a.configMaps), RunTimeout: patience,
	}))
	page := &v1.WebPage{ObjectMeta: metav1.ObjectMeta{Namespace: namespaces[0], Name: "page"}, Spec: v1.WebPageSpec{HTML: "<html/>"}}
	must(t, admin.Create(t.Context(), page))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- op.Run(ctx) }()
	select {
	case err := <-a.result:
		if err != nil {
			t.Error(err)
		}
	case err := <-ended:
		t.Fatalf("the operator ended: %v", err)
	case <-time.After(2 * patience):
		t.Fatal("the run hangs")
	}
	stop()
	must(t, <-ended)
	return sent
}

func namespace(t *testing.T) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "gaps-"}}
	must(t, admin.Create(t.Context(), ns))
	return ns.Name
}

func configMap(namespace, name string, labels map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
