package run

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/framework/internal/registry"
	"github.com/evenkeel/evenkeel/framework/internal/source"
)

// ErrInactive is framework.ErrInactive.
var ErrInactive = errors.New("framework: all nodes of the workflow that read from this source are inactive")

// onlyNotSynced reports whether err consists only of errors of sources that are not filled.
func onlyNotSynced(err error) bool { return object.IsOnly(err, object.Is[*registry.NotSynced]) }

// AddSecondary adds a secondary for the run's primary, or for the operator if by is nil. forNode
// says that a node of the workflow adds it. It does nothing if the primary holds it already.
func (c *Controller) AddSecondary(secondary any, by *Run, forNode bool) error {
	if by != nil && !c.Workflow.has(secondary) && c.Sources.HoldsAlready(secondary, &by.visit) {
		return nil
	}
	d, err := c.Sources.Describe("AddSecondary: the secondary", secondary)
	if err != nil {
		return err
	}
	if err := c.Workflow.reserves(c.Name, registry.Secondary(d), by, forNode); err != nil {
		return err
	}
	if err := source.CheckIndexes(d.Indexes, map[any]bool{}); err != nil {
		return fmt.Errorf("framework: controller %q: secondary %q: %w", c.Name, d.Name, err)
	}
	return c.Sources.AddSecondary(d, by.visits())
}

// AddSource adds a source of the author's for the run's primary, or for the operator if by is nil.
// forNode says that a node of the workflow adds it.
func (c *Controller) AddSource(from eventsource.Source, by *Run, forNode bool) error {
	if object.IsNil(from) {
		return fmt.Errorf("framework: controller %q: AddSource: the source is nil", c.Name)
	}
	g, err := source.Supervise(from, c.Name, c.Operator.Logger, c.Operator.Calls, c.Operator.Probes)
	if err != nil {
		return fmt.Errorf("framework: controller %q: AddSource %T: %w", c.Name, from, err)
	}
	given := registry.Source(g)
	if err := c.Workflow.reserves(c.Name, given, by, forNode); err != nil {
		return err
	}
	_, err = c.Sources.Add(given, by.visits())
	return err
}

// Drop ends the hold of the run's primary on a dynamic source, or that of the operator if by is
// nil.
func (c *Controller) Drop(name string, by *Run) error { return c.Sources.Drop(name, by.visits()) }

// visits returns what a run uses of the registry, nil for no run.
func (c *Run) visits() *registry.Visit {
	if c == nil {
		return nil
	}
	return &c.visit
}

func (c *Run) uid() types.UID { return c.Writes.Primary.Object.GetUID() }

// reserves returns an error if another source has the name of one of the workflow's. It also
// refuses a run that adds the workflow's own source, except for a node: the workflow decides alone
// when that source ends.
func (m *Workflow) reserves(controller string, given *registry.Entry, by *Run, forNode bool) error {
	d := m.DormantNamed(given.Name)
	if d == nil {
		return nil
	}
	own := registry.Secondary(d.description)
	if d.given == nil {
		own = registry.Source(&source.Supervised{Name: d.Name, Source: d.Source})
	}
	switch {
	case !own.Is(given):
	case by != nil && !forNode:
		return fmt.Errorf("framework: controller %q: add source %q: it is one of ControllerOptions.Workflow, which adds it itself", controller, given.Name)
	default:
		return nil
	}
	return fmt.Errorf("framework: controller %q: add source %q: ControllerOptions.Workflow has one of that name, %s; this is %s",
		controller, given.Name, own.Describe(), given.Describe())
}

// Inactive returns ErrInactive for a source of the workflow that is not open, nil for all
// others.
func (c *Controller) Inactive(is func(*Dormant) bool) error {
	for _, d := range c.Workflow.dormant {
		if is(d) {
			return fmt.Errorf("framework: controller %q: source %q: %w", c.Name, d.Name, ErrInactive)
		}
	}
	return nil
}

// DormantSecondaries returns the secondaries of the workflow that are open only while a node needs
// them.
func (c *Run) DormantSecondaries() []source.Description {
	var all []source.Description
	for _, d := range c.Controller.Workflow.dormant {
		if d.given != nil {
			all = append(all, d.description)
		}
	}
	return all
}
