// Package bridge runs reconcilers of controller-runtime in an operator of the framework.
//
// A [Manager] is a manager of controller-runtime with an operator beside its own controllers.
// [Register] registers a reconciler with the operator. The [Client] finds the run of the reconciler
// in its ctx: it reads from the caches of the operator, and writes through the run. Everything else
// goes to the client of the manager.
//
// # Concurrency
//
// A Manager is set up from one goroutine. A Client may be used from many.
//
// # What it does not do
//
// It schedules nothing and caches nothing: the operator does.
package bridge
