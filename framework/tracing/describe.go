package tracing

import (
	"context"
	"fmt"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/timeline"
)

const (
	maxCauses = 10   // causes of a run that are written out
	maxText   = 1024 // bytes of a text
)

// Keys of attributes that several places use.
const (
	namespace       = attribute.Key("namespace")
	name            = attribute.Key("name")
	requestsOmitted = attribute.Key("requests_omitted")
)

func nameOfRun(controller string) string { return "reconcile " + controller }

// describe says in a span what a run did.
func (t *Traces) describe(span trace.Span, controller string, primary types.NamespacedName, r timeline.Record) {
	span.SetAttributes(given(
		attribute.String("controller", controller), namespace.String(primary.Namespace), name.String(primary.Name),
		attribute.String("reconcileID", r.ID), attribute.String("outcome", r.Outcome.String()), attribute.String("gate", r.Gate.String()),
	)...)
	span.SetAttributes(
		attribute.StringSlice("causes", causesOf(r)), attribute.Int("attempt", r.Attempt),
		attribute.Float64("waited", r.Waited.Seconds()), attribute.Int("writes", len(r.Requests)),
	)
	if r.Outcome == timeline.Failed || r.Outcome == timeline.Panicked {
		t.fail(span, r.Err, r.Excused)
	}
}

// node makes the span of a node.
func (t *Traces) node(run context.Context, n timeline.Node, excused bool, runEnded time.Time) {
	from, to := n.Started, n.Started.Add(n.Duration)
	if n.Started.IsZero() { // no function was called
		from, to = runEnded, runEnded
	}
	_, span := t.tracer.Start(run, bounded(n.Pass+" node "+n.Name), trace.WithTimestamp(from))
	span.SetAttributes(given(
		attribute.String("node", n.Name), attribute.String("pass", n.Pass), attribute.String("state", n.State),
		attribute.String("because", n.Because), attribute.String("reason", t.text(n.Reason)),
	)...)
	if n.Err != "" {
		t.fail(span, n.Err, excused)
	}
	span.End(trace.WithTimestamp(to))
}

// fail gives a span the status of an error, unless the failure is excused.
func (t *Traces) fail(span trace.Span, text string, excused bool) {
	if text = t.text(text); !excused {
		span.SetStatus(codes.Error, text)
		return
	}
	span.SetAttributes(attribute.Bool("excused", true))
	span.SetAttributes(given(attribute.String("error", text))...)
}

// causesOf returns the texts of the first causes, and how many more there are.
func causesOf(r timeline.Record) []string {
	var texts []string
	for _, cause := range r.Causes[:min(len(r.Causes), maxCauses)] {
		texts = append(texts, bounded(cause.String()))
	}
	if more := len(r.Causes) - len(texts); more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return texts
}

// text returns a text of an error or a reason, empty if the options leave it out.
func (t *Traces) text(text string) string {
	if t.options.OmitTexts {
		return ""
	}
	return bounded(text)
}

// bounded returns the beginning of a long text. Bytes that are no UTF-8 are replaced, as exporters
// lose the whole batch because of one.
func bounded(text string) string {
	end := ""
	if len(text) > maxText {
		text, end = text[:maxText], "…"
	}
	return strings.ToValidUTF8(text, "\uFFFD") + end
}

// given returns the attributes of texts that are not empty, bounded.
func given(all ...attribute.KeyValue) []attribute.KeyValue {
	kept := all[:0]
	for _, one := range all {
		if text := one.Value.AsString(); text != "" {
			kept = append(kept, one.Key.String(bounded(text)))
		}
	}
	return kept
}
