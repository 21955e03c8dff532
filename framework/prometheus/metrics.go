package prometheus

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework/health"
	"github.com/evenkeel/evenkeel/framework/observe"
	"github.com/evenkeel/evenkeel/timeline"
)

// Operator is what gauges are read from with each scrape: a framework.Operator. No method makes a
// request.
type Operator interface {
	Occupancy() health.Occupancy
	Health() []health.Source
}

// Metrics are the metrics of one operator. They are a [prometheus.Collector], and an
// [observe.RequestObserver].
type Metrics struct {
	operator atomic.Pointer[Operator]

	errors, terminal, panics *prometheus.CounterVec
	writes, requests         *prometheus.CounterVec
	fights, loops            *prometheus.CounterVec
	controllers              sync.Map // name → *tally
}

var _ interface {
	prometheus.Collector
	observe.RequestObserver
} = (*Metrics)(nil)

// New returns metrics for the Observers of an operator's options. Call [Metrics.Of] with the
// operator next.
func New() *Metrics {
	return &Metrics{
		errors:   counter("controller_runtime_reconcile_errors_total", "Total number of reconciliation errors per controller", "controller"),
		terminal: counter("controller_runtime_terminal_reconcile_errors_total", "Total number of terminal reconciliation errors per controller", "controller"),
		panics:   counter("controller_runtime_reconcile_panics_total", "Total number of reconciliation panics per controller", "controller"),
		requests: counter("rest_client_requests_total", "Number of HTTP requests, partitioned by status code, method, and host.", "code", "method", "host"),
		fights:   counter("evenkeel_fights_total", "Writes that set back, again, a field that another writer keeps changing.", "controller"),
		loops:    counter("evenkeel_loop_runs_total", "Runs of loops: of at least nine runs in a row that nothing but runs of the operator has caused.", "controller"),
		writes:   counter("evenkeel_writes_total", "Write requests by verb and by what the answer proved.", "controller", "verb", "proof"),
	}
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

// Of sets the operator whose gauges are collected. Without it there are only counters and
// histograms.
func (m *Metrics) Of(op Operator) { m.operator.Store(&op) }

// Handler serves the metrics, with those of the process and of the Go runtime, as Prometheus
// scrapes them. If a metric cannot be collected, the others are served.
func (m *Metrics) Handler() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(m,
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(collectors.MetricsAll)))
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
}

// controller returns what the runs of a controller are counted in.
func (m *Metrics) controller(name string) *tally {
	if known, found := m.controllers.Load(name); found {
		return known.(*tally)
	}
	for _, failures := range []*prometheus.CounterVec{m.errors, m.terminal, m.panics, m.fights, m.loops} {
		failures.WithLabelValues(name) // alerts about an increase need the zero
	}
	known, _ := m.controllers.LoadOrStore(name, newTally())
	return known.(*tally)
}

// RunEnded counts a run.
func (m *Metrics) RunEnded(controller string, _ types.NamespacedName, r timeline.Record) {
	failed := (r.Outcome == timeline.Failed || r.Outcome == timeline.Panicked) && !r.Excused
	if failed {
		m.errors.WithLabelValues(controller).Inc()
	}
	if failed && r.Final {
		m.terminal.WithLabelValues(controller).Inc()
	}
	if r.Outcome == timeline.Panicked {
		m.panics.WithLabelValues(controller).Inc()
	}
	m.controller(controller).add(&r, causeOf(controller, &r), r.Rescheduled && !failed)
	if len(r.Fights) > 0 {
		m.fights.WithLabelValues(controller).Add(float64(len(r.Fights)))
	}
	if r.Loop != nil {
		m.loops.WithLabelValues(controller).Inc()
	}
	for _, q := range r.Requests {
		m.writes.WithLabelValues(controller, q.Verb, q.Proof.String()).Inc()
	}
}

// RequestEnded counts a request.
func (m *Metrics) RequestEnded(r observe.Request) {
	code := "<error>" // as client-go says
	if r.Code != 0 {
		code = strconv.Itoa(r.Code)
	}
	m.requests.WithLabelValues(code, strings.ToUpper(r.Method), r.Host).Inc()
}
