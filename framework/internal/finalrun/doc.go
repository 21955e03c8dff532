// Package finalrun keeps the primaries that are gone and still owe their last run, in the all-events mode.
//
// [FinalRuns] says, for a name, which incarnation is due first, what waits behind it, and when it is settled.
//
// # Concurrency
//
// All methods may be called at the same time. The mutex is a leaf.
package finalrun
