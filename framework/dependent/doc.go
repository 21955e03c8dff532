// Package dependent provides workflow nodes for objects of the Kubernetes API: one object, or a set
// of them. An author describes how each object should look. The node then creates, changes, keeps
// or deletes it.
//
//	config := &dependent.Kubernetes[*v1.Page, *corev1.ConfigMap]{Desired: configMapOf}
//	deployment := &dependent.Kubernetes[*v1.Page, *appsv1.Deployment]{
//		DependsOn: []string{"configmap"}, Desired: deploymentOf, Ready: ready.Deployment,
//	}
//	framework.ControllerOptions[*v1.Page]{
//		Workflow: framework.Workflow[*v1.Page]{
//			Dependents: []framework.Dependent[*v1.Page]{config, deployment},
//		},
//	}
//
// They also work without a workflow: register the result of [Secondaries], and call
// [Kubernetes.Reconcile] from Reconcile.
//
// # Which objects belong to the primary
//
// An object belongs to the primary if it says so: by an owner reference with the primary's UID, or
// by marks ([Tie]). No other object is changed or deleted, whatever its name: that is an
// [ErrForeign], unless [Kubernetes.Adopt] takes over an object that belongs to nobody. An object
// that lost its tie is tied again if its managed fields show that the controller wrote it.
//
// Several dependents of one type are separated by the names of their desired objects, and the
// objects of a [Bulk] by a label ([SetKey]). Another label ([DependentKey]) marks what a
// [Kubernetes] wrote, so that it is found after the desired name has changed ([Former]).
//
// # What it costs
//
// Nothing while everything is as it should be: reads come from the cache, and an apply that the API
// server has confirmed is not sent again. A change by somebody else costs one request. Deleting an
// object that is gone costs none.
//
// # Concurrency
//
// A dependent must be set up by one goroutine, and must not be changed after it was registered. Its
// methods may then be called from any goroutine, for any number of primaries. It keeps no state
// between runs, so it may be registered again, with another operator.
//
// # What it does not do
//
// It does not wait. If something is not ready or not gone yet, an event starts a later run. It does
// not predict the result of an apply, but asks the API server, once.
//
// # Debugging
//
// Errors name the dependent and the object. The record of a run contains the requests and what they
// proved.
package dependent
