// Package run is one controller, without the type of its primaries.
//
// A [Controller] turns changes into events, decides which of them make a primary due, and runs it. What the author wrote
// it knows as an [Author]. A [Run] is one run of one primary. A maintainer finds
//
//   - the life of a run from top to bottom: run.go; its state: state.go
//   - which changes trigger: trigger.go, filter.go, generation.go; which are our own: trigger.go, needsRun
//   - the finalizer and the writes of the primary: primary.go, status.go, reserved.go
//   - the last run of a primary that is gone: final.go
//   - sources that come and go while the controller runs: registry.go, registry_attend.go, registry_workflow.go
//   - the workflow of a run: workflow.go, workflow_sources.go
//   - primaries that do not fit their Go type: undecodable.go
//   - loops that a primary keeps up itself: loops.go
//   - records, events and health: record.go, events.go, health.go
//
// # Concurrency
//
// Runs of different primaries happen at the same time, those of one primary one after the other. Everything of a
// Controller but its maps with locks of their own is set before the first run.
package run
