// Package framework is what operator authors import. An author writes what the world should look
// like as a [Reconciler]; the framework sees to it that it runs when it must, reads nothing older
// than its own last write, and never runs twice at a time for one resource.
//
//	type Reconciler struct{ pods framework.Secondary[*corev1.Pod] }
//
//	func (r *Reconciler) Reconcile(ctx context.Context, page *v1.WebPage, c *framework.Context[*v1.WebPage]) (framework.UpdateControl[*v1.WebPage], error) {
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
// # The words
//
// A primary is the resource a controller reconciles, a secondary one that it reads or writes for it.
// A run is one call of Reconcile or Cleanup with what the framework does around it. They are the
// Java Operator SDK's words.
//
// # The life of a run
//
// The primary is read through the cache with the controller's own writes laid over it. If it is
// being deleted and carries the controller's finalizer, Cleanup runs and the finalizer is taken off.
// Otherwise a missing finalizer is put on, and Reconcile runs in the same run with the object the
// server returned. What its [UpdateControl] asks for is written; an error leads to a retry with
// back-off. A reconciler that is no [Cleaner] has no finalizer, unless its [Workflow] has something to delete.
//
// # Looking up
//
// A run reads what it declared: through its [Secondary], by an [Index], or by type with [One], [All], [Each] and [GetNamed]; other primaries
// through [Context.Primaries], and what external systems hold with [Value], [Values] and [ValueByID]. Whose a secondary is, [Secondary.By] says,
// or [Referred].
//
// # What comes and goes
//
// A controller whose kinds are not served yet waits for them, and so it does for whatever fails later:
// [Operator.Ready] says for what, the others run. An object that does not fit its Go type is set aside until it
// does: it has no runs, keeps its finalizers, and is told of as a Kubernetes event and as [conditions.Stalled].
// [Operator.SetNamespaces] and [Operator.SetControllerNamespaces] change what is watched. Further secondaries and sources are
// added by runs, with [Context.AddSecondary] and [Context.AddSource], and go when no primary holds them any more.
//
// # Workflows
//
// What primaries need may be declared as a [Workflow]: nodes that depend on each other, with conditions. A pass goes through it before
// each Reconcile, and in deletion, the other way, before each Cleanup; the controller's finalizer stays on until everything is gone. See package
// workflow for the rules, [Context.WorkflowResult] for what came of a pass, and [conditions.MarkWorkflow] to show it in conditions.
//
// # Several instances
//
// In a cluster, instances of an operator elect the one that works, by a Lease of the operator's name; the others
// stand by with filled caches, and their writes are refused with [ErrStandby]. See [LeaderElection].
// [Operator.Ready] suits a readiness probe, [Operator.Alive] a liveness probe.
//
// # Concurrency
//
// An [Operator] is set up from one goroutine and run once; its other methods may be called from any. Reconcile is called from many goroutines,
// never twice at a time for one primary. A [Context] belongs to its run: its methods may be called
// from goroutines of the run, and writes fail once the run has ended.
//
// # Ownership
//
// Objects that the framework hands to an author are private copies. Objects that an author hands to
// the framework are not changed and not kept.
//
// # How to debug it
//
// Log at V(1) for one line per run with its causes, V(4) for the traffic of the caches;
// [Operator.Records] returns the newest runs with causes, writes and outcome.
package framework
