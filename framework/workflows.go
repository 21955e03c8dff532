package framework

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework/internal/host"
	"github.com/evenkeel/evenkeel/framework/internal/run"
	"github.com/evenkeel/evenkeel/framework/workflow"
)

// Dependent is something that each primary of type P needs: what package dependent makes, or a [Node] of the author's own.
type Dependent[P Object] interface {
	// Describe says what it is. It is called once, when the controller is registered; an error ends the registration.
	Describe() (Node[P], error)
}

// Node is a place in a [Workflow], with what it reads from. Its functions are handed the [Context] of the run, as Reconcile is:
// what they read and write through it counts as the run's. They may be called at the same time as those of other nodes, so they
// must not change [Context.Primary], which all of them and Reconcile share.
type Node[P Object] struct {
	workflow.Node[*Context[P]]
	// Secondaries and Sources are registered with the controller, as if they were among [ControllerOptions.Secondaries]
	// and [ControllerOptions.Sources]; several nodes may share one, and the options may have it, too.
	//
	// Those that only nodes with an ActivationCondition and without DeleteInactive have are there only while that is met for some primary: before the other
	// functions of an active node the framework adds them, for its primary, and the node waits until they are filled; after a pass that
	// has left all their nodes inactive it ends that hold. Without any, reads of them fail with [ErrInactive]. Runs can neither
	// add nor remove them: [Context.AddSecondary], [Context.AddSource] and [Context.RemoveSource] say so.
	Secondaries []SecondarySource
	Sources     []eventsource.Source
	// Check, if set, says whether the node makes sense where it is. It is called once, when the controller is registered, with the nodes of the workflow,
	// Explicit or not, as they were described, when the order of these is known to exist; an error ends the registration. It must not change them. Default: it does.
	Check func(nodes []Node[P]) error
	// Tag is for Check: what a package that makes nodes knows its own by. Nothing else looks at it. Default: none.
	Tag any
}

// Describe makes a Node a [Dependent].
func (n Node[P]) Describe() (Node[P], error) { return n, nil }

// NodesBefore returns the names of the nodes that the named one depends on, directly or not, for [Node.Check]. It returns
// none for a name that no node has.
func NodesBefore[P Object](nodes []Node[P], name string) map[string]bool {
	before := map[string]bool{}
	for open := []string{name}; len(open) > 0; open = open[1:] {
		at := slices.IndexFunc(nodes, func(n Node[P]) bool { return n.Name == open[0] })
		if at < 0 {
			continue
		}
		for _, next := range nodes[at].DependsOn {
			if !before[next] {
				before[next] = true
				open = append(open, next)
			}
		}
	}
	return before
}

// Workflow is what primaries need and in which order: see package workflow. The zero value is none.
//
// A pass goes through it in each run: [workflow.Graph.Reconcile] before Reconcile, [workflow.Graph.Cleanup] before
// Cleanup, if the reconciler is a [Cleaner]. What is not ready yet is no failure: Reconcile is called, and [Context.WorkflowResult] tells
// it. What a cleanup has not seen gone keeps the finalizer on the primary, until an event brings the next run.
//
// If a cleanup has anything to do (see [workflow.Graph.Cleans]), primaries have the controller's finalizer, even if the reconciler is no
// Cleaner; it goes once everything is gone and Cleanup, if there is one, agrees. With [ControllerOptions.AllEvents], which puts no
// finalizer on, such a workflow must be Explicit; a pass is made only for primaries that are there and not in deletion.
type Workflow[P Object] struct {
	// Dependents are its nodes.
	Dependents []Dependent[P]
	// Concurrency bounds the nodes of one run that are worked on at a time. Default [workflow.DefaultConcurrency].
	Concurrency int
	// Explicit leaves it to Reconcile to call [Context.ReconcileWorkflow], and to Cleanup, if there is one, to call
	// [Context.CleanupWorkflow], and to keep the finalizer until everything is gone. Without a Cleanup that is seen to all the
	// same. Default: a pass is made before each Reconcile and before each Cleanup.
	Explicit bool
	// LeaveErrors has Reconcile and Cleanup called although nodes failed, which [Context.WorkflowResult] tells. Conflicts and sources
	// that are not filled are no failures, and a cleanup that failed is retried unless Cleanup keeps the finalizer. Default: the run
	// fails with all errors of the pass. Reconcile is not called, but ErrorStatus is; in deletion neither Cleanup nor ErrorStatus is.
	LeaveErrors bool
}

// ErrInactive is what reads of a secondary or a source return that belongs to a [Workflow] and is not there, as no primary has an
// active node that reads from it. Who reads it in Reconcile has to expect that.
var ErrInactive = host.ErrInactive

// WorkflowGraph is the shape of a controller's workflow.
type WorkflowGraph struct{ graph run.Graph }

// Plan returns the names of the nodes in waves: see [workflow.Graph.Plan].
func (g WorkflowGraph) Plan() [][]string { return g.graph.Plan() }

// Mermaid draws the graph as a Mermaid flowchart, without states: those are in [Operator.WorkflowResult].
func (g WorkflowGraph) Mermaid() string { return g.graph.Mermaid() }

// DOT draws it in Graphviz's language.
func (g WorkflowGraph) DOT() string { return g.graph.DOT() }

// WorkflowGraph returns the graph of a controller's workflow, and false if there is no such controller or it has none.
func (op *Operator) WorkflowGraph(controller string) (WorkflowGraph, bool) {
	c, err := op.controllerNamed(controller)
	if err != nil {
		return WorkflowGraph{}, false
	}
	graph, exists := c.WorkflowGraph()
	return WorkflowGraph{graph}, exists
}

// WorkflowResult returns what the newest pass for a primary came to, without the details of verdicts, and false if there was none, or if
// the primary is gone. Nobody must change it. One is kept for each primary, as long as that exists.
func (op *Operator) WorkflowResult(controller string, primary types.NamespacedName) (*workflow.Result, bool) {
	c, err := op.controllerNamed(controller)
	if err != nil {
		return nil, false
	}
	return c.WorkflowResult(primary)
}
