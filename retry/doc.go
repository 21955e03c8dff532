// Package retry answers the delay question: how long to wait before the next attempt of
// something that failed, and whether there is one.
//
//	var state retry.State
//	policy := retry.Policy{MaxAttempts: 5}
//	delay, again := policy.Next(&state) // after a failure
//	...
//	state.Reset()                       // after a success
//
// Not every failure is alike: [Policy.Judge] tells those that the policy spaces from those that are to be
// repeated [Soon], or not at all. An author says so with [After] and [Final], a framework with Classify.
//
// A [Policy] is a value that many keys share; a [State] is what one key remembers between its
// failures. The zero Policy is the documented default, the zero State a key that never failed.
//
// # Concurrency
//
// A Policy is read-only and may be used from many goroutines. A State belongs to its owner, who
// must not use it from two goroutines at once.
//
// # What it does not do
//
// It never sleeps, never calls the thing that failed and knows nothing of Kubernetes. The
// scheduler owns the timers.
package retry
