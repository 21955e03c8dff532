package tracing

import (
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
)

// maxRequests is how many requests of a run have spans.
const maxRequests = 100

// ofRun is the key of a run in its context.
type ofRun struct{}

// run is the span of a run, with those of its requests until it is known whether they are exported.
type run struct {
	span trace.Span

	mu       sync.Mutex // guards the fields below; a leaf
	fate     fate
	begun    int       // requests with a span
	omitted  int       // requests without one
	answered []request // that wait for the fate
}

// fate is what becomes of the spans of a run.
type fate uint8

const (
	undecided fate = iota
	exported
	dropped
)

// request is the span of a request that was answered.
type request struct {
	span trace.Span
	at   time.Time
}

// admit reports whether the next request of the run gets headers, and whether it gets a span. What
// is not sampled has headers that say so.
func (r *run) admit() (headers, span bool) {
	sampled := r.span.SpanContext().IsSampled()
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.fate == dropped:
		return false, false
	case !sampled:
		return true, false
	case r.begun == maxRequests:
		r.omitted++
		return true, false
	}
	r.begun++
	return true, true
}

// answer ends the span of a request, at once or when the run ends.
func (r *run) answer(span trace.Span) {
	one := request{span, time.Now()}
	r.mu.Lock()
	fate := r.fate
	if fate == undecided {
		r.answered = append(r.answered, one)
	}
	r.mu.Unlock()
	if fate == exported {
		one.end()
	}
}

func (r request) end() { r.span.End(trace.WithTimestamp(r.at)) }

// drop forgets the spans of the run.
func (r *run) drop() { r.decide(dropped) }

// export ends the spans of all requests so far. It returns how many requests had none.
func (r *run) export() (omitted int) {
	answered, omitted := r.decide(exported)
	for _, one := range answered {
		one.end()
	}
	return omitted
}

func (r *run) decide(fate fate) (answered []request, omitted int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	answered, r.answered, r.fate = r.answered, nil, fate
	return answered, r.omitted
}
