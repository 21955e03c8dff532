// Package finalrun keeps the deleted primaries that still need their final run. It is used by
// controllers with AllEvents.
//
// [FinalRuns] holds, for each name, the incarnation whose final run is due first, and the events
// that wait for it.
//
// # Concurrency
//
// All methods may be called at the same time. The mutex is a leaf.
package finalrun
