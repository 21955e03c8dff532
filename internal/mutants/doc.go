// Package mutants holds the board of mutants: deliberately broken variants of the library, each of which
// some test must notice. A mutant that survives is a promise that nothing checks. The list is in the test
// code, one file for each package that is mutated.
//
//	make mutants                        # the whole board, about ten minutes
//	go test ./internal/mutants          # only that every mutant still fits the code, seconds
//	go test -v -run /board/lanes ./internal/mutants -board   # those whose name matches
//
// A mutant names the guarantee it breaks, the file, the snippet of code that keeps the guarantee, what stands
// there instead, and the tests that must fail then. Nothing in the tree is modified: the broken file lies in
// a temporary folder, and the go command takes it through -overlay.
//
// # What is a fault of the board
//
// A kill is the failure of a test about the rule: one that the mutant names by run and focus. The
// failure of any other is a fault of the board. So is one that comes without the mutant, too: the same
// tests run once more without it, and have to pass on the machine as busy as it is.
//
// The snippet must occur exactly once in its file: a rule that moved has to be noticed, and its mutant
// rewritten. The mutant must compile, and the tests must pass without it. A run that exceeds its time, or
// whose API server does not start, kills nothing unless the mutant says that it hangs. All of these fail
// the board; none counts as a kill.
//
// # Concurrency
//
// Mutants are independent; -parallel says how many are tried at a time.
//
// # What it does not do
//
// It does not invent mutants: each stands for a mistake that somebody could make in a rule that matters.
package mutants
