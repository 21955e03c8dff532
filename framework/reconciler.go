package framework

import (
	"context"

	"github.com/evenkeel/evenkeel/trc"
)

// Object is an API object: a pointer to a typed object that the operator's scheme contains, or an
// *unstructured.Unstructured.
type Object = trc.Object

// Reconciler makes the world match the desired state of a primary of type P.
type Reconciler[P Object] interface {
	// Reconcile is called when the primary is due; [Context.Causes] returns why. It must be idempotent
	// and must work from the state that it reads, because events are merged and a run may be repeated.
	//
	// primary is a private copy and may be changed. Changes take effect only through the returned
	// [UpdateControl].
	//
	// An error leads to a retry with back-off. An UpdateControl returned together with an error is
	// not written. The log says so, at most once a minute. Use an [ErrorStatusHandler] for a status
	// that shows the failure.
	//
	// ctx ends with the run's deadline and when the operator stops.
	Reconcile(ctx context.Context, primary P, c *Context[P]) (UpdateControl[P], error)
}

// Cleaner is an optional interface of a [Reconciler] that must clean up before its primary is
// removed. The framework adds a finalizer to every primary before the first Reconcile, and removes
// it after Cleanup. A [Workflow] that deletes its nodes needs no Cleaner.
//
// Secondaries with an owner reference to the primary need no Cleaner: the garbage collector of
// Kubernetes deletes them.
//
// [Register] refuses a reconciler with a method of that name that does not implement Cleaner. It
// also refuses one that holds another Reconciler that is a Cleaner: a decorator must forward
// Cleanup.
type Cleaner[P Object] interface {
	// Cleanup is called instead of Reconcile once the primary's deletion is requested, until it
	// returns [RemoveFinalizer] without an error. It must be idempotent. The zero DeleteControl
	// without an error fails the run.
	Cleanup(ctx context.Context, primary P, c *Context[P]) (DeleteControl, error)
}

// ErrorStatusHandler is an optional interface of a [Reconciler] that shows failures in the
// primary's status. [Register] refuses what only looks like one, as with [Cleaner].
type ErrorStatusHandler[P Object] interface {
	// ErrorStatus is called after every Reconcile that returned an error or panicked, or whose
	// [UpdateControl] could not be written completely. If a workflow run failed, it is called and
	// Reconcile is not. It is also called for the last attempt that the retry policy allows;
	// [Context.Retry] returns the attempt.
	//
	// primary is the copy that Reconcile received, with the changes that Reconcile made.
	//
	// ErrorStatus is not called for what is not a failure:
	//
	//   - a conflict of the framework's own writes;
	//   - a temporary refusal: status 429, and what else [retry.Policy.Judge] classifies as
	//     [retry.Soon], such as the errors that [retry.After] returns;
	//   - a source that is not filled;
	//   - the end of a run because the operator stops, or because the lease or the namespace was lost.
	ErrorStatus(ctx context.Context, primary P, c *Context[P], failure error) ErrorStatusControl[P]
}
