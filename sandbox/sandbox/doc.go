// Package sandbox starts and stops a real Kubernetes control plane from tests and
// programs, on this machine, for as long as they need it.
//
//	plane, err := sandbox.Start(ctx, sandbox.Options{})
//	if err != nil {
//		return err
//	}
//	defer plane.Stop(context.Background())
//	config, err := clientcmd.BuildConfigFromFlags("", plane.Kubeconfig())
//
// The control plane is etcd, kube-apiserver, kube-controller-manager,
// kube-scheduler and kwok, which plays the kubelet of any number of nodes: pods are
// scheduled, become Ready and go, without containers. Each is a process of its own,
// and can be made to fail:
//
//	err = plane.Component(sandbox.APIServer).Kill()
//	err = plane.Component(sandbox.APIServer).Start(ctx)
//
// This package compiles none of Kubernetes: it runs the sandbox program, which
// [FindBinary] finds or builds.
//
// # Concurrency
//
// A [ControlPlane] and its [Component]s may be used from several goroutines.
// Control planes are independent of each other; any number can run side by side.
//
// # Nothing is left behind
//
// [ControlPlane.Stop] stops every process and removes every temporary file. If this
// process ends without it, even by SIGKILL, a guard process does so. If both are
// killed, the components end by themselves, and the next control plane that is
// started with the same temporary folder removes the files. Proved by
// TestKilledOwnerLeavesNothing, TestTheNextStartCollectsWhatNobodyOwns and their
// neighbours.
//
// # What it does not do
//
// It runs no containers and no network: a Service has an address that nobody
// answers.
//
// # Other users of the machine
//
// They can connect to what listens on 127.0.0.1, and are nobody there: etcd serves
// only who has a certificate of its own authority, which is made at each start;
// kube-apiserver and the controllers tell strangers their version and health. All
// files can be read by their owner only. Proved by TestAnotherUserGetsNothing.
// An etcd that envtest starts from `sandbox assets` is configured by envtest: it
// has no authentication.
//
// # Debugging
//
// A component that fails is reported with the end of its log; [Component.Log] is the
// whole. [ControlPlane.Folder] holds everything else. All processes have
// EVENKEEL_SANDBOX_RUN=<folder> in their environment.
package sandbox
