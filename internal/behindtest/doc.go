// Package behindtest shows, on a whole control plane, that no workload's Pod outlives the database
// that it uses. It consists of specs only. The controllers of workloads, the garbage collector and
// simulated nodes are running. Databases are Secrets, apps are ConfigMaps, and each app is
// implemented by a workload of one kind behind a gate.
//
// Each spec is one life: a kind of workload, and a way in which an app comes to leave its database.
// All Pods have a finalizer of the test, so none goes before the test lets it. The lives run side
// by side, in these steps:
//
//  1. each app runs; then others do their worst, until all is going, or gone, that can go before
//     the Pods (ways_test.go);
//  2. for each kind, one more app with free Pods comes and goes. When it is gone, the operators
//     have also handled what happened to the others before, as watches and queues keep the order;
//  3. the Pods are freed, and everything has to go.
//
// Watches beside the operators record all that happens (observer_test.go). A life is judged by
// resource versions, never by the time: a Pod that uses a database must be gone at a smaller one
// than the database (verdict_test.go). They can be compared, as all kinds are in one etcd. Of a
// reference that changes, a Pod that has succeeded or failed counts as gone.
//
// How to run it: go test ./internal/behindtest. That it can fail, TestTheVerdict… and the board of
// mutants (internal/mutants) show.
//
// # Concurrency
//
// All lives share one namespace and two operators. Each has a goroutine of its own.
//
// # What it does not do
//
// Operators are not killed, and watches are not late: see internal/interlocktest. Many more orders
// of events, in virtual time, are in framework/interlock.
package behindtest
