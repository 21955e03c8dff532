// Package retry decides how long to wait before the next attempt of something that failed, and
// whether there is one.
//
//	var state retry.State
//	policy := retry.Policy{MaxAttempts: 5}
//	delay, again := policy.Next(&state) // after a failure
//	...
//	state.Reset()                       // after a success
//
// Failures differ: [Policy.Judge] separates those that the policy spaces from those that should be
// repeated [Soon], or not at all. An author marks errors with [After] and [Final]; a framework sets
// Classify.
//
// A [Policy] is a value that many keys share. A [State] is the state of one key between its
// failures. The zero Policy is the documented default, the zero State is a key that never failed.
//
// # Concurrency
//
// A Policy is read-only and may be used from many goroutines. A State must not be used from two
// goroutines at once.
//
// # What it does not do
//
// It never sleeps, never calls what failed and is independent of Kubernetes. The scheduler owns the
// timers.
package retry
