package framework

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework/health"
	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/framework/internal/run"
	"github.com/evenkeel/evenkeel/framework/internal/safely"
	"github.com/evenkeel/evenkeel/framework/workflow"
)

// Dependent is something that each primary of type P needs: what package dependent makes, or a
// [Node] of the author's own.
type Dependent[P Object] interface {
	// Describe returns the node. It is called once, by [Register]. An error fails the registration.
	Describe() (Node[P], error)
}

// Node is a node of a [Workflow], with the sources that it reads. Its functions get the [Context]
// of the run, as Reconcile does. What they read and write through it counts as the run's. They may
// run concurrently with those of other nodes, so they must not change [Context.Primary], which all
// nodes and Reconcile share.
type Node[P Object] struct {
	workflow.Node[*Context[P]]
	// Secondaries and Sources are registered with the controller, as if they were in
	// [ControllerOptions.Secondaries] and [ControllerOptions.Sources]. Several nodes may share one,
	// and the options may list it too. Default: none.
	//
	// Some exist only while the ActivationCondition is met for some primary: those that are used only
	// by nodes with an ActivationCondition and without DeleteInactive. Before the other functions of
	// an active node, the framework adds them for its primary, and the node waits until they are
	// filled. After a workflow run that has left all their nodes inactive, the framework ends that
	// hold. While no primary holds them, reads of them fail with [ErrInactive]. Runs cannot add or
	// remove them: [Context.AddSecondary], [Context.AddSource] and [Context.RemoveSource] return an
	// error.
	Secondaries []SecondarySource
	Sources     []eventsource.Source
	// Check, if set, reports whether the node is valid in its workflow. Default: it is. It is called
	// once, by [Register], with the described nodes of the workflow, Explicit or not, after the order
	// of the nodes was found to be valid. An error fails the registration. It must not change the
	// nodes.
	Check func(nodes []Node[P]) error
	// Tag lets a package that makes nodes recognise its own in Check. Nothing else reads it. Default:
	// none.
	Tag any
}

// Describe returns the node itself, which makes a Node a [Dependent].
func (n Node[P]) Describe() (Node[P], error) { return n, nil }

// NodesBefore returns the names of the nodes that the named node depends on, directly or not, for
// [Node.Check]. It returns none for a name that no node has.
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

// Workflow declares what primaries need, and in which order; see package workflow. The zero value
// is no workflow.
//
// Each run of the controller makes one workflow run: [workflow.Graph.Reconcile] before Reconcile,
// and [workflow.Graph.Cleanup] before Cleanup, if the reconciler is a [Cleaner]. A node that is not
// ready yet is not a failure: Reconcile is called, and [Context.WorkflowResult] returns the state.
// Until a cleanup has seen everything gone, the finalizer stays on the primary, and an event causes
// the next run.
//
// If a cleanup has anything to do (see [workflow.Graph.Cleans]), primaries have the controller's
// finalizer, even if the reconciler is not a Cleaner. It is removed once everything is gone and
// Cleanup, if there is one, agrees. [ControllerOptions.AllEvents] adds no finalizer, so such a
// workflow must then be Explicit. With AllEvents the workflow runs only for primaries that exist
// and are not in deletion.
type Workflow[P Object] struct {
	// Dependents are the nodes. Default: none.
	Dependents []Dependent[P]
	// Concurrency bounds the number of nodes that one run works on concurrently. Default
	// [workflow.DefaultConcurrency].
	Concurrency int
	// Explicit leaves the calls to the reconciler. Reconcile calls [Context.ReconcileWorkflow].
	// Cleanup, if there is one, calls [Context.CleanupWorkflow] and keeps the finalizer until
	// everything is gone. Without a Cleanup the framework still does both. Default: the workflow runs
	// before each Reconcile and before each Cleanup.
	Explicit bool
	// LeaveErrors calls Reconcile and Cleanup even if nodes failed; [Context.WorkflowResult] returns
	// the errors. Conflicts and sources that are not filled are not failures. A cleanup that failed is
	// retried unless Cleanup keeps the finalizer.
	//
	// Default: the run fails with all errors of the workflow run. Reconcile is not called, but
	// ErrorStatus is. In deletion neither Cleanup nor ErrorStatus is called.
	LeaveErrors bool
}

// ErrInactive is wrapped by the error of a read of a secondary or source that belongs to a
// [Workflow] and does not exist now, because no primary has an active node that reads it. A
// Reconcile that reads it must expect this error.
var ErrInactive = run.ErrInactive

// WorkflowGraph is the shape of a controller's workflow.
type WorkflowGraph struct{ graph run.Graph }

// Plan returns the names of the nodes in waves; see [workflow.Graph.Plan].
func (g WorkflowGraph) Plan() [][]string { return g.graph.Plan() }

// Mermaid returns the graph as a Mermaid flowchart, without states. For states see
// [Operator.WorkflowResult].
func (g WorkflowGraph) Mermaid() string { return g.graph.Mermaid() }

// DOT returns the graph in Graphviz's language.
func (g WorkflowGraph) DOT() string { return g.graph.DOT() }

