// Package run is one controller, without the Go type of its primaries.
//
// A [Controller] is what the others share: its options, stores, sources and scheduler. Where to
// find things:
//
//   - the life of a run from top to bottom: run.go, execution; what authors read in a run:
//     state.go, [Run]
//   - the finalizer and the writes of the primary: primary.go, primaryWriter; status.go,
//     reserved.go
//   - which changes trigger a run: trigger.go, primaryHandler; filter.go, generation.go
//   - which changes are our own writes: trigger.go, needsRun; it asks eventsource/ownwrite.go, and
//     that asks the ledger of package trc, in which package write (exchange.go) records each answer
//   - a primary that is deleted, also during a run, and its final run; another one that gets its
//     name: deleted.go
//   - what is kept for a primary between its runs: states.go, primaryStates; primaries whose own
//     runs make them due again: loops.go
//   - the start: start.go, [Startup]; changes of namespaces: namespaces.go, [Namespaces]
//   - sources that are added while the controller runs: dynamic_sources.go, [Holder]; the sources
//     themselves are in the room registry
//   - the workflow of a run: workflow.go, workflow_sources.go
//   - undecodable primaries: undecodable.go
//   - what people are told: record.go, [Records]; events.go, notices; health.go
//
// The author's code is behind the interface [Author].
//
// # Concurrency
//
// Runs of different primaries may happen at the same time. Runs of one primary happen one after the
// other. All fields of a Controller are set before the first run, except the maps and registries
// that have locks of their own.
package run
