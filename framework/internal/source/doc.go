// Package source has what the event sources of a controller are made of.
//
// A [Description] is a Secondary without its type parameter; [Opened] is how it is read. [Mapping] calls the functions
// of authors that map objects to primaries, or file them in an index, and knows what reads lack while one hangs.
// [Supervised] runs an event source that the author brought: whatever that does wrong, the others go on.
// [SyncPolicy] is how long the start waits for a source.
//
// # What it does not do
//
// It knows no runs and no scheduler: sources emit to an [eventsource.Sink].
package source
