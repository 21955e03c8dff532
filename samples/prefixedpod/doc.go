// Package prefixedpod is the second sample operator. It keeps one Pod with a given prefix and a
// random suffix, and never two, not even for a moment. A terminating Pod counts.
//
// reconciler.go is the whole operator; cmd/operator is the program.
//
// # Why it is so short
//
// It reads the state, and does the one thing that is missing. That is enough, because the framework
// ensures the rest:
//
//   - A Pod that was created in one run is visible in the next, whatever the watch has delivered.
//     If the prefix changes during the run that creates the first Pod, the next run finds that Pod
//     and deletes it.
//   - A Pod whose deletion has only begun stays visible, as terminating. Its end is an event, which
//     starts the run that creates the next one.
//   - A create whose answer is lost is repeated with the same random name, also by the next run. So
//     there are no two Pods.
//   - After a restart nothing runs before the caches have been listed consistently, and the owner
//     reference of the Pod names its primary.
//
// The tests count the Pods at every version (G11): TestG11InRandomHistories in virtual time with
// watches that are a minute late, and others on real API servers with a process that dies at every
// write, and with slow simulated kubelets.
//
// # What it does not do
//
// It does not look at the suffix: a Pod a-b-x4k2p has the prefix a- as well as a-b-, and stays if
// one is changed to the other. And nobody can take back a request. If a process died with its
// create still under way, and the request arrived after the next process had listed the Pods, there
// would be two.
package prefixedpod
