package framework

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/framework/internal/run"
	"github.com/evenkeel/evenkeel/framework/internal/safely"
	"github.com/evenkeel/evenkeel/framework/workflow"
)

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
