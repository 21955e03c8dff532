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
// Figures of the area testkit:
//   - testkit_lives_per_second: the lives of the WebPage story that a second of processor time
//     gives.
//   - testkit_bad_operators_found, testkit_false_alarms: the bad operators that the test kit finds,
//     and the failures of correct ones.
//   - testkit_author_lines_prefixedpod, testkit_author_lines_webpage: the lines of a sample's
//     scenario.
//
// Figures of the area seeing:
//   - noop_run_with_metrics_vs_without: the processor time of a run that does nothing, with
//     metrics, as a part of that of one without; the median of rounds in turns, the worse of 1 and
//     16 workers.
//   - record_bytes_per_run: what the heap grows by with the record of a run that has one cause and
//     sends two writes.
//   - plan_false: the simulated worlds in which a plan is not what is then written.
//   - fights_found, fights_false: the planted fights and loops that are named, and those that are
//     named where there are none.
//   - secret_leaks: the values, of all that are planted, that something shows which must not.
//
// Figures of the area onramp:
//   - adapter_runs_per_object, adapter_writes_per_object, adapter_conflicts_per_object: what a
//     reconciler of controller-runtime needs for an object, unchanged, on a real API server.
//
// # Concurrency
//
// It is one goroutine.
package main
