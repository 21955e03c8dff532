// Package lease decides whether this instance of an operator may write.
//
// [Election] takes part in a leader election by a Lease of Kubernetes. Each time the lease is held
// is a [Term]. A term ends by the clock, before other instances can lead. Writers ask the [Fence]
// before every request: it allows writes while a term lasts, or always if there is no election.
// [Inflight] registers the requests in flight, so that the end of a run, of a term or of the
// operator can cancel them and wait for them.
//
// Where to find things:
//
//   - election.go: the election; rbac.go: whether the operator's user may take part in it
//   - fence.go: what writers ask
//   - term.go: when a term ends; asleep_linux.go: a machine that was suspended; values.go: what
//     authors keep for a term
//   - inflight.go: the requests in flight
//
// # Concurrency
//
// All methods may be called at the same time. Every mutex of this package is a leaf: nothing is
// called under it, neither the API server nor the author's logger.
//
// # What it does not do
//
// It depends neither on caches nor on writers. They call this package, it calls none of them.
package lease
