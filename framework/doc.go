// Package framework is the package that operator authors import. An author writes a [Reconciler].
// The framework calls it when something has changed. Its reads return the operator's own last write
// or something newer. There is never more than one call at a time for one primary.
//
//	type Reconciler struct{ pods framework.Secondary[*corev1.Pod] }
//
//	func (r *Reconciler) Reconcile(
//		ctx context.Context, page *v1.WebPage, c *framework.Context[*v1.WebPage],
//	) (framework.UpdateControl[*v1.WebPage], error) {
//		...
//		return framework.PatchStatus(page), nil
//	}
//
//	op, err := framework.NewOperator(restConfig, framework.OperatorOptions{Scheme: scheme})
//	r := &Reconciler{}
//	err = framework.Register(op, r, framework.ControllerOptions[*v1.WebPage]{
//		Secondaries: framework.Secondaries(&r.pods),
//	})
//	err = op.Run(ctx)
//
// # Terms
//
// A primary is the resource that a controller reconciles. A secondary is a resource that the
// controller reads or writes for it. A run is one call of Reconcile or Cleanup, with what the
// framework does around it. The terms are those of the Java Operator SDK.
//
// # The life of a run
//
// The primary is read from the cache, overlaid with the operator's own writes. If the primary is
// being deleted and carries the controller's finalizer, Cleanup runs and the finalizer is removed.
// Otherwise a missing finalizer is added, and Reconcile runs in the same run with the object that
// the server returned. What its [UpdateControl] asks for is written. An error leads to a retry with
// back-off. A controller has no finalizer if its reconciler is not a [Cleaner] and its [Workflow]
// has nothing to delete.
//
// # Reads
//
// A run reads what the controller declared:
//   - secondaries by a [Secondary], by an [Index], or by type with [One], [All], [Each] and
//     [GetNamed]; [Secondary.By] or [Referred] map them to their primaries;
//   - other primaries with [Context.Primaries];
//   - values of external systems with [Value], [Values] and [ValueByID].
//
// # Changes while the operator runs
//
// A controller waits for kinds that are not served yet, and for whatever fails later. The other
// controllers run. [Operator.Ready] reports what is missing.
//
// An object that cannot be decoded into its Go type is undecodable until it decodes again. Until
// then it has no runs and keeps its finalizers. A Kubernetes event ([ReasonUndecodable]) and the
// condition Stalled of package conditions report it.
//
// [Operator.SetNamespaces] and [Operator.SetControllerNamespaces] change the watched namespaces.
// Runs add further secondaries and sources with [Context.AddSecondary] and [Context.AddSource].
// These are removed when no primary holds them.
//
// # Workflows
//
// A [Workflow] declares what primaries need: nodes that depend on each other, with conditions. It
// runs before each Reconcile. In deletion it runs in reverse order before each Cleanup, and the
// controller's finalizer stays until everything is gone. Package workflow describes the rules,
// [Context.WorkflowResult] returns the result, and MarkWorkflow of package conditions shows it in
// conditions.
//
// # Several instances
//
// In a cluster, the instances of an operator elect the one that works, by a Lease of the operator's
// name. The others stand by with filled caches, and their writes fail with [ErrStandby]. See
// [LeaderElection]. [Operator.Ready] suits a readiness probe, [Operator.Alive] a liveness probe.
//
// # Concurrency
//
// An [Operator] is set up by one goroutine and run once. Its other methods are safe for concurrent
// use. Reconcile is called concurrently, but never twice at a time for one primary. A [Context]
// belongs to its run: goroutines of the run may call its methods, and writes fail once the run has
// ended.
//
// # Ownership
//
// Objects that the framework passes to an author are private copies. Objects that an author passes
// to the framework are neither changed nor kept.
//
// # How to debug it
//
// Log at V(1) for one line per run with its causes, and at V(4) for the traffic of the caches.
// [Operator.Records] returns the newest runs with causes, writes and outcome.
package framework
