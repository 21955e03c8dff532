// Package weathertest holds what only a real API server shows of operators in bad weather; it
// consists of specs only, which look from outside as an operator's author can:
//
//   - two operators and a third party fight over the finalizers of the same objects (fight_test.go:
//     G09, G14);
//   - objects are deleted, and made anew, around every status write of a run (deletion_test.go:
//     G03, G07, G14);
//   - others change every primary and secondary as fast as they can (storm_test.go: G08, G12);
//   - the server throttles, fails and hangs up in bursts (bursts_test.go: G07, G08, G12, G15);
//   - connections break before requests have arrived and before answers have come (sockets_test.go:
//     G07, G12, G13);
//   - one page has more secondaries than a run is told of causes, and they cost one run
//     (many_test.go: G05, G12);
//   - hundreds of objects come, change and go, and nothing is left of them (thousand_test.go: G05,
//     G16).
//
// What was really written, a watch of etcd beside the operators tells (chronicle_test.go).
//
// How to run it: go test ./internal/weathertest. With EVENKEEL_LONG=1, as in make test-long, the
// objects are 10,000.
//
// # Concurrency
//
// Specs run one after the other, each in a namespace of its own: they need the processor for
// themselves.
//
// # What it does not do
//
// Restarts of the API server, of the operator and of its leader, and namespaces and kinds that come
// and go, are in the suite of package framework; what reads may return on bad days, is in
// internal/freshnesstest.
package weathertest
