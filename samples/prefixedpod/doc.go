// Package prefixedpod is the second sample operator: one Pod with a given prefix and a random suffix,
// and never two, not even for a moment. A Pod that terminates still is one.
//
// reconciler.go is all there is to the operator; cmd/operator is the program.
//
// # Why it is so short
//
// It looks, and does the one thing that is missing. That is enough, as the framework sees to the rest:
//
//   - A Pod that was created in one run is there in the next, whatever the watch has delivered by then. So a
//     prefix that changes during the run that creates the first Pod finds that Pod, and deletes it.
//   - A deletion that the API server only began leaves the Pod there, as one that terminates. Its end is an
//     event, which brings the run that creates the next.
//   - A create whose answer is lost is repeated with the same random name, also by the next run: there are no
//     two.
//   - After a restart nothing runs before the caches have been listed consistently, and the Pod's owner reference
//     says whose it is.
//
// The tests count the Pods at every version there ever was (G11): TestG11InRandomHistories in virtual time with
// watches a minute late, and on real API servers with a process that dies at every write, and with simulated
// kubelets that are slow.
//
// # What it does not do
//
// It does not look at the suffix: a Pod a-b-x4k2p has the prefix a- as well as a-b-, and stays when the one is
// changed into the other. And nobody can take back a request: had a process died with its create still on the
// way, and arrived that after the next process had listed the Pods, there would be two.
package prefixedpod
