package framework

import "github.com/evenkeel/evenkeel/framework/internal/run"

// Reasons of the Kubernetes events by which the framework tells users of a primary what it decided. All are
// warnings with the action "Reconcile". Repetitions are counted in one event.
const (
	// ReasonRetriesExhausted: the run failed and no retry follows, until something changes.
	ReasonRetriesExhausted = run.ReasonRetriesExhausted
	// ReasonObjectTooLarge: the API server or etcd refused an object for its size; no retry follows.
	ReasonObjectTooLarge = run.ReasonObjectTooLarge
	// ReasonReconcileFailed: the run failed, and is retried. There are at most some of these at a time for all primaries
	// of the operator; what is left out is told with a later failure.
	ReasonReconcileFailed = run.ReasonReconcileFailed
	// ReasonRunTimeout: the run exceeded [ControllerOptions.RunTimeout].
	ReasonRunTimeout = run.ReasonRunTimeout
	// ReasonFinalizerRemoved: somebody else took the controller's finalizer off a living primary, which has
	// it again now. Maybe another controller uses the same one.
	ReasonFinalizerRemoved = run.ReasonFinalizerRemoved
	// ReasonFinalizerLeftOver: the primary is in deletion, and carries a finalizer that looks like one of this package
	// and that no controller of the operator takes off: one was renamed, or is no [Cleaner] any more.
	ReasonFinalizerLeftOver = run.ReasonFinalizerLeftOver
	// ReasonSecondaryUnmapped: a run created an object of a kind that is among the secondaries, and that does not map
	// to the run's primary: reads do not find it, so that each run may create another. It is told once for each kind.
	ReasonSecondaryUnmapped = run.ReasonSecondaryUnmapped
	// ReasonNotSelected: the primary carries the controller's finalizer, and does not match the selectors any more.
	// While that is so, Cleanup is not called, and a deletion does not come to its end.
	ReasonNotSelected = run.ReasonNotSelected
)

// ReasonUndecodable is the reason of the event, and of [conditions.Stalled], of an object that does not fit its Go type.
const ReasonUndecodable = run.ReasonUndecodable

// Events about runs that failed are bounded for the whole operator: an outage fails all primaries at once. An API
// server merges those of one primary, so a later one adds no more than a count.
const (
	failureEventsPerSecond = 2
	failureEventsAtOnce    = 50
)
