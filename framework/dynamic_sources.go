package framework

import (
	"errors"
	"fmt"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework/internal/host"
	"github.com/evenkeel/evenkeel/framework/internal/run"
)

// Sources that are not among a controller's options can be added while it runs, and removed again: from its runs, or
// from outside. What a run has added is held for its primary, so that no other one takes it away.

// ErrNotSynced is what reads of secondaries return that were added while the operator runs, and are not filled yet: their
// kind may not be served, or the first list is on its way. A reconciler returns it, alone or wrapped. The run then
// counts neither as failure nor as attempt, and its primary is due when they are filled.
var ErrNotSynced = host.ErrNotSynced

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
	return c.run.Controller.AddSecondary(secondary, &c.run, false)
}

// AddSource starts a further event source, as if it were among [ControllerOptions.Sources], but no run waits for it to be
// synced. One that is an [eventsource.PrimaryWatcher] is told of all primaries first. If its Start fails, that is repeated
// with growing pauses; [Operator.Ready] says so. It is held and named as with [Context.AddSecondary]. One that is added
// again after it was removed is started again, once it has been stopped.
func (c *Context[P]) AddSource(source eventsource.Source) error {
	return c.run.Controller.AddSource(source, &c.run, false)
}

// RemoveSource ends the hold that the primary has on what was added under a name, which goes with the last hold. Reads that
// begin after that fail; under those of runs in flight that have read it before, nothing disappears. It is no error if there is none; one
// that is among the options of the controller cannot be removed.
func (c *Context[P]) RemoveSource(name string) error {
	if c.run.Ended.Load() {
		return ErrRunEnded
	}
	if c.run.Controller.Workflow.DormantNamed(name) != nil {
		return fmt.Errorf("framework: controller %q: remove source %q: it is one of ControllerOptions.Workflow, which removes it itself", c.run.Controller.Name, name)
	}
	return c.run.Controller.Added.Drop(name, &c.run)
}

// AddSecondary is [Context.AddSecondary] from outside of runs, for a controller by its name. They are held until
// [Operator.RemoveSource]. Before the operator runs it may be called too; the first runs do not wait for them.
func (op *Operator) AddSecondary(controller string, secondary SecondarySource) error {
	c, err := op.controllerNamed(controller)
	if err != nil {
		return fmt.Errorf("framework: AddSecondary %q: %w", controller, err)
	}
	return c.AddSecondary(secondary, nil, false)
}

// AddSource is [Context.AddSource] from outside of runs, for a controller by its name.
func (op *Operator) AddSource(controller string, source eventsource.Source) error {
	c, err := op.controllerNamed(controller)
	if err != nil {
		return fmt.Errorf("framework: AddSource %q: %w", controller, err)
	}
	return c.AddSource(source, nil, false)
}

// RemoveSource ends the hold of [Operator.AddSecondary] or [Operator.AddSource] on what was added to a controller under a
// name. It stays as long as primaries hold it.
func (op *Operator) RemoveSource(controller, name string) error {
	c, err := op.controllerNamed(controller)
	if err != nil {
		return fmt.Errorf("framework: RemoveSource %q: %w", controller, err)
	}
	return c.SourcesAdded().Drop(name, nil)
}

func (op *Operator) controllerNamed(name string) (*run.Controller, error) {
	for _, c := range op.runners() {
		if c.ControllerName() == name {
			return c, nil
		}
	}
	return nil, errors.New("there is no controller of that name")
}
