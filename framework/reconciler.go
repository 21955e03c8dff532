package framework

import (
	"context"

	"github.com/evenkeel/evenkeel/trc"
)

// Object is an API object: a pointer to a typed one that the operator's scheme knows, or
// *unstructured.Unstructured.
type Object = trc.Object

// Reconciler brings the world in line with a primary of type P.
type Reconciler[P Object] interface {
	// Reconcile is called whenever the primary is due; [Context.Causes] says why. It must be
	// idempotent and work from the state it finds: events are merged, and a run may be repeated.
	//
	// primary is a private copy that may be changed; changes take effect only through the returned
	// [UpdateControl]. An error leads to a retry with back-off. What is returned beside it is not carried out: a status
	// that shows the failure is for an [ErrorStatusHandler]. Without one, the log says what was dropped.
	// ctx ends with the run's deadline and when the operator stops.
	Reconcile(ctx context.Context, primary P, c *Context[P]) (UpdateControl[P], error)
}

// Cleaner is implemented by a [Reconciler] that must do something before its primary goes. [Register] refuses one
// with a method of that name that is no Cleaner, and one that holds another Reconciler that is: a decorator has to
// pass Cleanup on. The
// framework then puts a finalizer on every primary before the first Reconcile, and takes it off
// after Cleanup. What a [Workflow] deletes needs no Cleaner.
//
// Secondaries with an owner reference to the primary need no Cleaner: the garbage collector of
// Kubernetes deletes them.
type Cleaner[P Object] interface {
	// Cleanup is called instead of Reconcile once the primary's deletion is requested, until it
	// returns [RemoveFinalizer] without an error. It must be idempotent. The zero DeleteControl without an error is a
	// failure of the run.
	Cleanup(ctx context.Context, primary P, c *Context[P]) (DeleteControl, error)
}

// ErrorStatusHandler is implemented by a [Reconciler] that shows failures in the primary's status. [Register] refuses
// what only looks like one, as with [Cleaner].
type ErrorStatusHandler[P Object] interface {
	// ErrorStatus is called after every Reconcile that returned an error or panicked, or of whose [UpdateControl]
	// something could not be written, and in its place if a pass through the [Workflow] failed; also the last time that
	// the retry policy grants: [Context.Retry] tells which attempt it was. What is no failure is not shown: a conflict of the framework's own
	// writes, a refusal for now (429, and what else [retry.Policy.Judge] finds to be [retry.Soon], as what [retry.After]
	// makes), a source that is not filled, and the end of a run by a stop, or that lost the lease or its namespace. primary is the copy that Reconcile was given, with what it changed.
	ErrorStatus(ctx context.Context, primary P, c *Context[P], failure error) ErrorStatusControl[P]
}
