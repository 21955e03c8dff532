// Package benchmarks holds no code: it is the module that sets the framework beside
// controller-runtime and beside bare client-go loops, on one machine, against one API server, in
// one run. It is a module of its own so that no user's build gets to know the peer.
//
//	make bench-compare                                  # in the root folder: all of it, unattended
//	go run ./cmd/compare -quick                         # in this one: a look within a minute
//	go run ./cmd/compare -cpuprofile ours.pprof         # where our contender spends its CPU
//
// Package work is the work that all contenders do, contenders are the contenders and how one is
// measured, wire counts and delays what goes over the wire, cmd/compare runs rounds and prints the
// figures. Package workflows measures workflows, at rest and on their way, and interlocks what the
// interlock of providers and dependents asks of the API server; await waits for it. Package gaps
// shows, one test pair each, what the peer is known not to do and we do. README.md says what is
// measured, how, and what is not.
//
// # What it does not do
//
// It judges nothing: a figure beyond its limit is marked, and the program succeeds nevertheless,
// because machines are noisy. The tests of this module judge behaviour only, never speed.
package benchmarks
