package framework

import "github.com/evenkeel/evenkeel/framework/internal/run"

// Reasons of the Kubernetes events that the framework publishes about a primary. All are warnings
// with the action "Reconcile". Repetitions are counted in one event.
const (
	// ReasonRetriesExhausted: the run failed, and no retry follows until something changes.
	ReasonRetriesExhausted = run.ReasonRetriesExhausted
	// ReasonObjectTooLarge: the API server or etcd refused an object for its size. No retry follows.
	ReasonObjectTooLarge = run.ReasonObjectTooLarge
	// ReasonReconcileFailed: the run failed and is retried. The number of these events is limited
	// for the operator as a whole. Beyond the limit, a failure has no event; a later failure may
	// have one.
	ReasonReconcileFailed = run.ReasonReconcileFailed
	// ReasonRunTimeout: the run exceeded [ControllerOptions.RunTimeout].
	ReasonRunTimeout = run.ReasonRunTimeout
	// ReasonFinalizerRemoved: somebody else removed the controller's finalizer from a primary that is
	// not in deletion. The finalizer was added again. Another controller may use the same one.
	ReasonFinalizerRemoved = run.ReasonFinalizerRemoved
	// ReasonFinalizerLeftOver: the primary is in deletion, and carries a finalizer that looks like one
	// of this package, but no controller of the operator removes it. The finalizer was renamed, or the
	// reconciler is no longer a [Cleaner].
	ReasonFinalizerLeftOver = run.ReasonFinalizerLeftOver
	// ReasonSecondaryUnmapped: a run created an object of a kind of its secondaries that does not map
	// to the run's primary. Reads do not find it, so each run may create another. It is published once
	// for each kind.
	ReasonSecondaryUnmapped = run.ReasonSecondaryUnmapped
	// ReasonNotSelected: the primary carries the controller's finalizer, and no longer matches the
	// selectors. While that is so, Cleanup is not called, and a deletion does not complete.
	ReasonNotSelected = run.ReasonNotSelected
	// ReasonFight: the primary's runs and another writer have set fields of an object back at least
	// three times in ten minutes. The note names the fields and both field managers. The runs are
	// slowed down. It is repeated every ten minutes.
	ReasonFight = run.ReasonFight
	// ReasonLoop: at least eight runs in a row, within ten minutes, were caused by nothing but runs of
	// this operator. The note names the controllers. The runs are slowed down. It is repeated every
	// minute.
	ReasonLoop = run.ReasonLoop
)

// ReasonUndecodable is the reason of the event and of the condition Stalled (see package
// conditions) of an object that cannot be decoded into its Go type.
const ReasonUndecodable = run.ReasonUndecodable

// Events about failed runs are limited for the whole operator, because an outage fails all
// primaries at once. The API server merges the events of one primary, so a later one only adds to a
// count.
const (
	failureEventsPerSecond = 2
	failureEventsAtOnce    = 50
)
