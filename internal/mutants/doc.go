// Package mutants holds the board of mutants: deliberately broken variants of the library, each of
// which some test must notice. A mutant that survives is a promise that nothing checks. The list is
// in the test code, one file for each package that is mutated.
//
//	make mutants                        # the whole board; goes on where a run was broken off
//	make mutants BOARD=fresh            # also tries those that were killed before
//	go test ./internal/mutants          # only that every mutant still fits the code, seconds
//	go test -v -count=1 -run /board/lanes ./internal/mutants -board   # those whose name matches
//
// A mutant names the guarantee it breaks, the file, the snippet of code that keeps the guarantee,
// what stands there instead, and the tests that must fail then. Nothing in the tree is modified:
// the broken files lie in a temporary folder, and the go command takes them through -overlay.
//
// # How a suite is compiled once for all mutants
//
// Compiling and linking the tests of one package takes up to half a minute. Running those about one
// rule takes a tenth of a second in most cases. So all mutants are compiled into the same program.
// The body of a function with mutants becomes a switch, whose default is the body as it is in the
// tree. The environment variable EVENKEEL_MUTANT names the mutant that is on. Without it, the
// program is the library without mutants. The few mutants that change more than one function's body
// are compiled separately.
//
// # What is kept
//
// bin/mutants.json has one line for each mutant that was killed: its name, a hash, the test that
// noticed it, and seconds. A mutant with the same hash is not tried again. The hash covers:
//   - the mutant,
//   - all files of this module that the tests are compiled from or read,
//   - go.mod, go.sum, the Go version and the settings of the go command that matter,
//   - the sources of the control plane, for tests that start one.
//
// The file is written after each mutant, so a run that is killed loses only those in progress.
// Survivors and faults are not kept. "all of" and a package is a suite that has passed without
// mutants.
//
// Tests that open other files of this module are a fault of the board. The files that programs open
// which the tests start are not checked, and environment variables are not part of the hash.
//
// # What is a fault of the board
//
// A kill is the failure of a test about the rule: one that the mutant names by run and focus. The
// failure of any other is a fault of the board. So is one that comes without the mutant, too: the
// same tests run once more without it, and have to pass on the machine as busy as it is. Mutants
// with the same tests share that run if it is at most five minutes old.
//
// The snippet must occur exactly once in its file: a rule that moved has to be noticed, and its
// mutant rewritten. The mutant must compile, and the tests must pass without it. A run that exceeds
// its time, or whose API server does not start, kills nothing unless the mutant says that it hangs.
// All of these fail the board; none counts as a kill.
//
// # Concurrency
//
// Mutants are independent; -parallel says how many are tried at a time. Several boards may run at
// the same time and share their results.
//
// # What it does not do
//
// It does not invent mutants: each stands for a mistake that somebody could make in a rule that
// matters.
package mutants
