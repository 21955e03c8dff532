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

	results, errors, terminal, panics *prometheus.CounterVec
	duration, queued, worked          *prometheus.HistogramVec
	runs, writes, requests            *prometheus.CounterVec
	fights, loops                     *prometheus.CounterVec
	controllers                       sync.Map // name → *ofController
}

var _ interface {
	prometheus.Collector
	observe.RequestObserver
} = (*Metrics)(nil)

// New returns metrics for the Observers of an operator's options. Call [Metrics.Of] with the
// operator next.
func New() *Metrics {
	return &Metrics{
		results:  counter("controller_runtime_reconcile_total", "Total number of reconciliations per controller", "controller", "result"),
		errors:   counter("controller_runtime_reconcile_errors_total", "Total number of reconciliation errors per controller", "controller"),
		terminal: counter("controller_runtime_terminal_reconcile_errors_total", "Total number of terminal reconciliation errors per controller", "controller"),
		panics:   counter("controller_runtime_reconcile_panics_total", "Total number of reconciliation panics per controller", "controller"),
		duration: histogram("controller_runtime_reconcile_time_seconds", "Length of time per reconciliation per controller", reconcileBuckets, "controller"),
		queued:   histogram("workqueue_queue_duration_seconds", "How long in seconds an item stays in workqueue before being requested", queueBuckets, "name", "controller"),
		worked:   histogram("workqueue_work_duration_seconds", "How long in seconds processing an item from workqueue takes.", queueBuckets, "name", "controller"),
		requests: counter("rest_client_requests_total", "Number of HTTP requests, partitioned by status code, method, and host.", "code", "method", "host"),
		runs:     counter("evenkeel_runs_total", "Runs by the kind of their first cause.", "controller", "cause"),
		fights:   counter("evenkeel_fights_total", "Writes that set back, again, a field that another writer keeps changing.", "controller"),
		loops:    counter("evenkeel_loop_runs_total", "Runs of loops: of at least nine runs in a row that nothing but runs of the operator has caused.", "controller"),
		writes:   counter("evenkeel_writes_total", "Write requests by verb and by what the answer proved.", "controller", "verb", "proof"),
	}
}

// Buckets of controller-runtime's histograms, so that its dashboards fit.
var (
	reconcileBuckets = []float64{
		0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1,
		1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60,
	}
	queueBuckets = prometheus.ExponentialBuckets(1e-8, 10, 12)
)

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

// histogram has no native buckets, as those of controller-runtime have: they would double the costs
// of a run's metrics.
func histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: buckets,
	}, labels)
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

// ofController are the metrics of one controller, found once.
type ofController struct {
	results                  map[string]prometheus.Counter
	causes                   map[string]prometheus.Counter
	duration, queued, worked prometheus.Observer
	again                    atomic.Uint64 // runs that asked for another one
}

// controller returns the metrics of a controller. Looking them up by their labels would be most of
// what a run costs.
func (m *Metrics) controller(name string) *ofController {
	if known, found := m.controllers.Load(name); found {
		return known.(*ofController)
	}
	c := &ofController{
		results: map[string]prometheus.Counter{}, causes: map[string]prometheus.Counter{},
		duration: m.duration.WithLabelValues(name), queued: m.queued.WithLabelValues(name, name), worked: m.worked.WithLabelValues(name, name),
	}
	for _, result := range results {
		c.results[result] = m.results.WithLabelValues(name, result)
	}
	for _, cause := range causes {
		c.causes[cause] = m.runs.WithLabelValues(name, cause)
	}
	for _, failures := range []*prometheus.CounterVec{m.errors, m.terminal, m.panics, m.fights, m.loops} {
		failures.WithLabelValues(name) // alerts about an increase need the zero
	}
	known, _ := m.controllers.LoadOrStore(name, c)
	return known.(*ofController)
}

// RunEnded counts a run.
func (m *Metrics) RunEnded(controller string, _ types.NamespacedName, r timeline.Record) {
	c := m.controller(controller)
	c.results[resultOf(r)].Inc()
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
	if r.Rescheduled && !failed {
		c.again.Add(1)
	}
	c.duration.Observe(r.Duration.Seconds())
	c.worked.Observe(r.Duration.Seconds())
	c.queued.Observe(r.Queued.Seconds())
	c.causes[causeOf(controller, r)].Inc()
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

// The values of the labels result and cause.
var (
	results = []string{"error", "requeue", "requeue_after", "success"}
	causes  = []string{"primary", "secondary", "timer", "retry", "max_interval", "external", "manual", "overflow"}
)

// resultOf returns the result by the names of controller-runtime.
func resultOf(r timeline.Record) string {
	switch {
	case r.Excused:
		return "requeue"
	case r.Outcome == timeline.Failed || r.Outcome == timeline.Panicked:
		return "error"
	case r.Rescheduled && r.Next > 0:
		return "requeue_after"
	case r.Rescheduled:
		return "requeue"
	}
	return "success"
}

// causeOf returns the kind of the first cause of a run.
func causeOf(controller string, r timeline.Record) string {
	if len(r.Causes) == 0 {
		return "overflow"
	}
	switch c := r.Causes[0].(type) {
	case timeline.Resource:
		if c.Source == controller {
			return "primary"
		}
		return "secondary"
	case timeline.Timer:
		return "timer"
	case timeline.Retry:
		return "retry"
	case timeline.MaxInterval:
		return "max_interval"
	case timeline.External:
		return "external"
	case timeline.Manual:
		return "manual"
	}
	return "overflow"
}

// RequestEnded counts a request.
func (m *Metrics) RequestEnded(r observe.Request) {
	code := "<error>" // as client-go says
	if r.Code != 0 {
		code = strconv.Itoa(r.Code)
	}
	m.requests.WithLabelValues(code, strings.ToUpper(r.Method), r.Host).Inc()
}
