// Package write sends the writes of runs, and makes the answers readable at once.
//
// A [Port] is what all writers to one API server share: its caches, the memory of confirmed
// intents, and one lock per object for applies. A [Writer] sends the writes of one run, or those
// outside of runs ([New]).
//
// The way of a write, from top to bottom:
//
//   - verbs.go, apply.go, patch.go: the call is checked and becomes a [Request] for the version
//     that reads show; owner.go: the request names the primary; pruned.go: it must not remove
//     fields that caches do not keep
//   - execute.go: the request is sent, its answer is recorded as proof and added to the caches
//   - outcome.go: the request is repeated until its outcome is known
//   - readback.go: after a refusal or an unknown outcome the object is read, so that no later view
//     is older
//   - record.go, unproven.go: what is kept for the record of the run, and to find loops
//   - writer_end.go, leftover.go: how the writes of a run end, and what it leaves to the next run
//   - memo.go: which intents need not be sent again; catchup.go: what a new leader reads first
//
// # Concurrency
//
// A Writer may be used by several goroutines. Its mutex is a leaf. Applies to one object take
// turns, across all writers of a Port. Nothing is sent after the run, the term of leadership or the
// operator has ended (package lease).
//
// # What it does not do
//
// It does not decide who runs or when. The ledger of package trc, which this package fills, decides
// whether an event is our own write.
package write
