// Testreport prints what "go test" would print, from the streams of one or more "go test -json",
// and then the slowest packages and tests.
//
//	{ go test -json ./...; go test -json -run Model ./trc; } | go run ./internal/testreport
//
// It is for make test. A package that passes is one line. Of a package that fails it prints the
// output of the tests that failed or have not ended, what else was written to standard output, and
// all that belongs to no test, as crashes do. Only the logs of tests that passed are left out, as
// the go command does, and client-go's warning about its detector of changed objects. Lines that
// are not events are printed as they are.
//
// The last line is
//
//	figure test_seconds 310
//
// which is from the start of this program until its input ends: compiling is included. With -keep,
// the number is also written to a file, unless something failed.
//
// Suites of ginkgo are one test to the go command. Those that import internal/spectimes append the
// time of each spec to the file that the environment variable EVENKEEL_SPEC_TIMES names; -specs
// reads it.
//
// It exits with 1 if a test failed, a package did not compile or did not end, or there were no
// packages at all. A go command that fails otherwise has to be noticed by the shell (pipefail).
//
// # Concurrency
//
// It is one goroutine.
package main
