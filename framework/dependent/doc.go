// Package dependent makes nodes of a workflow out of the usual things that a primary needs: objects of the Kubernetes API, one or a set of
// them. An author says what each should look like; whether it is created, changed, left alone or deleted follows.
//
//	config := &dependent.Kubernetes[*v1.Page, *corev1.ConfigMap]{Desired: configMapOf}
//	deployment := &dependent.Kubernetes[*v1.Page, *appsv1.Deployment]{
//		DependsOn: []string{"configmap"}, Desired: deploymentOf, Ready: ready.Deployment,
//	}
//	framework.ControllerOptions[*v1.Page]{
//		Workflow: framework.Workflow[*v1.Page]{Dependents: []framework.Dependent[*v1.Page]{config, deployment}},
//	}
//
// They work without a workflow, too: register what [Secondaries] returns, and call [Kubernetes.Reconcile] from Reconcile.
//
// # What is the primary's
//
// An object is the primary's if it says so: by an owner reference with the primary's UID, or by marks ([Tie]). No other is changed or
// deleted, whatever its name: that is [ErrForeign], unless [Kubernetes.Adopt] takes over what nobody else has. An object that
// lost its tie is taken back, as its managed fields tell that the controller wrote it.
//
// Several dependents of a type are told apart by the names of what they desire, and the objects of a [Bulk] by a label ([SetKey]).
// Another label ([DependentKey]) tells what a [Kubernetes] wrote before the desired name changed ([Former]).
//
// # What it costs
//
// Nothing, where everything is as it should be: reads come from the cache, and an apply that the API server confirmed before is not sent
// again. What somebody else changes costs one request. Deleting what is gone costs none.
//
// # Concurrency
//
// A dependent is set up by one goroutine and not changed once it is registered; its methods may then be called from any, for any
// number of primaries. It keeps nothing between runs, so it may be registered again, with another operator.
//
// # What it does not do
//
// It does not wait: what is not ready yet, or not gone yet, is for a later run, which an event brings. It does not compute what an apply
// would do, but asks the API server, once.
//
// # Debugging
//
// Errors name the dependent and the object. The record of a run has the requests, and what they proved.
package dependent
