package tracing_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/tracing"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	v1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

type (
	page        = v1.WebPage
	pageContext = framework.Context[*page]
	pageUpdate  = framework.UpdateControl[*page]
	pageOptions = framework.ControllerOptions[*page]
)

// author is a reconciler of pages.
type author struct {
	secrets   framework.Secondary[*corev1.Secret]
	reconcile func(ctx context.Context, p *page, c *pageContext) (pageUpdate, error)
}

func (a *author) Reconcile(ctx context.Context, p *page, c *pageContext) (pageUpdate, error) {
	return a.reconcile(ctx, p, c)
}

func (a *author) reads() []framework.SecondarySource { return framework.Secondaries(&a.secrets) }

// secret is an object that an author writes for a page.
func secret(p *page, suffix string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name + suffix},
		StringData: map[string]string{"html": p.Spec.HTML},
	}
}

// writer has an author who writes a Secret and the status.
func writer() *author {
	a := &author{}
	a.reconcile = func(ctx context.Context, p *page, c *pageContext) (pageUpdate, error) {
		if _, err := framework.Apply(ctx, c, secret(p, ""), framework.OwnedByPrimary()); err != nil {
			return pageUpdate{}, err
		}
		p.Status.ObservedGeneration = p.Generation
		return framework.PatchStatus(p), nil
	}
	return a
}

// sent is a request of the operator, as the server got it.
type sent struct {
	method, path, traceparent string
	watches                   bool
}

// world is an operator with traces against a model of the API server, in a bubble of virtual time.
type world struct {
	*testing.T
	model    *apimodel.Model
	op       *framework.Operator
	traces   *tracing.Traces
	pages    dynamic.ResourceInterface
	exporter *tracetest.InMemoryExporter
	provider *sdktrace.TracerProvider

	mu   sync.Mutex // guards below
	sent []sent
}

// setting is what tests change.
type setting struct {
	tracing  tracing.Options
	operator framework.OperatorOptions
	pages    pageOptions
	sampler  sdktrace.Sampler // default: all
}

// operated is an author, or one with more abilities.
type operated interface {
	framework.Reconciler[*page]
	reads() []framework.SecondarySource
}

func inWorld(t *testing.T, a operated, s setting, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, model: newModel(t), exporter: tracetest.NewInMemoryExporter()}
		if s.sampler == nil {
			s.sampler = sdktrace.AlwaysSample()
		}
		w.provider = sdktrace.NewTracerProvider(sdktrace.WithSyncer(w.exporter), sdktrace.WithSampler(s.sampler))
		s.tracing.TracerProvider = w.provider
		w.traces = tracing.New(s.tracing)
		w.pages = admin(t, w.model)
		config := w.model.Config()
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				w.mu.Lock()
				w.sent = append(w.sent, sent{r.Method, r.URL.Path, r.Header.Get("Traceparent"), r.URL.Query().Has("watch")})
				w.mu.Unlock()
				return next.RoundTrip(r)
			})
		})
		s.operator.Observers = append(s.operator.Observers, w.traces)
		s.operator.Scheme, s.operator.Grace = scheme(t), -1
		if s.operator.Logger == nil {
			s.operator.Logger = logr.Discard()
		}
		var err error
		w.op, err = framework.NewOperator(config, s.operator)
		noError(t, err)
		s.pages.Secondaries = a.reads()
		noError(t, framework.Register(w.op, a, s.pages))
		running, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.op.Run(running) }()
		synctest.Wait()
		test(w)
		stop()
		noError(t, <-done)
		if n := w.traces.Running(); n != 0 {
			t.Errorf("%d runs are remembered after all have ended", n)
		}
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func newModel(t testing.TB) *apimodel.Model {
	t.Helper()
	kinds, err := apimodel.CustomResources("../../samples/webpage/config/crd/bases")
	noError(t, err)
	model, err := apimodel.New(apimodel.Options{Kinds: kinds})
	noError(t, err)
	return model
}

