package prometheus_test

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/evenkeel/evenkeel/framework/health"
	"github.com/evenkeel/evenkeel/framework/observe"
	"github.com/evenkeel/evenkeel/framework/prometheus"
	"github.com/evenkeel/evenkeel/scheduler"
	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// still is an operator that does nothing.
type still struct {
	occupancy health.Occupancy
	sources   []health.Source
}

func (s still) Occupancy() health.Occupancy { return s.occupancy }
func (s still) Health() []health.Source     { return s.sources }

// full returns metrics in which each name has a value.
func full() *prometheus.Metrics {
	m := prometheus.New()
	m.Of(still{
		health.Occupancy{
			Controllers: []health.Controller{{
				Name: "pages", Load: scheduler.Load{
					Counts:  scheduler.Counts{Runs: 9, Retries: 2, Queued: 8, Needless: 7},
					Workers: 6, Running: 5, Due: 4, Keys: 20, Failing: 3, Longest: time.Second, Unfinished: 2 * time.Second,
				},
				PausedPrimaries:  6,
				FailingPrimaries: []trc.Key{{Namespace: "default", Name: "hello"}, {Name: "cluster-wide"}},
			}},
			Election: health.Election{Lease: "pages-lease", Leading: true},
			Caches:   []health.Cache{{Cache: "ConfigMap", Objects: 10, Ahead: 1}, {Cache: "ConfigMap", Objects: 5, Undecodable: 2}},
		},
		[]health.Source{
			{Controller: "pages", Source: "configmap", Problem: "forbidden"},
			{Controller: "pages", Source: "configmap", Problem: "forbidden there, too"},
			{Controller: "pages", Source: "pages", Watches: []trc.WatchHealth{{}, {LastList: time.Now().Add(-time.Hour)}}},
		},
	})
	m.RunEnded("pages", trc.Key{}, timeline.Record{
		Causes: []timeline.Cause{timeline.Resource{Source: "pages"}, timeline.Timer{}}, Duration: 30 * time.Millisecond, Queued: time.Millisecond,
		Requests: []timeline.Request{{Verb: "apply", Proof: timeline.Created}, {Verb: "patch"}},
	})
	m.RunEnded("pages", trc.Key{}, timeline.Record{Causes: []timeline.Cause{timeline.Resource{Source: "configmap"}}, Outcome: timeline.Failed, Next: time.Second})
	m.RunEnded("pages", trc.Key{}, timeline.Record{Causes: []timeline.Cause{timeline.Retry{}}, Outcome: timeline.Failed, Final: true})
	m.RunEnded("pages", trc.Key{}, timeline.Record{Causes: []timeline.Cause{timeline.Manual{}}, Outcome: timeline.Panicked})
	m.RunEnded("pages", trc.Key{}, timeline.Record{Causes: []timeline.Cause{timeline.External{}}, Outcome: timeline.Failed, Excused: true, Next: time.Second})
	m.RunEnded("pages", trc.Key{}, timeline.Record{Causes: []timeline.Cause{timeline.MaxInterval{}}, Rescheduled: true, Next: time.Minute})
	m.RunEnded("pages", trc.Key{}, timeline.Record{
		Causes: []timeline.Cause{timeline.Timer{}}, Rescheduled: true, Fights: make([]timeline.Fight, 2), Loop: &timeline.Chain{Runs: 9},
	})
	m.RunEnded("pages", trc.Key{}, timeline.Record{Causes: []timeline.Cause{timeline.Overflow{}}, Outcome: timeline.Gone})
	m.RequestEnded(observe.Request{Method: "GET", Host: "server:6443", Code: 200})
	m.RequestEnded(observe.Request{Method: "PATCH", Host: "server:6443", Err: errors.New("reset")})
	return m
}

