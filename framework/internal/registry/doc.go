// Package registry holds the sources of one controller: what it reads, and what makes its primaries
// due.
//
// A source is a secondary or an event source of the author's. The sources of the options are
// required: they are opened at the start and last as long as the operator. All others are dynamic.
// Primaries hold them, and so may the operator; a source without a holder is closed when no run
// reads it.
//
//	r.DeclareSecondary("Secondaries[0]", s)   // required, or held by the operator with SyncOptional
//	r.Add(registry.Secondary(d), visit)       // dynamic: the primary of a run holds it
//	opened, err := r.Read(key, visit)         // open until the run ends
//	r.LetGo(primary)                          // the primary is deleted
//
// [Registry] counts who holds and who reads each source. [Opener] validates secondaries and opens
// them. [Visit] is what one run has used.
//
// # Concurrency
//
// Required sources are declared and opened before the first run, and never change after that.
// Dynamic ones are guarded by a mutex that is a leaf. host.Host.Changing is taken before it. Each
// dynamic source has a goroutine, which opens and closes it.
//
// # What it does not do
//
// It knows no runs and no scheduler: sources offer primaries to an [eventsource.Sink].
package registry
