// Package external makes nodes of a workflow out of what a primary needs outside of the cluster: a DNS record, a bucket, a repository.
// An author says what should exist and how to read, create, update and remove it. When to do so follows.
//
//	monitor := &external.Value[*v1.Page, Monitor]{Name: "monitor", Desired: ..., Observe: ..., Create: ..., Remove: ...}
//
// [Value] is one value of a primary, [Values] a set of them, told apart by keys.
//
// # Crashes
//
// A system that chooses ids itself needs a [State], which remembers them: [InConfigMap], [InStatus] or the author's own. The intent
// is saved before the creation, with an idempotency token, and the id after it. A crash neither forgets a value nor makes a second one.
// Where nobody can tell what became of a creation, [UnknownFate] says what follows; by default the primary stalls.
//
// # Concurrency
//
// A value is set up by one goroutine and not changed once it is registered. Its functions are then called from any goroutine, for
// different primaries at the same time.
package external
