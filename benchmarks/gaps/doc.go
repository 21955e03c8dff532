// Package gaps is a set of tests: for each known gap of controller-runtime 0.25.2 one pair, in
// which the peer shows the gap and this framework does not. That the peer shows it is asserted, so
// that the comparison stays honest and it is noticed when the peer improves. All of them run
// against a real API server:
//
//	go test ./gaps/
//
// Most gaps are those of the peer's read-your-writes mode, which is experimental and off by
// default; without it reads are stale, which one of the tests shows.
//
// # What it does not do
//
// It does not measure time. Where the peer blocks, a read is given a second that it does not need,
// and nothing but that it blocks follows from the outcome.
package gaps
