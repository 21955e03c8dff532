// Package components holds the programs of the control plane: etcd,
// kube-apiserver, kube-controller-manager, kube-scheduler, kwok and kubectl,
// each unchanged upstream code called through its own entry point.
//
// It is the only package of this module that compiles Kubernetes. main imports
// it; nothing else may, or programs that merely use the library would compile
// Kubernetes too.
//
//	if components.Known(name) {
//		os.Exit(components.Run(name, arguments))
//	}
//
// # One per process
//
// The upstream programs read os.Args and register global flags and metrics. So
// [Run] rewrites os.Args, and may be called once in the life of a process. Each
// component therefore is a process of its own, started by executing this same
// binary again under the component's name.
//
// # Orphans
//
// A server (everything but kubectl) ends itself when the process that started it
// is gone; see [watchParent]. kubectl is a command of the user's and does not.
//
// # What it does not do
//
// It does not decide which flags a component gets (package sandbox does), nor
// which are up (package sandbox again).
//
// # Debugging
//
// Each component can be run by hand, with upstream's own flags:
//
//	sandbox kube-apiserver --help
package components
