package framework

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework/internal/host"
	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/framework/internal/run"
	"github.com/evenkeel/evenkeel/framework/internal/safely"
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

// manage sets up the workflow of the options. What is always read by its nodes is among the options afterwards.
func manage[P Object](c *run.Controller, given Workflow[P]) (*workflow.Graph[*Context[P]], error) {
	m := &c.Workflow
	m.Exists, m.Explicit, m.Leaves = len(given.Dependents) > 0, given.Explicit, given.LeaveErrors
	nodes, errs := describeNodes(c, given.Dependents)
	if err := readBy(c, nodes); err != nil {
		errs = append(errs, err)
	}
	plain := make([]workflow.Node[*Context[P]], len(nodes))
	for i, node := range nodes {
		plain[i] = node.Node
		if own := m.DormantOf(i); len(own) > 0 {
			plain[i].Activate = activation(own, node.Activate)
		}
	}
	var graph *workflow.Graph[*Context[P]]
	var err error
	if len(errs) == 0 { // or what is missing would be complained about twice
		if graph, err = workflow.New(plain, workflow.Options{Concurrency: given.Concurrency}); err != nil {
			errs = append(errs, fmt.Errorf("framework: controller %q: Workflow: %w", c.Name, err))
		} else {
			m.Graph, m.Deletes = graph, graph.Cleans()
			errs = checkNodes(c, nodes)
		}
	}
	return graph, errors.Join(errs...)
}

// checkNodes asks the nodes whether they make sense together.
func checkNodes[P Object](c *run.Controller, nodes []Node[P]) (errs []error) {
	for _, node := range nodes {
		if node.Check == nil {
			continue
		}
		if err := safely.AskOnce("Check", func() error { return node.Check(nodes) }); err != nil {
			errs = append(errs, fmt.Errorf("framework: controller %q: Workflow: node %q: %w", c.Name, node.Name, err))
		}
	}
	return errs
}

// describeNodes asks the dependents what they are.
func describeNodes[P Object](c *run.Controller, dependents []Dependent[P]) (nodes []Node[P], errs []error) {
	for i, dependent := range dependents {
		fail := func(err error) {
			errs = append(errs, fmt.Errorf("framework: controller %q: Workflow.Dependents[%d]: %w", c.Name, i, err))
		}
		if object.IsNil(dependent) {
			fail(errors.New("is nil"))
			continue
		}
		var node Node[P]
		err := safely.AskOnce("Describe", func() (err error) {
			node, err = dependent.Describe()
			return err
		})
		if err != nil {
			fail(err)
			continue
		}
		nodes = append(nodes, node)
	}
	return nodes, errs
}

// readBy sorts what the nodes read: what is always there goes to the options, which are the author's no more then.
func readBy[P Object](c *run.Controller, nodes []Node[P]) error {
	c.Options.Secondaries, c.Options.Sources = slices.Clone(c.Options.Secondaries), slices.Clone(c.Options.Sources)
	var errs []error
	for _, conditional := range []bool{false, true} { // those that are always there first
		for i, node := range nodes {
			if node.comesAndGoes() != conditional {
				continue
			}
			for j, secondary := range node.Secondaries {
				if err := c.ReadSecondary(i, secondary, conditional); err != nil {
					errs = append(errs, fmt.Errorf("framework: controller %q: Workflow: node %q: Secondaries[%d]: %w", c.Name, node.Name, j, err))
				}
			}
			for j, source := range node.Sources {
				if err := c.ReadSource(i, source, conditional); err != nil {
					errs = append(errs, fmt.Errorf("framework: controller %q: Workflow: node %q: Sources[%d]: %w", c.Name, node.Name, j, err))
				}
			}
		}
	}
	return errors.Join(errs...)
}

// comesAndGoes tells whether a node reads only while it is active: not to delete what it made before.
func (n *Node[P]) comesAndGoes() bool { return n.ActivationCondition != nil && !n.DeleteInactive }

// activation has a node wait until what it reads from is filled, and then asks the author's own.
func activation[P Object](needs []*run.Dormant, own workflow.Condition[*Context[P]]) workflow.Condition[*Context[P]] {
	return func(ctx context.Context, rc *Context[P]) (workflow.Verdict, error) {
		var waits []string
		for _, d := range needs {
			why, err := rc.run.Hold(d)
			if err != nil {
				return workflow.Verdict{}, err
			}
			if why != nil {
				waits = append(waits, fmt.Sprintf("source %q is not filled yet: %v", d.Name, why))
			}
		}
		if len(waits) > 0 {
			return workflow.NotMet(strings.Join(waits, "; ")), nil
		}
		if own != nil {
			return own(ctx, rc)
		}
		return workflow.Met(), nil
	}
}

// WorkflowResult returns what the newest pass of this run came to, nil if there was none: the controller has no [Workflow], or
// it is Explicit. Nobody must change it.
func (c *Context[P]) WorkflowResult() *workflow.Result { return c.run.LastResult() }

// ReconcileWorkflow makes a pass through the workflow of the controller, for one that is Explicit; any may make further ones. The
// result is complete; whether its errors fail the run is up to the caller: see [workflow.Result.Err]. Without a workflow it has no nodes.
//
// A pass ends with ctx and with the run. After the run, or while there is another pass of the same run, it does nothing: [workflow.Result.Cut] is
// [ErrRunEnded] or says so.
func (c *Context[P]) ReconcileWorkflow(ctx context.Context) *workflow.Result {
	return c.run.PassOnDemand(ctx, workflow.Reconciling)
}

// CleanupWorkflow is [Context.ReconcileWorkflow] the other way: it deletes everything in reverse order. Cleanup keeps the finalizer until
// [workflow.Result.Gone].
func (c *Context[P]) CleanupWorkflow(ctx context.Context) *workflow.Result {
	return c.run.PassOnDemand(ctx, workflow.CleaningUp)
}
