// Package run is one controller, without the Go type of its primaries.
//
// A [Controller] turns changes into events, decides which of them make a primary due, and runs the
// primary. The author's code is behind the interface [Author]. A [Run] is one run of one primary.
// Where to find things:
//
//   - the life of a run from top to bottom: run.go; its state: state.go
//   - which changes trigger a run: trigger.go, filter.go, generation.go; which changes are our own
//     writes: trigger.go, needsRun
//   - the finalizer and the writes of the primary: primary.go, status.go, reserved.go
//   - the final run of a deleted primary: final.go
//   - the start: start.go; sources that are added while the controller runs: dynamic_sources.go;
//     the sources themselves are in the room registry
//   - the workflow of a run: workflow.go, workflow_sources.go
//   - undecodable primaries: undecodable.go
//   - primaries whose own runs make them due again: loops.go
//   - records, events and health: record.go, events.go, health.go
//
// # Concurrency
//
// Runs of different primaries may happen at the same time. Runs of one primary happen one after the
// other. All fields of a Controller are set before the first run, except the maps and registries
// that have locks of their own.
package run
