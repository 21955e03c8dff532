// Figures prints the figures of an area of this module, one a line.
//
//	make figures AREA=house
//	figure user_modules 61
//	figure mutants_total 535
//
// A figure that takes long is not measured here but read from bin/, where make test, .ci/run and
// make mutants keep it. One that is not there has a line on standard error, which says how to
// measure it, and none on standard output. The program exits with 1 if anything else fails.
//
// Figures of the area house:
//   - test_seconds: how long the last make test took that passed.
//   - ci_seconds: how long the last .ci/run took that passed.
//   - user_modules: the modules that "go list -m all" prints for a module that requires this one
//     and imports its package framework, itself included, before the go command has completed its
//     go.mod.
//   - largest_package_lines: the lines of Go of the largest package without tests and generated
//     files.
//   - mutants_total, mutants_killed: the mutants, and those known to be killed on the tree as it
//     is.
//
// # Concurrency
//
// It is one goroutine.
package main
