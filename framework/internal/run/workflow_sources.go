package run

import (
	"errors"
	"slices"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework/health"
	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/framework/internal/source"
	"github.com/evenkeel/evenkeel/framework/workflow"
	"github.com/evenkeel/evenkeel/trc"
)

// Workflow is the workflow of a controller. All fields are set before the first run.
type Workflow struct {
	Exists   bool          // the controller has a workflow
	Graph    Graph         // without nodes if there is no workflow
	Nodes    []health.Node // the same, described
	Explicit bool          // only the author asks for passes
	Leaves   bool          // errors of nodes are left to the author
	Deletes  bool          // it deletes something that nobody else deletes
	dormant  []*Dormant

	controller string // the controller's name
	// describe validates a secondary.
	describe func(as string, secondary any) (source.Description, error)
}

// Graph is the graph of a workflow, for display.
type Graph interface {
	Plan() [][]string // names of nodes, in the order of their dependencies
	Mermaid() string  // the graph for Mermaid
	DOT() string      // the graph for Graphviz
}

// Dormant is a source that is open only while a node that reads it is active.
type Dormant struct {
	Name string // the source's name, unique in the controller
	// The nodes that read it, by index in the graph. All have an ActivationCondition.
	nodes       []int
	given       any                // a secondary, or nil
	description source.Description // if given is not nil
	Source      eventsource.Source // if given is nil
}

// ReadSecondary records that a node reads a secondary. The secondary becomes one of the options, or
// a dormant source if the node is conditional.
func (c *Controller) ReadSecondary(node int, secondary any, conditional bool) error {
	if object.IsNil(secondary) {
		return errors.New("is nil")
	}
	// The options may have it as a Referred secondary.
	same := func(other any) bool {
		return other == secondary || !object.IsNil(other) && c.Operator.Describe(other).Key == secondary
	}
	switch {
	case slices.ContainsFunc(c.Options.Secondaries, same):
	case conditional:
		return c.Workflow.sleep(node, &Dormant{given: secondary})
	default:
		c.Options.Secondaries = append(c.Options.Secondaries, secondary)
	}
	return nil
}

// ReadSource records that a node reads a source of the author's. The source becomes one of the
// options, or a dormant source if the node is conditional.
func (c *Controller) ReadSource(node int, from eventsource.Source, conditional bool) error {
	if object.IsNil(from) {
		return errors.New("is nil")
	}
	same := func(other eventsource.Source) bool { return !object.IsNil(other) && source.Identical(other, from) }
	switch {
	case slices.ContainsFunc(c.Options.Sources, same):
	case conditional:
		return c.Workflow.sleep(node, &Dormant{Source: from})
	default:
		c.Options.Sources = append(c.Options.Sources, from)
	}
	return nil
}

// sleep records that a node reads a dormant source.
func (m *Workflow) sleep(node int, d *Dormant) (err error) {
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
		d.description, err = m.describe("it", d.given)
		d.Name = d.description.Name
	} else {
		d.Name, err = source.NameOf(d.Source)
	}
	m.dormant = append(m.dormant, d)
	return err
}

// is reports whether two are the same source.
func (d *Dormant) is(other *Dormant) bool {
	if d.given != nil || other.given != nil {
		return d.given == other.given
	}
	return source.Identical(d.Source, other.Source)
}

// DormantOf returns the dormant sources that a node reads.
func (m *Workflow) DormantOf(node int) (own []*Dormant) {
	for _, d := range m.dormant {
		if slices.Contains(d.nodes, node) {
			own = append(own, d)
		}
	}
	return own
}

// has reports whether a secondary is one of the dormant sources.
func (m *Workflow) has(secondary any) bool {
	return slices.ContainsFunc(m.dormant, func(d *Dormant) bool { return d.given != nil && d.given == secondary })
}

// DormantNamed returns the dormant source with that name, nil if there is none.
func (m *Workflow) DormantNamed(name string) *Dormant {
	for _, d := range m.dormant {
		if d.Name == name {
			return d
		}
	}
	return nil
}

// Cleans reports whether primaries have the controller's finalizer.
func (c *Controller) Cleans() bool {
	return !c.Options.AllEvents && (c.HasCleanup || c.Workflow.Deletes)
}

// WorkflowResult returns the newest result of a primary, if there is one.
func (c *Controller) WorkflowResult(key trc.Key) (*workflow.Result, bool) {
	var newest *workflow.Result
	c.states.look(key, func(s *primaryState) { newest = s.result })
	return newest, newest != nil
}
