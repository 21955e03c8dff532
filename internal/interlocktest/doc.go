// Package interlocktest shows the interlock of package framework/interlock on real servers, with
// two stores; it consists of specs only. Databases (Secrets, the providers) are in one etcd, apps
// (ConfigMaps, the dependents) in another, whose changes have no common order. The guard and the
// implementer of the apps are operators in processes of their own, which are killed at random and
// started again, each behind a proxy whose plans (testdata) show it one kind seconds after the
// other. Others create, change, replace and delete both kinds without regard for that.
//
// An app is implemented on a database where there is a Lease that names the UIDs of both. It is in
// the databases' etcd, which orders its changes. What both etcds tell of themselves is checked all
// the time:
//
//   - no Lease exists at a revision at which its database does not, which is G10 exactly. Excused
//     are databases that were created without the finalizer, got it, and were then deleted without
//     ever having been in deletion: only a race of the API server does that (docs/design/0023);
//   - no Lease exists but while its app claims that database, and if its deletion was requested, by
//     a claim that was stored before that, or while others had claimed it without a break since
//     then: one may join them. Where the order of the two etcds is in doubt, nothing is said
//     (order_test.go);
//   - no database that had the finalizer when its deletion was requested vanishes while an app has
//     a claim that was stored before that, with the same proviso;
//   - in the end everything was deleted, in any order, and nothing of the three kinds is left in
//     either etcd.
//
// How to run it: go test ./internal/interlocktest. INTERLOCK_SEED repeats what the others of a run
// did, whose seed it prints, and the plans; what becomes of that is up to the processes. With
// EVENKEEL_LONG=1, as in make test-long, there are 10,000 life cycles, and not 240.
// EVENKEEL_FIGURES=1 prints how many were checked. That it can fail, judge_test.go and the board of
// mutants (internal/mutants) show.
//
// # Concurrency
//
// Specs, of up to 500 lives each, run one after the other: they need the processor for themselves.
//
// # What it does not do
//
// Thousands of histories, in virtual time, are for the tests of package framework/interlock. The
// apps are of a built-in kind, as API servers keep custom resources in one store. What the API
// server carries out of a killed process's requests, it has carried out before the next process
// starts: kill waits for that. An implementation that is created later than that is one that nobody
// can know of, and no interlock can prevent it (docs/concepts/interlock.md).
package interlocktest
