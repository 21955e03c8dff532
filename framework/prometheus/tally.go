package prometheus

import (
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/evenkeel/evenkeel/timeline"
)

// tally counts the runs of a controller. The vectors of client_golang consist of atomics: with
// several workers, the eleven updates of a run are a tenth of a run that does nothing. Here a run
// takes one lock for all of them.
type tally struct {
	mu                       sync.Mutex // guards the fields below; a leaf
	results                  [numberOfResults]uint64
	causes                   [numberOfCauses]uint64
	again                    uint64 // runs that asked for another one
	duration, worked, queued distribution
}

func newTally() *tally {
	t := &tally{}
	for _, d := range []struct {
		of     *distribution
		limits []float64
	}{{&t.duration, reconcileBuckets}, {&t.worked, queueBuckets}, {&t.queued, queueBuckets}} {
		d.of.limits, d.of.counts = d.limits, make([]uint64, len(d.limits)+1)
	}
	return t
}

// add counts a run.
func (t *tally) add(r *timeline.Record, cause cause, again bool) {
	took, waited := r.Duration.Seconds(), r.Queued.Seconds()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.results[resultOf(r)]++
	t.causes[cause]++
	if again {
		t.again++
	}
	t.duration.add(took)
	t.worked.add(took)
	t.queued.add(waited)
}

// askedAgain returns how many runs asked for another one.
func (t *tally) askedAgain() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.again
}

// collect sends the metrics of the controller.
func (t *tally) collect(to chan<- prometheus.Metric, name string) {
	t.mu.Lock()
	results, causes := t.results, t.causes
	duration, worked, queued := t.duration.copied(), t.worked.copied(), t.queued.copied()
	t.mu.Unlock()
	for i, n := range results {
		to <- prometheus.MustNewConstMetric(resultsDesc, prometheus.CounterValue, float64(n), name, resultNames[i])
	}
	for i, n := range causes {
		to <- prometheus.MustNewConstMetric(runsDesc, prometheus.CounterValue, float64(n), name, causeNames[i])
	}
	to <- duration.metric(durationDesc, name)
	to <- worked.metric(workedDesc, name, name)
	to <- queued.metric(queuedDesc, name, name)
}

// distribution is how many values are at most each limit, and above the one before it. The last
// count is of those above all.
type distribution struct {
	limits []float64
	counts []uint64
	sum    float64
}

func (d *distribution) add(value float64) {
	at, _ := slices.BinarySearch(d.limits, value) // the first limit that is not below it
	d.counts[at]++
	d.sum += value
}

func (d *distribution) copied() distribution {
	return distribution{d.limits, slices.Clone(d.counts), d.sum}
}

// metric returns a histogram, whose buckets are cumulative.
func (d *distribution) metric(of *prometheus.Desc, labels ...string) prometheus.Metric {
	buckets, n := make(map[float64]uint64, len(d.limits)), uint64(0)
	for i, limit := range d.limits {
		n += d.counts[i]
		buckets[limit] = n
	}
	return prometheus.MustNewConstHistogram(of, n+d.counts[len(d.limits)], d.sum, buckets, labels...)
}

// Buckets of controller-runtime's histograms, so that its dashboards fit.
var (
	reconcileBuckets = []float64{
		0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1,
		1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60,
	}
	queueBuckets = prometheus.ExponentialBuckets(1e-8, 10, 12)
)

// result is a value of the label result, cause one of the label cause.
type (
	result int
	cause  int
)

const (
	failed result = iota
	requeued
	requeuedAfter
	succeeded
	numberOfResults
)

var resultNames = [numberOfResults]string{failed: "error", requeued: "requeue", requeuedAfter: "requeue_after", succeeded: "success"}

const (
	byPrimary cause = iota
	bySecondary
	byTimer
	byRetry
	byMaxInterval
	byExternal
	byManual
	byOverflow
	numberOfCauses
)

var causeNames = [numberOfCauses]string{
	byPrimary: "primary", bySecondary: "secondary", byTimer: "timer", byRetry: "retry", byMaxInterval: "max_interval",
	byExternal: "external", byManual: "manual", byOverflow: "overflow",
}

// resultOf returns the result by the names of controller-runtime.
func resultOf(r *timeline.Record) result {
	switch {
	case r.Excused:
		return requeued
	case r.Outcome == timeline.Failed || r.Outcome == timeline.Panicked:
		return failed
	case r.Rescheduled && r.Next > 0:
		return requeuedAfter
	case r.Rescheduled:
		return requeued
	}
	return succeeded
}

// causeOf returns the kind of the first cause of a run.
func causeOf(controller string, r *timeline.Record) cause {
	if len(r.Causes) == 0 {
		return byOverflow
	}
	switch c := r.Causes[0].(type) {
	case timeline.Resource:
		if c.Source == controller {
			return byPrimary
		}
		return bySecondary
	case timeline.Timer:
		return byTimer
	case timeline.Retry:
		return byRetry
	case timeline.MaxInterval:
		return byMaxInterval
	case timeline.External:
		return byExternal
	case timeline.Manual:
		return byManual
	}
	return byOverflow
}