func scheme(t testing.TB) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	noError(t, clientgoscheme.AddToScheme(s))
	noError(t, v1.AddToScheme(s))
	return s
}

func admin(t testing.TB, model *apimodel.Model) dynamic.ResourceInterface {
	t.Helper()
	client, err := dynamic.NewForConfig(model.Config())
	noError(t, err)
	return client.Resource(v1.GroupVersion.WithResource("webpages")).Namespace("default")
}

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newPage returns a page for a dynamic client.
func newPage(name, html string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"html": html}}}
	o.SetGroupVersionKind(v1.GroupVersion.WithKind("WebPage"))
	o.SetName(name)
	return o
}

// create makes a page, and lets all runs happen that follow within a minute.
func (w *world) create(name string) {
	w.Helper()
	_, err := w.pages.Create(w.Context(), newPage(name, "<p>"), metav1.CreateOptions{})
	noError(w, err)
	w.pass()
}

// trigger asks for a run.
func (w *world) trigger(name string) {
	w.Helper()
	noError(w, w.op.Trigger("webpage", types.NamespacedName{Namespace: "default", Name: name}, "test"))
	w.pass()
}

func (w *world) pass() {
	time.Sleep(time.Minute) // of virtual time
	synctest.Wait()
}

// take returns the spans that were exported since it was called last, by their names' beginning, and
// the requests that the server got.
func (w *world) take() (spans spans, requests []sent) {
	spans.all = w.exporter.GetSpans()
	w.exporter.Reset()
	w.mu.Lock()
	defer w.mu.Unlock()
	requests, w.sent = w.sent, nil
	return spans, requests
}

type spans struct{ all tracetest.SpanStubs }

// runs returns the spans of runs.
func (s spans) runs() (runs []tracetest.SpanStub) {
	for _, one := range s.all {
		if strings.HasPrefix(one.Name, "reconcile ") && !one.Parent.IsValid() {
			runs = append(runs, one)
		}
	}
	return runs
}

// run returns the span of the only run.
func (s spans) run(t *testing.T) tracetest.SpanStub {
	t.Helper()
	runs := s.runs()
	if len(runs) != 1 {
		t.Fatalf("%d runs were exported, want one", len(runs))
	}
	return runs[0]
}

// requests returns the spans of requests.
func (s spans) requests() (requests []tracetest.SpanStub) {
	for _, one := range s.all {
		if one.SpanKind == trace.SpanKindClient {
			requests = append(requests, one)
		}
	}
	return requests
}

// parents returns the traceparent headers that would be sent with spans.
func parents(of []tracetest.SpanStub) map[string]bool {
	all := map[string]bool{}
	for _, one := range of {
		all[header(one)] = true
	}
	return all
}

// header returns the traceparent of a sampled span.
func header(of tracetest.SpanStub) string {
	return "00-" + of.SpanContext.TraceID().String() + "-" + of.SpanContext.SpanID().String() + "-01"
}

// attributes returns the attributes of a span as texts.
func attributes(of tracetest.SpanStub) map[attribute.Key]string {
	all := map[attribute.Key]string{}
	for _, one := range of.Attributes {
		all[one.Key] = one.Value.String()
	}
	return all
}

// observe gives a world traces without an operator.
func (w *world) observe() {
	w.exporter = tracetest.NewInMemoryExporter()
	w.provider = sdktrace.NewTracerProvider(sdktrace.WithSyncer(w.exporter))
	w.traces = tracing.New(tracing.Options{TracerProvider: w.provider})
}

// send sends a request with a context, and returns its header. before is called before the answer.
func (w *world) send(ctx context.Context, before func()) (traceparent string) {
	w.Helper()
	next := roundTripper(func(r *http.Request) (*http.Response, error) {
		traceparent = r.Header.Get("Traceparent")
		before()
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
	})
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://server/api/v1/namespaces/a", nil)
	noError(w, err)
	response, err := w.traces.WrapTransport(next).RoundTrip(request)
	noError(w, err)
	noError(w, response.Body.Close())
	return traceparent
}
