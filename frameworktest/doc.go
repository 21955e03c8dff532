// Package frameworktest tests operators: one run, one story, or one story through every fault.
//
// [Everywhere] tells a [Scenario] in virtual time, without a server: what users do, once
// undisturbed, and then once for each write of the operator and each kind of fault. The end must
// always be the same.
//
//	func TestEverywhere(t *testing.T) {
//		frameworktest.Everywhere(t, frameworktest.Scenario{
//			CRDs: "config/crd/bases", Scheme: scheme, Register: register,
//			Story: func(w *frameworktest.World) {
//				w.Create(page)
//				w.Rest()
//				w.Merge(page, `{"spec":{"text":"hi"}}`)
//				w.Rest()
//				w.Delete(page)
//			},
//		})
//	}
//
// [Start] gives one such world to step through. [OnServer] and [Run] do the same on a real API
// server. [NewContext] makes the Context of one run, for a unit test of Reconcile.
// [CheckDependent] and [CheckSource] check an author's own dependents and event sources against
// their contracts. docs/testing.md says which to use when.
//
// # Concurrency
//
// Lives of a scenario run in parallel, each in a bubble of its own: its functions must not change
// what they share. A [World] is used by one goroutine at a time. Checks run in the caller's
// goroutine, and do not affect each other.
//
// The first life changes two settings of the process, for good: client-go's errors are no longer
// slowed down, and GOGC becomes 400 unless it is set.
//
// # What it does not do
//
// The world in virtual time is a model. It is compared with a real API server by random operations;
// docs/testing.md has the list of what it lacks. A mistake that is the same in all lives is found
// only by [Scenario.Always], [Scenario.End] or the story itself. External systems are what the test
// says they are.
//
// # Debugging
//
// A failure prints the line that repeats its one life; see [OnlyVariable]. [World.Logf] writes into
// the timeline.
package frameworktest