func TestNamesLabelsAndValues(t *testing.T) {
	want := `
controller_runtime_active_workers{controller="pages"} 5
controller_runtime_max_concurrent_reconciles{controller="pages"} 6
controller_runtime_reconcile_errors_total{controller="pages"} 3
controller_runtime_reconcile_panics_total{controller="pages"} 1
controller_runtime_reconcile_total{controller="pages",result="error"} 3
controller_runtime_reconcile_total{controller="pages",result="requeue"} 2
controller_runtime_reconcile_total{controller="pages",result="requeue_after"} 1
controller_runtime_reconcile_total{controller="pages",result="success"} 2
controller_runtime_terminal_reconcile_errors_total{controller="pages"} 1
controller_runtime_reconcile_time_seconds_bucket{controller="pages",le="0.025"} 7
controller_runtime_reconcile_time_seconds_bucket{controller="pages",le="0.05"} 8
controller_runtime_reconcile_time_seconds_bucket{controller="pages",le="60"} 8
controller_runtime_reconcile_time_seconds_count{controller="pages"} 8
evenkeel_cache_ahead{cache="ConfigMap"} 1
evenkeel_cache_objects{cache="ConfigMap"} 15
evenkeel_cache_undecodable{cache="ConfigMap"} 2
evenkeel_controller_waiting{controller="pages"} 0
evenkeel_failing_primaries{controller="pages"} 3
evenkeel_failing{controller="pages",name="cluster-wide",namespace=""} 1
evenkeel_failing{controller="pages",name="hello",namespace="default"} 1
evenkeel_fights_total{controller="pages"} 2
evenkeel_loop_runs_total{controller="pages"} 1
evenkeel_own_events_total{controller="pages"} 7
evenkeel_primaries_with_state{controller="pages"} 20
evenkeel_paused_primaries{controller="pages"} 6
evenkeel_runs_total{cause="external",controller="pages"} 1
evenkeel_runs_total{cause="manual",controller="pages"} 1
evenkeel_runs_total{cause="max_interval",controller="pages"} 1
evenkeel_runs_total{cause="overflow",controller="pages"} 1
evenkeel_runs_total{cause="primary",controller="pages"} 1
evenkeel_runs_total{cause="retry",controller="pages"} 1
evenkeel_runs_total{cause="secondary",controller="pages"} 1
evenkeel_runs_total{cause="timer",controller="pages"} 1
evenkeel_source_failing{controller="pages",source="configmap"} 1
evenkeel_source_failing{controller="pages",source="pages"} 0
evenkeel_writes_total{controller="pages",proof="created",verb="apply"} 1
evenkeel_writes_total{controller="pages",proof="unproven",verb="patch"} 1
leader_election_master_status{name="pages-lease"} 1
rest_client_requests_total{code="200",host="server:6443",method="GET"} 1
rest_client_requests_total{code="<error>",host="server:6443",method="PATCH"} 1
workqueue_adds_total{controller="pages",name="pages"} 8
workqueue_depth{controller="pages",name="pages",priority=""} 4
workqueue_longest_running_processor_seconds{controller="pages",name="pages"} 1
workqueue_queue_duration_seconds_bucket{controller="pages",name="pages",le="0.001"} 8
workqueue_retries_total{controller="pages",name="pages"} 4
workqueue_unfinished_work_seconds{controller="pages",name="pages"} 2
workqueue_work_duration_seconds_count{controller="pages",name="pages"} 8`
	got := scrape(t, full())
	for line := range strings.SplitSeq(strings.TrimSpace(want), "\n") {
		if !strings.Contains(got, line+"\n") {
			t.Errorf("missing: %s", line)
		}
	}
	for _, name := range []string{"evenkeel_watch_silent_seconds", "process_cpu_seconds_total", "process_resident_memory_bytes", "go_goroutines"} {
		if !strings.Contains(got, "\n"+name) {
			t.Errorf("missing: %s", name)
		}
	}
	if t.Failed() {
		t.Log(got)
	}
}

func scrape(t *testing.T, m *prometheus.Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

func TestTheLinterHasNothingToSay(t *testing.T) {
	problems, err := testutil.CollectAndLint(full())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestWithoutAnOperatorThereAreCounters(t *testing.T) {
	m := prometheus.New()
	m.RunEnded("pages", trc.Key{}, timeline.Record{Causes: []timeline.Cause{timeline.Timer{}}})
	if got := scrape(t, m); !strings.Contains(got, `evenkeel_runs_total{cause="timer",controller="pages"} 1`) || strings.Contains(got, "workqueue_depth{") {
		t.Error(got)
	}
}