// WorkflowGraph returns the graph of a controller's workflow. It returns false if there is no such
// controller or it has no workflow.
func (op *Operator) WorkflowGraph(controller string) (WorkflowGraph, bool) {
	c, err := op.namedController(controller)
	if err != nil {
		return WorkflowGraph{}, false
	}
	return WorkflowGraph{c.Workflow.Graph}, c.Workflow.Exists
}

// WorkflowResult returns the result of the newest workflow run for a primary, without the details
// of verdicts. It returns false if there was none, or if the primary is gone. The result must not
// be changed. One result is kept for each primary, as long as the primary exists.
func (op *Operator) WorkflowResult(controller string, primary types.NamespacedName) (*workflow.Result, bool) {
	c, err := op.namedController(controller)
	if err != nil {
		return nil, false
	}
	return c.WorkflowResult(primary)
}

// manage sets up the workflow of the options. It adds the sources that are always read to the
// options.
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
	if len(errs) == 0 { // otherwise errors about missing nodes would be reported twice
		if graph, err = workflow.New(plain, workflow.Options{Concurrency: given.Concurrency}); err != nil {
			errs = append(errs, fmt.Errorf("framework: controller %q: Workflow: %w", c.Name, err))
		} else {
			m.Graph, m.Deletes, m.Nodes = graph, graph.Cleans(), healthNodes(graph.Plan(), plain)
			errs = checkNodes(c, nodes)
		}
	}
	return graph, errors.Join(errs...)
}

// healthNodes describes the nodes, which are unique by name, in the order of the waves.
func healthNodes[C any](waves [][]string, nodes []workflow.Node[C]) (all []health.Node) {
	for wave, names := range waves {
		for _, name := range names {
			n := nodes[slices.IndexFunc(nodes, func(n workflow.Node[C]) bool { return n.Name == name })]
			described := health.Node{Name: name, Wave: wave, DependsOn: slices.Clone(n.DependsOn)}
			for _, c := range []struct {
				step      workflow.Step
				condition workflow.Condition[C]
			}{
				{workflow.ActivationCondition, n.ActivationCondition},
				{workflow.ReconcilePrecondition, n.ReconcilePrecondition},
				{workflow.ReadyPostcondition, n.ReadyPostcondition},
				{workflow.DeletePostcondition, n.DeletePostcondition},
			} {
				if c.condition != nil {
					described.Conditions = append(described.Conditions, c.step.String())
				}
			}
			all = append(all, described)
		}
	}
	return all
}

// checkNodes calls Check of each node.
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

// describeNodes calls Describe of each dependent.
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

// readBy registers what the nodes read. Sources that always exist go to the options, whose slices
// are copied first, because they are the author's.
func readBy[P Object](c *run.Controller, nodes []Node[P]) error {
	c.Options.Secondaries, c.Options.Sources = slices.Clone(c.Options.Secondaries), slices.Clone(c.Options.Sources)
	var errs []error
	for _, conditional := range []bool{false, true} { // sources that always exist come first
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

// comesAndGoes reports whether the node reads only while it is active. With DeleteInactive it also
// reads while inactive, to delete what it made before.
func (n *Node[P]) comesAndGoes() bool { return n.ActivationCondition != nil && !n.DeleteInactive }

// activation returns a condition that waits until the node's sources are filled, and then calls the
// author's condition.
func activation[P Object](needs []*run.Dormant, own workflow.Condition[*Context[P]]) workflow.Condition[*Context[P]] {
	return func(ctx context.Context, rc *Context[P]) (workflow.Verdict, error) {
		var waits []string
		for _, d := range needs {
			why, err := rc.run.Hold(d)
			if err != nil {
				return workflow.Verdict{}, err
			}
			if why != nil {
				waits = append(waits, fmt.Sprintf("source %q is not synced yet: %v", d.Name, why))
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

// WorkflowResult returns the result of the newest workflow run of this run. It is nil if there was
// none, because the controller has no [Workflow], or an Explicit one that was not called. The
// result must not be changed.
func (c *Context[P]) WorkflowResult() *workflow.Result { return c.run.LastResult() }

// ReconcileWorkflow runs the workflow of the controller. It is for Explicit workflows, but any
// reconciler may call it for further workflow runs. The result is complete; the caller decides
// whether its errors fail the run, see [workflow.Result.Err]. Without a workflow the result has no
// nodes.
//
// The workflow run ends with ctx and with the run. After the run, or during another workflow run of
// the same run, nothing is done, and [workflow.Result.Cut] is [ErrRunEnded] or the reason.
func (c *Context[P]) ReconcileWorkflow(ctx context.Context) *workflow.Result {
	return c.run.PassOnDemand(ctx, workflow.Reconciling)
}

// CleanupWorkflow is [Context.ReconcileWorkflow] in the other direction: it deletes everything in
// reverse order. Cleanup must keep the finalizer until [workflow.Result.Gone] reports true.
func (c *Context[P]) CleanupWorkflow(ctx context.Context) *workflow.Result {
	return c.run.PassOnDemand(ctx, workflow.CleaningUp)
}
