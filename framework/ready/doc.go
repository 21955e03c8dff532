// Package ready judges whether objects are ready. Its functions fit the Ready field of a dependent,
// and can be called anywhere else.
//
//	dependent.Kubernetes[*v1.Page, *appsv1.Deployment]{
//		Desired: deploymentOf, Ready: ready.Deployment,
//	}
//	verdict := ready.Deployment(deployment)
//	verdict.Reason // "1 of 3 replicas are up to date and available"
//
// [Deployment], [StatefulSet], [DaemonSet], [Pod], [Job] and [PersistentVolumeClaim] judge one
// kind. [Condition] checks a condition of any object, and [Current] judges all built-in kinds and
// the conventions of others. [Every] judges each object of a set. They are pure functions of the
// object. A nil object, and one that is being deleted, is never ready. A verdict is stalled if
// somebody must intervene: see [workflow.Verdict].
//
// [CRDPresent] and [Gone] are conditions of workflow nodes, not of objects: whether a kind is
// served, and whether all objects of a secondary are gone.
package ready
