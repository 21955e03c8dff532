// Package write sends the writes of runs, and makes the answers readable at once.
//
// A [Port] is what all writers to one API server share: its caches, the memory of confirmed
// intents, and one lock per object for applies. A [Run] is what one run writes, in all clusters. A
// [Writer] sends the writes of one run to one cluster, or those outside of runs ([New]).
//
// The way of a write, from top to bottom:
//
//   - writer.go: the object is looked up, and the request registered in the operator, the term of
//     leadership and the run; options.go: the options are checked; primary.go: the written object
//     names the primary
//   - intent.go, apply.go, applybypatch.go: an apply, from what is wanted to a request for the
//     version that reads show; memo.go: an intent that the server confirmed is not sent again;
//     keylock.go: applies to one object take turns
//   - verbs.go, patch.go, subresource.go, migrate.go: the other writes; rewrite.go: they must not
//     change fields that caches do not keep
//   - exchange.go: a [Request] and its exchange: it is sent, its answer is recorded as proof and
//     added to the caches; whether an event is one of these writes: the ledger of package trc,
//     asked by eventsource/ownwrite.go and package run (trigger.go)
//   - outcome.go: the request is repeated until its outcome is known
//   - readback.go: after a refusal or an unknown outcome the object is read, so that no later view
//     is older; generatename.go: a create whose name was generated is found by that name
//   - run.go, record.go, leftover.go: how the writes of a run end, what is kept of them, and what
//     they leave to the next run
//
// catchup.go says what a new leader reads first.
//
// # Concurrency
//
// A Run and its Writers may be used by several goroutines. Their mutexes are leaves. Applies to one
// object take turns, across all writers of a Port. Nothing is sent after the run, the term of
// leadership or the operator has ended (package lease).
//
// # What it does not do
//
// It does not decide who runs or when. The ledger of package trc, which this package fills, decides
// whether an event is our own write.
package write
