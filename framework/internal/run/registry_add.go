package run

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/framework/internal/source"
)

// ErrNotSynced is framework.ErrNotSynced.
var ErrNotSynced = errors.New("framework: the source is not filled yet")

// ErrInactive is framework.ErrInactive.
var ErrInactive = errors.New("framework: all nodes of the workflow that read from this source are inactive")

// notSynced is ErrNotSynced with the reason.
type notSynced struct{ error }

// Unwrap returns the error with the reason.
func (n *notSynced) Unwrap() error { return n.error }

// onlyNotSynced reports whether err consists only of notSynced errors.
func onlyNotSynced(err error) bool { return object.IsOnly(err, object.Is[*notSynced]) }

// AddSecondary adds a secondary for the run's primary, or for the operator if by is nil. forNode
// says that a node of the workflow adds it. It does nothing if the primary holds it already.
func (c *Controller) AddSecondary(secondary any, by *Run, forNode bool) error {
	if by != nil && !c.Workflow.has(secondary) && c.Added.holdsAlready(secondary, by) {
		return nil
	}
	d, err := c.describeSecondary("AddSecondary: the secondary", secondary)
	if err != nil {
		return err
	}
	if err := c.Workflow.reserves(c.Name, &entry{Name: d.Name, secondary: d}, by, forNode); err != nil {
		return err
	}
	if err := source.CheckIndexes(d.Indexes, map[any]bool{}); err != nil {
		return fmt.Errorf("framework: controller %q: secondary %q: %w", c.Name, d.Name, err)
	}
	if err := c.reach(&d); err != nil {
		return err
	}
	added, err := c.Added.add(&entry{Name: d.Name, secondary: d}, by)
	if !added {
		c.Operator.LeaveCluster(d.Config)
	}
	return err
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
	given := &entry{Name: g.Name, supervised: g}
	if err := c.Workflow.reserves(c.Name, given, by, forNode); err != nil {
		return err
	}
	_, err = c.Added.add(given, by)
	return err
}

func (c *Run) uid() types.UID { return c.Write.Owner.GetUID() }
