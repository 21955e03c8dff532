// Package source has the parts of a controller's event sources.
//
// A [Description] is a Secondary without its type parameter; [Opened] is an open one. [Mapping]
// calls the author's functions that map objects to primaries, or that return index values. It
// records what reads lack while such a function hangs. [Supervised] runs an event source of the
// author's and isolates its failures. [SyncPolicy] is how long the start waits for a source.
//
// # What it does not do
//
// It starts no runs and schedules nothing: sources offer primaries to an [eventsource.Sink].
package source
