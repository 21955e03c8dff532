package prometheus

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/evenkeel/evenkeel/framework/health"
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// Metrics that every run is counted in.
var (
	resultsDesc  = desc("controller_runtime_reconcile_total", "Total number of reconciliations per controller", "controller", "result")
	durationDesc = desc("controller_runtime_reconcile_time_seconds", "Length of time per reconciliation per controller", "controller")
	queuedDesc   = desc("workqueue_queue_duration_seconds", "How long in seconds an item stays in workqueue before being requested", "name", "controller")
	workedDesc   = desc("workqueue_work_duration_seconds", "How long in seconds processing an item from workqueue takes.", "name", "controller")
	runsDesc     = desc("evenkeel_runs_total", "Runs by the kind of their first cause.", "controller", "cause")
)

// What is read from the operator with each scrape.
var (
	workers    = desc("controller_runtime_max_concurrent_reconciles", "Maximum number of concurrent reconciles per controller", "controller")
	active     = desc("controller_runtime_active_workers", "Number of currently used workers per controller", "controller")
	depth      = desc("workqueue_depth", "Current depth of workqueue by workqueue and priority", "name", "controller", "priority")
	adds       = desc("workqueue_adds_total", "Total number of adds handled by workqueue", "name", "controller")
	unfinished = desc("workqueue_unfinished_work_seconds", "How many seconds of work has been done that is in progress and hasn't been observed by work_duration. Large values indicate stuck threads.", "name", "controller")
	longest    = desc("workqueue_longest_running_processor_seconds", "How many seconds has the longest running processor for workqueue been running.", "name", "controller")
	retries    = desc("workqueue_retries_total", "Total number of items added to the workqueue with a delay: retries, and times that runs asked for", "name", "controller")
	leading    = desc("leader_election_master_status", "1 if this instance holds the lease of that name, 0 if it stands by.", "name")

	ownEvents    = desc("evenkeel_own_events_total", "Events that started no run because own writes had caused them.", "controller")
	failingCount = desc("evenkeel_failing_primaries", "Primaries whose last run failed.", "controller")
	failing      = desc("evenkeel_failing", "1 for a primary whose last run failed, for up to 100 of each controller.", "controller", "namespace", "name")
	paused       = desc("evenkeel_paused_primaries", "Primaries that are paused.", "controller")
	withState    = desc("evenkeel_primaries_with_state", "Primaries that are due, running, or wait for a time.", "controller")
	waiting      = desc("evenkeel_controller_waiting", "1 while the controller has not started, as for a kind that is not served.", "controller")
	objects      = desc("evenkeel_cache_objects", "Objects in the cache.", "cache")
	ahead        = desc("evenkeel_cache_ahead", "Objects that are newer in the cache than the watch has delivered, because of own writes.", "cache")
	undecodable  = desc("evenkeel_cache_undecodable", "Objects that do not fit their Go type.", "cache")
	sourceFails  = desc("evenkeel_source_failing", "1 for a source with a problem, 0 for others.", "controller", "source")
	silent       = desc("evenkeel_watch_silent_seconds", "Seconds since the quietest watch of a source has delivered an event, a bookmark or a list.", "controller", "source")
)

// Describe sends the descriptions of all metrics.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, c := range m.vectors() {
		c.Describe(to)
	}
	for _, d := range []*prometheus.Desc{
		workers, active, depth, adds, unfinished, longest, retries, leading, ownEvents, failingCount, failing, paused, withState, waiting, objects, ahead,
		undecodable, sourceFails, silent, resultsDesc, durationDesc, queuedDesc, workedDesc, runsDesc,
	} {
		to <- d
	}
}

func (m *Metrics) vectors() []prometheus.Collector {
	return []prometheus.Collector{m.errors, m.terminal, m.panics, m.writes, m.fights, m.loops, m.requests}
}

// Collect sends all metrics. It makes no request.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	for _, c := range m.vectors() {
		c.Collect(to)
	}
	m.controllers.Range(func(name, of any) bool {
		of.(*tally).collect(to, name.(string))
		return true
	})
	op := m.operator.Load()
	if op == nil {
		return
	}
	scrape{m, to}.occupancy((*op).Occupancy())
	scrape{m, to}.sources((*op).Health())
}

// scrape is one collection.
type scrape struct {
	*Metrics
	to chan<- prometheus.Metric
}

func (s scrape) gauge(d *prometheus.Desc, value float64, labels ...string) {
	s.to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

func (s scrape) counter(d *prometheus.Desc, value float64, labels ...string) {
	s.to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, value, labels...)
}

func (s scrape) occupancy(o health.Occupancy) {
	if o.Election.Lease != "" {
		s.gauge(leading, number(o.Election.Leading), o.Election.Lease)
	}
	for _, c := range o.Controllers {
		s.controller(c)
	}
	caches := map[string]health.Cache{} // those of two clusters may have the same name
	for _, c := range o.Caches {
		sum := caches[c.Cache]
		caches[c.Cache] = health.Cache{
			Objects: sum.Objects + c.Objects, Ahead: sum.Ahead + c.Ahead, Undecodable: sum.Undecodable + c.Undecodable,
		}
	}
	for name, c := range caches {
		s.gauge(objects, float64(c.Objects), name)
		s.gauge(ahead, float64(c.Ahead), name)
		s.gauge(undecodable, float64(c.Undecodable), name)
	}
}

func (s scrape) controller(c health.Controller) {
	s.gauge(workers, float64(c.Workers), c.Name)
	s.gauge(active, float64(c.Running), c.Name)
	s.gauge(depth, float64(c.Due), c.Name, c.Name, "")
	s.counter(adds, float64(c.Queued), c.Name, c.Name)
	s.gauge(unfinished, c.Unfinished.Seconds(), c.Name, c.Name)
	s.gauge(longest, c.Longest.Seconds(), c.Name, c.Name)
	s.counter(retries, float64(c.Retries+s.Metrics.controller(c.Name).askedAgain()), c.Name, c.Name)
	s.counter(ownEvents, float64(c.Needless), c.Name)
	s.gauge(paused, float64(c.PausedPrimaries), c.Name)
	s.gauge(withState, float64(c.Keys), c.Name)
	s.gauge(waiting, number(c.Waiting != ""), c.Name)
	s.gauge(failingCount, float64(c.Failing), c.Name)
	for _, key := range c.FailingPrimaries {
		s.gauge(failing, 1, c.Name, key.Namespace, key.Name)
	}
}

func (s scrape) sources(all []health.Source) {
	type source struct{ controller, name string } // several of a controller may have the same name
	problems, quiet, now := map[source]bool{}, map[source]time.Duration{}, time.Now()
	for _, h := range all {
		of := source{h.Controller, h.Source}
		problems[of] = problems[of] || h.Problem != ""
		if d, known := h.Silence(now); known {
			quiet[of] = max(quiet[of], d)
		}
	}
	for of, failing := range problems {
		s.gauge(sourceFails, number(failing), of.controller, of.name)
	}
	for of, d := range quiet {
		s.gauge(silent, d.Seconds(), of.controller, of.name)
	}
}

func number(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
