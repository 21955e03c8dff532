// Package prometheus has the metrics of an operator.
//
//	metrics := prometheus.New()
//	op, err := framework.NewOperator(config, framework.OperatorOptions{
//		Observers: []observe.Observer{metrics},
//	})
//	...
//	metrics.Of(op)
//	http.Handle("/metrics", metrics.Handler())
//
// # The names that others know
//
// Runs, queue, requests and leader election have the names, labels and buckets of
// sigs.k8s.io/controller-runtime. Dashboards and alerts made for its operators work unchanged: a
// run counts as a reconciliation, and the scheduler of a controller as its work queue.
//
//   - controller_runtime_reconcile_total, by result: error, requeue, requeue_after or success. A
//     run that the server asked to come again later, or that was cut off, is a requeue and no
//     error.
//   - controller_runtime_reconcile_errors_total, _terminal_reconcile_errors_total,
//     _reconcile_panics_total, _reconcile_time_seconds, _max_concurrent_reconciles, _active_workers
//   - workqueue_depth, _adds_total, _queue_duration_seconds, _work_duration_seconds,
//     _unfinished_work_seconds, _longest_running_processor_seconds, _retries_total
//   - rest_client_requests_total
//   - leader_election_master_status, if there is an election
//
// # Our own
//
//   - evenkeel_runs_total, by the kind of the first cause: primary, secondary, timer, retry,
//     max_interval, external, manual or overflow
//   - evenkeel_own_events_total: events that started no run because own writes had caused them
//   - evenkeel_writes_total, by verb, and by proof: see [timeline.Proof]
//   - evenkeel_fights_total, evenkeel_loop_runs_total: see [timeline.Fight] and [timeline.Chain]
//   - evenkeel_failing_primaries: primaries whose last run failed. evenkeel_failing names them, up
//     to [health.MaxFailing] of each controller. No other metric has a label for an object.
//   - evenkeel_paused_primaries: primaries that are paused, see framework.Paused
//   - evenkeel_primaries_with_state: primaries that are due, running, or wait for a time
//   - evenkeel_controller_waiting: 1 while a controller has not started
//   - evenkeel_source_failing: 1 for each source with a problem, 0 for others
//   - evenkeel_cache_objects, _cache_ahead, _cache_undecodable, by cache
//   - evenkeel_watch_silent_seconds: the time since a watch of the source has delivered anything
//
// # Concurrency
//
// All methods may be called from many goroutines.
//
// # What it does not do
//
// It registers nothing in global registries, and does not serve: see package debughttp.
package prometheus
