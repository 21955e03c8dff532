// Package depth says how far the tests go that could go on without an end: models, explorations,
// random histories and crashes at every write. Only tests import it.
//
//	for seed := range depth.Of(uint64(40), 200, 2000) {
//
// There are three depths:
//   - with the race detector, which makes such tests about ten times as slow, and finds the same
//     races in few histories as in many.
//   - plain, as make test runs them a second time, and as internal/mutants runs them. At this depth
//     every mutant is killed. The package of such a test is in the list TWICE of the Makefile.
//   - long, as make test-long runs them, with EVENKEEL_LONG=1.
//
// # What it does not do
//
// It does not shorten a wait, and does not change what a test asserts.
package depth
