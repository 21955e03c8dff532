// Package controllerruntime runs reconcilers that are written for controller-runtime, unchanged, in
// an operator of the framework.
//
// Import this package in the place of sigs.k8s.io/controller-runtime, and its package builder in
// that of sigs.k8s.io/controller-runtime/pkg/builder:
//
//	ctrl "github.com/evenkeel/evenkeel/controllerruntime"
//	"github.com/evenkeel/evenkeel/controllerruntime/builder"
//
// In a run, the manager's client reads the primaries and what the controller watches from the
// operator's caches, in which the controller's own writes are visible at once, and it writes
// through the run, so that own writes do not trigger their own primary.
//
// # What differs
//
//   - Own writes do not trigger their own primary. A reconciler that returns after a write, and
//     waits for its event, needs builder.Builder.TriggeredByOwnWrites, or must go on in that run.
//   - A patch that is computed from a version is sent for that version only. It may fail with a
//     conflict, which brings another run.
//   - The field manager is the name of the controller, unless an option of the write names one.
//   - A request for a primary that does not exist brings no run, unless it has just been deleted.
//   - A handler of Watches is asked by its Create only, for the old and the new object. It must map
//     an object by its content alone.
//   - DeleteAllOf of a watched kind deletes what the caches show, one by one.
//   - A list has no resourceVersion, and no pages.
//   - An object that is gone is deleted without an error.
//   - Outside of runs, the client is that of the manager, with caches of its own: in a webhook, in
//     the function of EnqueueRequestsFromMapFunc, or with a ctx that is not derived from that of
//     Reconcile.
//
// # What is refused
//
// NewManager: Cache.ByObject, selectors and transforms of Cache. The builder: WatchesRawSource;
// WithOptions with NewQueue, Reconciler, or NeedLeaderElection false; a manager that is not made by
// this package. [AddOperator] is the other way round: a manager of controller-runtime that runs an
// operator.
package controllerruntime
