package run

import (
	"errors"
	"slices"
	"sync"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/framework/internal/source"
	"github.com/evenkeel/evenkeel/framework/workflow"
	"github.com/evenkeel/evenkeel/trc"
)

// Workflow is the workflow of a controller. Everything but the newest results is set before the first run.
type Workflow struct {
	Exists   bool
	Graph    Graph // of no nodes if there is none
	Explicit bool
	Leaves   bool // errors
	Deletes  bool // something that nobody else does
	dormant  []*Dormant

	newest sync.Map // trc.Key to *workflow.Result: of primaries that exist
}

// Graph is the graph of a workflow, for those who show it.
type Graph interface {
	Plan() [][]string
	Mermaid() string
	DOT() string
}

// Dormant is a source that is there only while some node that reads from it is active.
type Dormant struct {
	Name        string
	nodes       []int // those nodes, by their place in the graph; all have an ActivationCondition
	given       any
	description source.Description // if given is not nil
	Source      eventsource.Source // otherwise
}

func (c *Controller) ReadSecondary(node int, secondary any, conditional bool) error {
	if object.IsNil(secondary) {
		return errors.New("is nil")
	}
	// The options may have it as one of those that primaries refer to.
	same := func(other any) bool {
		return other == secondary || !object.IsNil(other) && c.Operator.Describe(other).Key == secondary
	}
	switch {
	case slices.ContainsFunc(c.Options.Secondaries, same):
	case conditional:
		return c.sleep(node, &Dormant{given: secondary})
	default:
		c.Options.Secondaries = append(c.Options.Secondaries, secondary)
	}
	return nil
}

func (c *Controller) ReadSource(node int, from eventsource.Source, conditional bool) error {
	if object.IsNil(from) {
		return errors.New("is nil")
	}
	same := func(other eventsource.Source) bool { return !object.IsNil(other) && source.Identical(other, from) }
	switch {
	case slices.ContainsFunc(c.Options.Sources, same):
	case conditional:
		return c.sleep(node, &Dormant{Source: from})
	default:
		c.Options.Sources = append(c.Options.Sources, from)
	}
	return nil
}

// sleep notes that a node reads from a source that is there only while it is needed.
func (c *Controller) sleep(node int, d *Dormant) (err error) {
	m := &c.Workflow
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
		d.Name = d.description.Name
	} else {
		d.Name, err = source.NameOf(d.Source)
	}
	m.dormant = append(m.dormant, d)
	return err
}

// is tells whether two are the same source.
func (d *Dormant) is(other *Dormant) bool {
	if d.given != nil || other.given != nil {
		return d.given == other.given
	}
	return source.Identical(d.Source, other.Source)
}

func (m *Workflow) DormantOf(node int) (own []*Dormant) {
	for _, d := range m.dormant {
		if slices.Contains(d.nodes, node) {
			own = append(own, d)
		}
	}
	return own
}

// has tells whether a secondary is one of those that come and go.
func (m *Workflow) has(secondary any) bool {
	return slices.ContainsFunc(m.dormant, func(d *Dormant) bool { return d.given != nil && d.given == secondary })
}

// DormantNamed is the dormant source of a name, nil if that is of none.
func (m *Workflow) DormantNamed(name string) *Dormant {
	for _, d := range m.dormant {
		if d.Name == name {
			return d
		}
	}
	return nil
}

// Cleans tells whether primaries have the controller's finalizer.
func (c *Controller) Cleans() bool {
	return !c.Options.AllEvents && (c.HasCleanup || c.Workflow.Deletes)
}

func (c *Controller) WorkflowGraph() (Graph, bool) {
	return c.Workflow.Graph, c.Workflow.Exists
}

func (c *Controller) WorkflowResult(key trc.Key) (*workflow.Result, bool) {
	if found, any := c.Workflow.newest.Load(key); any {
		return found.(*workflow.Result), true
	}
	return nil, false
}
