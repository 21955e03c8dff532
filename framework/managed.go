package framework

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

// managed is the workflow of a controller. Everything but the newest results is set before the first run.
type managed struct {
	exists   bool
	graph    drawable // of no nodes if there is none
	explicit bool
	leaves   bool // errors
	deletes  bool // something that nobody else does
	dormant  []*dormant

	newest sync.Map // trc.Key to *workflow.Result: of primaries that exist
}

// drawable is the graph of a workflow, for those who show it.
type drawable interface {
	Plan() [][]string
	Mermaid() string
	DOT() string
}

// dormant is a source that is there only while some node that reads from it is active.
type dormant struct {
	name        string
	nodes       []int // those nodes, by their place in the graph; all have an ActivationCondition
	given       any
	description source.Description // if given is not nil
	source      eventsource.Source // otherwise
}

func (c *controller) readSecondary(node int, secondary any, conditional bool) error {
	if object.IsNil(secondary) {
		return errors.New("is nil")
	}
	// The options may have it as one of those that primaries refer to.
	same := func(other any) bool {
		return other == secondary || !object.IsNil(other) && c.operator.describe(other).Key == secondary
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

func (c *controller) readSource(node int, from eventsource.Source, conditional bool) error {
	if object.IsNil(from) {
		return errors.New("is nil")
	}
	same := func(other eventsource.Source) bool { return !object.IsNil(other) && source.Identical(other, from) }
	switch {
	case slices.ContainsFunc(c.options.Sources, same):
	case conditional:
		return c.sleep(node, &dormant{source: from})
	default:
		c.options.Sources = append(c.options.Sources, from)
	}
	return nil
}

// sleep notes that a node reads from a source that is there only while it is needed.
func (c *controller) sleep(node int, d *dormant) (err error) {
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
		d.name = d.description.Name
	} else {
		d.name, err = source.NameOf(d.source)
	}
	m.dormant = append(m.dormant, d)
	return err
}

// is tells whether two are the same source.
func (d *dormant) is(other *dormant) bool {
	if d.given != nil || other.given != nil {
		return d.given == other.given
	}
	return source.Identical(d.source, other.source)
}

func (m *managed) dormantOf(node int) (own []*dormant) {
	for _, d := range m.dormant {
		if slices.Contains(d.nodes, node) {
			own = append(own, d)
		}
	}
	return own
}

// has tells whether a secondary is one of those that come and go.
func (m *managed) has(secondary any) bool {
	return slices.ContainsFunc(m.dormant, func(d *dormant) bool { return d.given != nil && d.given == secondary })
}

// dormantNamed is the dormant source of a name, nil if that is of none.
func (m *managed) dormantNamed(name string) *dormant {
	for _, d := range m.dormant {
		if d.name == name {
			return d
		}
	}
	return nil
}

// cleans tells whether primaries have the controller's finalizer.
func (c *controller) cleans() bool {
	return !c.options.AllEvents && (c.hasCleanup || c.workflow.deletes)
}

func (c *controller) workflowGraph() (drawable, bool) {
	return c.workflow.graph, c.workflow.exists
}

func (c *controller) workflowResult(key trc.Key) (*workflow.Result, bool) {
	if found, any := c.workflow.newest.Load(key); any {
		return found.(*workflow.Result), true
	}
	return nil, false
}
