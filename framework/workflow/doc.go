// Package workflow runs what a primary needs in the order in which one thing needs another: a directed acyclic
// graph of named nodes, each with functions that bring it about and take it away, and with conditions.
//
//	graph, err := workflow.New([]workflow.Node[*Page]{
//		{Name: "config", Reconcile: applyConfig, Delete: deleteConfig},
//		{Name: "deployment", DependsOn: []string{"config"}, Reconcile: applyDeployment, Delete: deleteDeployment,
//			ReadyPostcondition: available},
//		{Name: "ingress", DependsOn: []string{"deployment"}, Reconcile: applyIngress, Delete: deleteIngress,
//			ReconcilePrecondition: exposed},
//	}, workflow.Options{})
//	result := graph.Reconcile(ctx, page) // or Cleanup, in reverse order
//	if err := result.Err(); err != nil { ... }
//
// # A pass
//
// [Graph.Reconcile] starts a node once everything it depends on is reconciled and ready, nodes that do not depend
// on each other at the same time. What fails, or is not ready yet, holds back what depends on it and nothing else.
// A node whose precondition is not met is deleted, and before it all that depends on it; so is what depends on an
// inactive node. [Graph.Cleanup] deletes everything: a node once all that depends on it is gone.
//
// No pass waits for the world. What is not ready or not gone yet is a state in the [Result]; whoever calls does so
// again when something has changed. Each function of a node is called at most once a pass.
//
// # Concurrency
//
// A [Graph] is immutable: one serves any number of primaries at a time. A pass calls the functions of up to
// [Options.Concurrency] nodes at once, those of one node one after the other, on goroutines that have ended when the
// pass returns; what is handed through must bear that. A [Result] belongs to the caller.
//
// # What it does not do
//
// It knows nothing of Kubernetes, keeps nothing between passes, never retries, sleeps or polls, and interrupts
// nobody: a pass that is cancelled starts nothing more, and returns when what it has started has returned.
//
// # Debugging
//
// [Graph.Plan] tells the order, [Result.Node] what became of a node and why, [Result.Mermaid] and [Result.DOT] draw
// the graph with what they found.
package workflow
