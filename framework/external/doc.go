// Package external provides workflow nodes for what a primary needs outside of the cluster: a DNS
// record, a bucket, a repository. An author describes what should exist and how to read, create,
// update and remove it. The node decides when to do so.
//
//	monitor := &external.Value[*v1.Page, Monitor]{
//		Name: "monitor", Desired: ..., Observe: ..., Create: ..., Remove: ...,
//	}
//
// [Value] is one value of a primary, [Values] a set of them, identified by keys.
//
// # Crashes
//
// A system that chooses ids itself needs a [State] that stores them: [InConfigMap], [InStatus] or
// the author's own. The intent, with an idempotency token, is saved before the creation, and the id
// after it. So a crash neither loses a value nor creates a second one. If the outcome of a creation
// cannot be found out, [UnknownFate] decides what follows; by default the primary stalls.
//
// # Concurrency
//
// A value must be set up by one goroutine, and must not be changed after it was registered. Its
// functions may then be called from any goroutine, for different primaries at the same time.
package external
