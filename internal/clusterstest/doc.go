// Package clusterstest holds what is promised of sources against two real control planes on bad
// days; it consists of tests only. An operator has its primaries, pages, in one cluster, and copies
// of them, ConfigMaps, in the other (or in the same, for comparison), behind internal/faultproxy.
// Others change both, also while the way to the copies, or the cluster they are in, is out of
// order. Once that has ended, without a restart of the operator:
//
//   - every copy is as its page says, and what others wrote into it beside that was seen by a run
//     (G04, G12);
//   - no run read less than was written or read before (G01, G02), nor an object that was gone
//     (G03);
//   - own writes made no further run (G05), and nothing is left of what is kept for freshness
//     (G16);
//   - while it lasted, [framework.Operator.Ready] named the source (G18), and another controller
//     worked on (G15).
//
// How to run it: go test ./internal/clusterstest. It takes three minutes, most of it until silence
// is noticed.
//
// # Concurrency
//
// First come the tests that stop or replace the other control plane, one after the other. The rest
// run at the same time, each world in namespaces of its own and behind a proxy of its own.
//
// # What it does not do
//
// It does not look for races of requests with faults: that is what package freshnesstest is for.
package clusterstest
