package framework

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/framework/internal/safely"
	"github.com/evenkeel/evenkeel/framework/workflow"
	"github.com/evenkeel/evenkeel/trc"
)

// managed is the workflow of a controller. Everything but the newest results is set before the first run.
type managed[P Object] struct {
	exists   bool
	graph    *workflow.Graph[*Context[P]] // of no nodes if there is none
	explicit bool
	leaves   bool // errors
	deletes  bool // something that nobody else does
	dormant  []*dormant

	newest sync.Map // trc.Key to *workflow.Result: of primaries that exist
}

// dormant is a source that is there only while some node that reads from it is active.
type dormant struct {
	name        string
	nodes       []int // those nodes, by their place in the graph; all have an ActivationCondition
	given       SecondarySource
	description secondaryDescription // if given is not nil
	source      eventsource.Source   // otherwise
}

// manage sets up the workflow of the options. What is always read by its nodes is among the options afterwards.
func (c *controller[P]) manage() error {
	given := c.options.Workflow
	m := &c.workflow
	m.exists, m.explicit, m.leaves = len(given.Dependents) > 0, given.Explicit, given.LeaveErrors
	nodes, errs := c.describeNodes(given.Dependents)
	if err := c.readBy(nodes); err != nil {
		errs = append(errs, err)
	}
	plain := make([]workflow.Node[*Context[P]], len(nodes))
	for i, node := range nodes {
		plain[i] = node.Node
		if own := m.dormantOf(i); len(own) > 0 {
			plain[i].Activate = activation(own, node.Activate)
		}
	}
	var err error
	if len(errs) == 0 { // or what is missing would be complained about twice
		if m.graph, err = workflow.New(plain, workflow.Options{Concurrency: given.Concurrency}); err != nil {
			errs = append(errs, fmt.Errorf("framework: controller %q: Workflow: %w", c.name, err))
		} else {
			m.deletes = m.graph.Cleans()
			errs = c.checkNodes(nodes)
		}
	}
	return errors.Join(errs...)
}

// checkNodes asks the nodes whether they make sense together.
func (c *controller[P]) checkNodes(nodes []Node[P]) (errs []error) {
	for _, node := range nodes {
		if node.Check == nil {
			continue
		}
		if err := safely.AskOnce("Check", func() error { return node.Check(nodes) }); err != nil {
			errs = append(errs, fmt.Errorf("framework: controller %q: Workflow: node %q: %w", c.name, node.Name, err))
		}
	}
	return errs
}

// describeNodes asks the dependents what they are.
func (c *controller[P]) describeNodes(dependents []Dependent[P]) (nodes []Node[P], errs []error) {
	for i, dependent := range dependents {
		fail := func(err error) {
			errs = append(errs, fmt.Errorf("framework: controller %q: Workflow.Dependents[%d]: %w", c.name, i, err))
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
func (c *controller[P]) readBy(nodes []Node[P]) error {
	c.options.Secondaries, c.options.Sources = slices.Clone(c.options.Secondaries), slices.Clone(c.options.Sources)
	var errs []error
	for _, conditional := range []bool{false, true} { // those that are always there first
		for i, node := range nodes {
			if node.comesAndGoes() != conditional {
				continue
			}
			for j, secondary := range node.Secondaries {
				if err := c.readSecondary(i, secondary, conditional); err != nil {
					errs = append(errs, fmt.Errorf("framework: controller %q: Workflow: node %q: Secondaries[%d]: %w", c.name, node.Name, j, err))
				}
			}
			for j, source := range node.Sources {
				if err := c.readSource(i, source, conditional); err != nil {
					errs = append(errs, fmt.Errorf("framework: controller %q: Workflow: node %q: Sources[%d]: %w", c.name, node.Name, j, err))
				}
			}
		}
	}
	return errors.Join(errs...)
}

// comesAndGoes tells whether a node reads only while it is active: not to delete what it made before.
func (n *Node[P]) comesAndGoes() bool { return n.ActivationCondition != nil && !n.DeleteInactive }

func (c *controller[P]) readSecondary(node int, secondary SecondarySource, conditional bool) error {
	if object.IsNil(secondary) {
		return errors.New("is nil")
	}
	// The options may have it as one of those that primaries refer to.
	same := func(other SecondarySource) bool {
		return other == secondary || !object.IsNil(other) && other.describe().source == secondary
	}
	switch {
	case slices.ContainsFunc(c.options.Secondaries, same):
	case conditional:
		return c.sleep(node, &dormant{given: secondary})
	default:
		c.options.Secondaries = append(c.options.Secondaries, secondary)
	}
	return nil
}

func (c *controller[P]) readSource(node int, source eventsource.Source, conditional bool) error {
	if object.IsNil(source) {
		return errors.New("is nil")
	}
	same := func(other eventsource.Source) bool { return !object.IsNil(other) && identical(other, source) }
	switch {
	case slices.ContainsFunc(c.options.Sources, same):
	case conditional:
		return c.sleep(node, &dormant{source: source})
	default:
		c.options.Sources = append(c.options.Sources, source)
	}
	return nil
}

// sleep notes that a node reads from a source that is there only while it is needed.
func (c *controller[P]) sleep(node int, d *dormant) (err error) {
	m := &c.workflow
	for _, known := range m.dormant {
		if known.is(d) {
			if !slices.Contains(known.nodes, node) {
				known.nodes = append(known.nodes, node)
			}
			return nil
		}
	}
	d.nodes = []int{node}
	if d.given != nil {
		d.description, err = c.describeSecondary("it", d.given)
		d.name = d.description.name
	} else {
		d.name, err = nameOf(d.source)
	}
	m.dormant = append(m.dormant, d)
	return err
}

// is tells whether two are the same source.
func (d *dormant) is(other *dormant) bool {
	if d.given != nil || other.given != nil {
		return d.given == other.given
	}
	return identical(d.source, other.source)
}

func (m *managed[P]) dormantOf(node int) (own []*dormant) {
	for _, d := range m.dormant {
		if slices.Contains(d.nodes, node) {
			own = append(own, d)
		}
	}
	return own
}

// has tells whether a secondary is one of those that come and go.
func (m *managed[P]) has(secondary SecondarySource) bool {
	return slices.ContainsFunc(m.dormant, func(d *dormant) bool { return d.given != nil && d.given == secondary })
}

// dormantNamed is the dormant source of a name, nil if that is of none.
func (m *managed[P]) dormantNamed(name string) *dormant {
	for _, d := range m.dormant {
		if d.name == name {
			return d
		}
	}
	return nil
}

// cleans tells whether primaries have the controller's finalizer.
func (c *controller[P]) cleans() bool {
	return !c.options.AllEvents && (c.cleaner != nil || c.workflow.deletes)
}

func (c *controller[P]) workflowGraph() (WorkflowGraph, bool) {
	return WorkflowGraph{c.workflow.graph}, c.workflow.exists
}

func (c *controller[P]) workflowResult(key trc.Key) (*workflow.Result, bool) {
	if found, any := c.workflow.newest.Load(key); any {
		return found.(*workflow.Result), true
	}
	return nil, false
}
