package framework

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/framework/internal/source"
)

// Sources that are not among a controller's options can be added while it runs, and removed again: from its runs, or
// from outside. What a run has added is held for its primary, so that no other one takes it away.

// ErrNotSynced is what reads of secondaries return that were added while the operator runs, and are not filled yet: their
// kind may not be served, or the first list is on its way. A reconciler returns it, alone or wrapped. The run then
// counts neither as failure nor as attempt, and its primary is due when they are filled.
var ErrNotSynced = errNotSynced

// notSynced is ErrNotSynced with the reason.
type notSynced struct{ error }

func (n *notSynced) Unwrap() error { return n.error }

func onlyNotSynced(err error) bool { return object.IsOnly(err, object.Is[*notSynced]) }

// AddSecondary has the controller read further secondaries, as if they were among [ControllerOptions.Secondaries]: their
// changes make their primaries due, and runs of all primaries may read them. It returns at once. Until they are
// filled, reads fail with [ErrNotSynced], and every primary whose run has met that is due then; so is every primary
// that has some. A kind that is not served yet is waited for, which [Operator.Ready] says. An error tells that they
// are not declared well.
//
// They are held for the primary until [Context.RemoveSource], or until it is gone, and with the last hold they go: the
// watch, unless others read the same, the index, and the memory. A run may add what is there in each of its runs, which
// costs next to nothing: the same Secondary, or one that is declared alike without By, Map, filters and Indexes. Another one under the same
// name (see [Secondary.Name]) is an error that names both.
func (c *Context[P]) AddSecondary(secondary SecondarySource) error {
	return c.run.controller.addSecondary(secondary, &c.run, false)
}

// AddSource starts a further event source, as if it were among [ControllerOptions.Sources], but no run waits for it to be
// synced. One that is an [eventsource.PrimaryWatcher] is told of all primaries first. If its Start fails, that is repeated
// with growing pauses; [Operator.Ready] says so. It is held and named as with [Context.AddSecondary]. One that is added
// again after it was removed is started again, once it has been stopped.
func (c *Context[P]) AddSource(source eventsource.Source) error {
	return c.run.controller.addSource(source, &c.run, false)
}

// RemoveSource ends the hold that the primary has on what was added under a name, which goes with the last hold. Reads that
// begin after that fail; under those of runs in flight that have read it before, nothing disappears. It is no error if there is none; one
// that is among the options of the controller cannot be removed.
func (c *Context[P]) RemoveSource(name string) error {
	if c.run.ended.Load() {
		return ErrRunEnded
	}
	if c.run.controller.workflow.dormantNamed(name) != nil {
		return fmt.Errorf("framework: controller %q: remove source %q: it is one of ControllerOptions.Workflow, which removes it itself", c.run.controller.name, name)
	}
	return c.run.controller.added.drop(name, &c.run)
}

// AddSecondary is [Context.AddSecondary] from outside of runs, for a controller by its name. They are held until
// [Operator.RemoveSource]. Before the operator runs it may be called too; the first runs do not wait for them.
func (op *Operator) AddSecondary(controller string, secondary SecondarySource) error {
	c, err := op.controllerNamed(controller)
	if err != nil {
		return fmt.Errorf("framework: AddSecondary %q: %w", controller, err)
	}
	return c.addSecondary(secondary, nil, false)
}

// AddSource is [Context.AddSource] from outside of runs, for a controller by its name.
func (op *Operator) AddSource(controller string, source eventsource.Source) error {
	c, err := op.controllerNamed(controller)
	if err != nil {
		return fmt.Errorf("framework: AddSource %q: %w", controller, err)
	}
	return c.addSource(source, nil, false)
}

// RemoveSource ends the hold of [Operator.AddSecondary] or [Operator.AddSource] on what was added to a controller under a
// name. It stays as long as primaries hold it.
func (op *Operator) RemoveSource(controller, name string) error {
	c, err := op.controllerNamed(controller)
	if err != nil {
		return fmt.Errorf("framework: RemoveSource %q: %w", controller, err)
	}
	return c.sourcesAdded().drop(name, nil)
}

func (op *Operator) controllerNamed(name string) (*controller, error) {
	for _, c := range op.runners() {
		if c.controllerName() == name {
			return c, nil
		}
	}
	return nil, errors.New("there is no controller of that name")
}

func (c *controller) addSecondary(secondary any, by *run, forNode bool) error {
	if by != nil && !c.workflow.has(secondary) && c.added.holdsAlready(secondary, by) {
		return nil
	}
	d, err := c.describeSecondary("AddSecondary: the secondary", secondary)
	if err != nil {
		return err
	}
	if err := c.workflow.reserves(c.name, &addition{name: d.Name, secondary: d}, by, forNode); err != nil {
		return err
	}
	if err := source.CheckIndexes(d.Indexes, map[any]bool{}); err != nil {
		return fmt.Errorf("framework: controller %q: secondary %q: %w", c.name, d.Name, err)
	}
	if err := c.reach(&d); err != nil {
		return err
	}
	added, err := c.added.add(&addition{name: d.Name, secondary: d}, by)
	if !added {
		c.operator.leaveCluster(d.Config)
	}
	return err
}

func (c *controller) addSource(from eventsource.Source, by *run, forNode bool) error {
	if object.IsNil(from) {
		return fmt.Errorf("framework: controller %q: AddSource: the source is nil", c.name)
	}
	g, err := source.Supervise(from, c.name, c.operator.logger, c.operator.calls, c.operator.probes)
	if err != nil {
		return fmt.Errorf("framework: controller %q: AddSource %T: %w", c.name, from, err)
	}
	given := &addition{name: g.Name, guest: g}
	if err := c.workflow.reserves(c.name, given, by, forNode); err != nil {
		return err
	}
	_, err = c.added.add(given, by)
	return err
}

func (c *run) visits() *visit        { return &c.visit }
func (c *run) isOver() bool          { return c.ended.Load() }
func (c *run) primaryUID() types.UID { return c.write.Owner.GetUID() }
