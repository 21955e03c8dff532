// Package workflow reconciles what a primary needs in order of dependency. A workflow is a directed
// acyclic graph of named nodes. Each node has functions that create and delete it, and conditions.
//
//	graph, err := workflow.New([]workflow.Node[*Page]{
//		{Name: "config", Reconcile: applyConfig, Delete: deleteConfig},
//		{Name: "deployment", DependsOn: []string{"config"}, ReadyPostcondition: available,
//			Reconcile: applyDeployment, Delete: deleteDeployment},
//		{Name: "ingress", DependsOn: []string{"deployment"}, ReconcilePrecondition: exposed,
//			Reconcile: applyIngress, Delete: deleteIngress},
//	}, workflow.Options{})
//	result := graph.Reconcile(ctx, page) // or Cleanup, in reverse order
//	if err := result.Err(); err != nil { ... }
//
// # A pass
//
// [Graph.Reconcile] starts a node once all its dependencies are reconciled and ready. Independent
// nodes run at the same time. A node that fails, or is not ready yet, holds back only the nodes
// that depend on it. A node whose precondition is not met is deleted, after all nodes that depend
// on it. So are the nodes that depend on an inactive node. [Graph.Cleanup] deletes all nodes: each
// one after the nodes that depend on it are gone.
//
// No pass waits for the outside world. A node that is not ready or not gone yet has such a state in
// the [Result], and the caller starts another pass when something has changed. A pass calls each
// function of a node at most once.
//
// # Concurrency
//
// A [Graph] is immutable and serves any number of primaries at a time. A pass calls the functions
// of up to [Options.Concurrency] nodes at the same time, and the functions of one node one after
// the other. All its goroutines have ended when it returns. The value that it hands to all
// functions must be safe for concurrent use. A [Result] belongs to the caller.
//
// # What it does not do
//
// It is independent of Kubernetes and keeps nothing between passes. It never retries, sleeps or
// polls, and interrupts no function: a cancelled pass starts nothing more, and returns when the
// functions that it has called have returned.
//
// # Debugging
//
// [Graph.Plan] returns the order, and [Result.Node] the state of a node and its reason.
// [Result.Mermaid] and [Result.DOT] draw the graph with the states.
package workflow
