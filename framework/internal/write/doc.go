// Package write sends what runs write, and makes the answers readable at once.
//
// A [Port] is what all who write to one API server share: its caches, the memory of confirmed intents, and one lock per
// object for applies. A [Writer] is what one run writes through, or somebody outside of runs ([New]).
//
// The way of a write, from top to bottom:
//
//   - verbs.go, apply.go, patch.go: what is asked for is checked and becomes a [Request] for the very version that reads
//     show; owner.go and pruned.go: what it must name, and what it must not drop
//   - execute.go: the request is sent, and its answer is taken in: proven, then laid over the caches
//   - outcome.go: it is repeated until its outcome is known
//   - readback.go: what was refused, or stayed unknown, is read, so that no later view is older
//   - record.go, unproven.go: what is kept of it for the record of the run and against loops
//   - writer_end.go, leftover.go: how the writes of a run end, and what it leaves to the next one
//   - memo.go: which intents need not be sent again; catchup.go: what a new leader reads first
//
// # Concurrency
//
// A Writer may be used by several goroutines. Its mutex is a leaf. Applies to one object take turns, across all
// writers of a Port. Nothing is sent after the run, the term of leadership or the operator has ended (package lease).
//
// # What it does not do
//
// It decides neither who runs nor when. That an event is our own is decided by the ledger that this package fills:
// package trc.
package write
