package tracing_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace/noop"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/observe"
	"github.com/evenkeel/evenkeel/framework/tracing"
	"github.com/evenkeel/evenkeel/timeline"
)

// With the API's own provider, which makes no spans, a run that does nothing costs next to nothing,
// and its context stays what it was.
func TestWithoutAnSDKARunAllocatesItsNameOnly(t *testing.T) {
	traces, key := tracing.New(tracing.Options{TracerProvider: noop.NewTracerProvider()}), types.NamespacedName{Name: "hello"}
	record, ctx := timeline.Record{ID: "1"}, t.Context()
	if got, values := traces.RunBegins(ctx, "webpage", key, "1"); got != ctx || values != nil {
		t.Errorf("the run gets the context %v and the values %v", got, values)
	}
	// The name of the span, the configuration and the context of the provider.
	if n := testing.AllocsPerRun(100, func() {
		_, _ = traces.RunBegins(ctx, "webpage", key, "1")
		traces.RunEnded("webpage", key, record)
	}); n > 3 {
		t.Errorf("%v allocations for a run, want at most 3", n)
	}
}

// BenchmarkRuns is a run that does nothing, from an event to its end, through a whole operator.
func BenchmarkRuns(b *testing.B) {
	provider := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.AlwaysSample()))
	unsampled := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()))
	for _, c := range []struct {
		name      string
		observers []observe.Observer
	}{
		{"off", nil},
		{"no-op", []observe.Observer{tracing.New(tracing.Options{TracerProvider: noop.NewTracerProvider()})}},
		{"unsampled", []observe.Observer{tracing.New(tracing.Options{TracerProvider: unsampled})}},
		{"sampled", []observe.Observer{tracing.New(tracing.Options{TracerProvider: provider})}},
		{"every-run", []observe.Observer{tracing.New(tracing.Options{TracerProvider: provider, EveryRun: true})}},
	} {
		b.Run(c.name, func(b *testing.B) {
			round, stop := rounds(b, c.observers)
			defer stop()
			b.ReportAllocs()
			for b.Loop() {
				round()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*batch), "ns/run")
		})
	}
}

// batch is how many runs a round of the benchmark has.
const batch = 100

// rounds runs an operator. A round is a run of each of its pages.
func rounds(b *testing.B, observers []observe.Observer) (round, stop func()) {
	model := newModel(b)
	pages := admin(b, model)
	for i := range batch {
		_, err := pages.Create(b.Context(), newPage(fmt.Sprint("p-", i), "<p>"), metav1.CreateOptions{})
		noError(b, err)
	}
	var left sync.WaitGroup
	left.Add(batch)
	a := &author{reconcile: func(context.Context, *page, *pageContext) (pageUpdate, error) {
		left.Done()
		return pageUpdate{}, nil
	}}
	op, err := framework.NewOperator(model.Config(), framework.OperatorOptions{Scheme: scheme(b), Logger: logr.Discard(), Observers: observers})
	noError(b, err)
	noError(b, framework.Register(op, a, pageOptions{MaxInterval: time.Hour}))
	running, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- op.Run(running) }()
	left.Wait()
	return func() {
		left.Add(batch)
		for i := range batch {
			noError(b, op.Trigger("webpage", types.NamespacedName{Namespace: "default", Name: fmt.Sprint("p-", i)}, "benchmark"))
		}
		left.Wait()
	}, func() { cancel(); noError(b, <-done) }
}
