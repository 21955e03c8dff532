// Package freshnesstest holds the freshness guarantees against a real API server on bad days; it
// consists of tests only. An operator that writes in every way (the keeper, in some scenarios with
// an auditor beside it) runs behind internal/faultproxy, whose plans are in testdata, or behind
// internal/wire, while foreign clients race it. After every epoch the faults end, and what the
// operator's runs saw is judged by the truth of etcd:
//
//   - G01 G02 G03: every read is at least as new as what was read or acknowledged before it began,
//     also across a restart of the operator, and absent only if etcd says so (witness_test.go);
//   - G01: what a cache shows of a version is what the server had at it, in each Go form that a
//     kind is cached in, also if its Go type lacks fields that others write (tools_test.go,
//     forms_test.go);
//   - G04: the runs have seen every foreign change that still shows, and nothing obsolete last
//     (verdict_test.go);
//   - G05: without foreign changes each primary has one run, with the requests that it needs;
//   - G12: the desired state is reached, and then nothing is written;
//   - G13: a create whose answer was lost with its connection is not carried out twice
//     (sockets_test.go);
//   - G14: no write of the operator's is on another object than the one it was computed from;
//   - G16: nothing is left of what is kept for freshness.
//
// How to run it: go test ./internal/freshnesstest. FRESHNESS_SEED repeats what the foreign clients
// of a run did, whose seed it prints, as far as two sides that race can be repeated. SOAK=10m goes
// on with fresh seeds for that long; give -timeout too, or use make test-long.
//
// # Concurrency
//
// Scenarios run one after the other, each in namespaces of its own: a fault needs the processor for
// itself.
//
// # What it does not do
//
// It does not look at the insides of the caches: that is what the models of package trc are for,
// which are faster by far. It does not crash the process: a restart is a stop and a new Operator.
package freshnesstest
