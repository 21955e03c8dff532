// Package lease decides whether this instance of an operator may write.
//
// [Election] takes part in the leader election by a Lease of Kubernetes. Each time the lease is held is a [Term], which
// ends by the clock, before others can lead. [Fence] is what writers ask before every request: it allows writes while a
// term lasts, or always where there is no election. [Inflight] registers the requests that are under way, so that the
// end of a run, of a term or of the operator can cancel them and wait for them.
//
// # Concurrency
//
// All methods may be called at the same time. Every mutex of this package is a leaf: nothing is called under it, neither
// the API server nor the author's logger.
//
// # What it does not do
//
// It knows no caches and no writers: they ask it, it asks nobody.
package lease
