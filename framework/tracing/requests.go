package tracing

import (
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// WrapTransport returns a transport that gives requests of runs a span and a header.
func (t *Traces) WrapTransport(next http.RoundTripper) http.RoundTripper { return transport{t, next} }

type transport struct {
	traces *Traces
	next   http.RoundTripper
}

// RoundTrip sends a request.
func (t transport) RoundTrip(sent *http.Request) (*http.Response, error) {
	r, _ := sent.Context().Value(ofRun{}).(*run)
	if r == nil {
		return t.next.RoundTrip(sent)
	}
	headers, hasSpan := r.admit()
	if !headers {
		return t.next.RoundTrip(sent)
	}
	if !hasSpan {
		return t.next.RoundTrip(t.withHeaders(sent))
	}
	about := targetOf(sent.URL.Path)
	ctx, span := t.traces.tracer.Start(sent.Context(), about.spanName(sent.Method), trace.WithSpanKind(trace.SpanKindClient))
	response, err := t.next.RoundTrip(t.withHeaders(sent.WithContext(ctx)))
	if span.IsRecording() {
		span.SetAttributes(attribute.String("http.request.method", sent.Method), attribute.String("server.address", sent.URL.Hostname()))
		span.SetAttributes(about.attributes()...)
		t.traces.outcome(span, response, err)
	}
	r.answer(span)
	return response, err
}

// WrappedRoundTripper returns the transport that sends the requests. client-go uses it to find the
// one that can close idle connections and cancel requests.
func (t transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// withHeaders returns a copy of a request with the headers of its context.
func (t transport) withHeaders(sent *http.Request) *http.Request {
	sent = sent.Clone(sent.Context())
	if sent.Header == nil {
		sent.Header = http.Header{}
	}
	t.traces.options.Propagator.Inject(sent.Context(), propagation.HeaderCarrier(sent.Header))
	return sent
}

// outcome says how a request ended.
func (t *Traces) outcome(span trace.Span, response *http.Response, err error) {
	switch {
	case err != nil:
		span.SetStatus(codes.Error, t.text(err.Error()))
		return
	case response.StatusCode >= http.StatusInternalServerError:
		span.SetStatus(codes.Error, "")
	}
	span.SetAttributes(attribute.Int("http.response.status_code", response.StatusCode))
}

// target is what a request to an API server is about, as far as its path says.
type target struct{ group, resource, subresource, namespace, name string }

// targetOf reads a path. Something may be before "api" or "apis", as with the proxies of clusters.
// The rules are those of the API server's RequestInfoFactory.
func targetOf(path string) (t target) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	for len(parts) > 0 && parts[0] != "api" && parts[0] != "apis" {
		parts = parts[1:]
	}
	if len(parts) > 0 && parts[0] == "apis" && len(parts) > 1 {
		t.group, parts = parts[1], parts[1:]
	}
	if len(parts) < 3 { // the version, or less
		return t
	}
	parts = parts[2:]
	if len(parts) > 2 && parts[0] == "namespaces" && parts[2] != "status" && parts[2] != "finalize" {
		t.namespace, parts = parts[1], parts[2:]
	}
	for i, field := range []*string{&t.resource, &t.name, &t.subresource} {
		if i < len(parts) {
			*field = parts[i]
		}
	}
	return t
}

// spanName has no names of objects, so there are few.
func (t target) spanName(method string) string {
	name := method
	if t.resource != "" {
		name += " " + t.resource
	}
	if t.subresource != "" {
		name += "/" + t.subresource
	}
	return bounded(name)
}

func (t target) attributes() []attribute.KeyValue {
	return given(
		attribute.String("group", t.group), attribute.String("resource", t.resource), attribute.String("subresource", t.subresource),
		namespace.String(t.namespace), name.String(t.name),
	)
}
