package tracing

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework/observe"
	"github.com/evenkeel/evenkeel/timeline"
)

// scope is the instrumentation scope of all spans.
const scope = "github.com/evenkeel/evenkeel/framework/tracing"

// Options are the options of [New].
type Options struct {
	// TracerProvider makes the spans. Default: the global one, also if it is set after [New].
	TracerProvider trace.TracerProvider
	// Propagator adds headers to the requests of runs. Default: that of W3C, propagation.TraceContext,
	// so no baggage is sent.
	Propagator propagation.TextMapPropagator
	// EveryRun is set to also export runs that neither wrote nor failed. Most runs are such.
	EveryRun bool
	// OmitTexts is set to leave out the texts of errors and reasons. Error statuses stay.
	OmitTexts bool
}

// Traces are the traces of one operator: an [observe.RunObserver] and an
// [observe.TransportObserver].
type Traces struct {
	options Options
	tracer  trace.Tracer

	mu      sync.Mutex         // guards running; a leaf
	running map[ofPrimary]*run // a primary has one run at a time
}

var _ interface {
	observe.RunObserver
	observe.TransportObserver
} = (*Traces)(nil)

type ofPrimary struct {
	controller string
	primary    types.NamespacedName
}

// New returns traces for the Observers of an operator's options.
func New(options Options) *Traces {
	if options.TracerProvider == nil {
		options.TracerProvider = otel.GetTracerProvider()
	}
	if options.Propagator == nil {
		options.Propagator = propagation.TraceContext{}
	}
	return &Traces{
		options: options, tracer: options.TracerProvider.Tracer(scope), running: map[ofPrimary]*run{},
	}
}

// newRoot is made once, as most runs need nothing else.
var newRoot = []trace.SpanStartOption{trace.WithNewRoot()}

// RunBegins starts the span of a run. It returns a context with it, and the values trace_id and
// span_id if the run is sampled.
func (t *Traces) RunBegins(ctx context.Context, controller string, primary types.NamespacedName, _ string) (context.Context, []any) {
	started, span := t.tracer.Start(ctx, nameOfRun(controller), newRoot...)
	in := span.SpanContext()
	if !in.IsValid() { // there is no SDK
		return ctx, nil
	}
	r := &run{span: span}
	t.mu.Lock()
	t.running[ofPrimary{controller, primary}] = r
	t.mu.Unlock()
	var values []any
	if in.IsSampled() {
		values = []any{"trace_id", in.TraceID().String(), "span_id", in.SpanID().String()}
	}
	return context.WithValue(started, ofRun{}, r), values
}

// RunEnded exports the spans of a run that wrote or failed, and drops those of others.
func (t *Traces) RunEnded(controller string, primary types.NamespacedName, record timeline.Record) {
	r, ended := t.take(ofPrimary{controller, primary}), time.Now()
	if !t.isShown(record, r != nil) {
		if r != nil {
			r.drop()
		}
		return
	}
	if r == nil { // it never began, but wrote
		_, span := t.tracer.Start(context.Background(), nameOfRun(controller), trace.WithNewRoot(), trace.WithTimestamp(record.Started))
		r = &run{span: span}
	}
	omitted := r.export()
	if !r.span.IsRecording() {
		return
	}
	in := trace.ContextWithSpan(context.Background(), r.span)
	for _, n := range record.Nodes {
		t.node(in, n, record.Excused, ended)
	}
	t.describe(r.span, controller, primary, record)
	if omitted > 0 {
		r.span.SetAttributes(requestsOmitted.Int(omitted))
	}
	r.span.End(trace.WithTimestamp(ended))
}

// isShown reports whether a run gets a span.
func (t *Traces) isShown(record timeline.Record, began bool) bool {
	return len(record.Requests) > 0 || record.Outcome == timeline.Failed || record.Outcome == timeline.Panicked ||
		t.options.EveryRun && began
}

// take returns the run of a primary and forgets it, nil if none has begun.
func (t *Traces) take(of ofPrimary) *run {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.running[of]
	delete(t.running, of)
	return r
}
