package framework

import (
	"errors"
	"fmt"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework/internal/registry"
	"github.com/evenkeel/evenkeel/framework/internal/run"
)

// Dynamic sources are not in a controller's options. They can be added and removed while it runs,
// by its runs or from outside. A source that a run has added is held for its primary, so that no
// other primary removes it.

// ErrNotSynced is returned by reads of secondaries that were added while the operator runs and are
// not filled yet. Their kind may not be served, or the first list has not been answered. A
// reconciler returns it, alone or wrapped. The run then counts neither as a failure nor as an
// attempt. Its primary becomes due when the secondaries are filled.
var ErrNotSynced = registry.ErrNotSynced

// AddSecondary adds secondaries to the controller, as if they were in
// [ControllerOptions.Secondaries]: their changes make their primaries due, and runs of all
// primaries may read them. It returns at once. It returns an error if the declaration is invalid.
//
// Until they are filled, reads fail with [ErrNotSynced]. When they are filled, every primary whose
// run met that error becomes due, and so does every primary that has such secondaries. A kind that
// is not served yet is waited for, and [Operator.Ready] reports it.
//
// The primary has a reference to them until [Context.RemoveSource] or until it is gone. When the
// last reference ends, their index and their cache are removed, and the watch ends unless others
// use it. Every run may call AddSecondary again, at almost no cost. Pass the same Secondary, or one
// with equal fields and without By, Map, filters and Indexes. Another declaration under the same
// name (see [Secondary.Name]) is an error that names both.
func (c *Context[P]) AddSecondary(secondary SecondarySource) error {
	return c.holder().AddSecondary(secondary, false)
}

// AddSource starts a further event source, as if it were in [ControllerOptions.Sources], except
// that no run waits for its sync. An [eventsource.PrimaryWatcher] gets all primaries first. If its
// Start fails, it is started again with growing pauses, and [Operator.Ready] reports it. Names and
// holds are as with [Context.AddSecondary]. A source that is added again after it was removed is
// started again, once it has stopped.
func (c *Context[P]) AddSource(source eventsource.Source) error {
	return c.holder().AddSource(source, false)
}

// RemoveSource ends the primary's hold on the dynamic source of that name. The source is removed
// with its last hold. Reads that begin after that fail. Runs in flight that have read it before do
// not lose it. Removing a source that does not exist is not an error. A source of the controller's
// options cannot be removed.
func (c *Context[P]) RemoveSource(name string) error {
	if c.run.Ended.Load() {
		return ErrRunEnded
	}
	if c.run.Controller.Workflow.DormantNamed(name) != nil {
		return fmt.Errorf("framework: controller %q: remove source %q: it is one of ControllerOptions.Workflow, which removes it itself", c.run.Controller.Name, name)
	}
	return c.holder().Drop(name)
}

// holder returns what holds dynamic sources for the primary.
func (c *Context[P]) holder() run.Holder { return run.Holder{Controller: c.run.Controller, By: &c.run} }

// AddSecondary is [Context.AddSecondary] outside of runs, for a controller by its name. The
// secondaries are held until [Operator.RemoveSource]. It may be called before the operator runs;
// the first runs do not wait for them.
func (op *Operator) AddSecondary(controller string, secondary SecondarySource) error {
	c, err := op.namedController(controller)
	if err != nil {
		return fmt.Errorf("framework: AddSecondary %q: %w", controller, err)
	}
	return run.Holder{Controller: c}.AddSecondary(secondary, false)
}

// AddSource is [Context.AddSource] outside of runs, for a controller by its name.
func (op *Operator) AddSource(controller string, source eventsource.Source) error {
	c, err := op.namedController(controller)
	if err != nil {
		return fmt.Errorf("framework: AddSource %q: %w", controller, err)
	}
	return run.Holder{Controller: c}.AddSource(source, false)
}

// RemoveSource ends the hold of [Operator.AddSecondary] or [Operator.AddSource] on the dynamic
// source of that name. The source stays as long as primaries hold it.
func (op *Operator) RemoveSource(controller, name string) error {
	c, err := op.namedController(controller)
	if err != nil {
		return fmt.Errorf("framework: RemoveSource %q: %w", controller, err)
	}
	return run.Holder{Controller: c}.Drop(name)
}

// namedController is controllerNamed with an error if there is none.
func (op *Operator) namedController(name string) (*run.Controller, error) {
	if c := controllerNamed(op.runners(), name); c != nil {
		return c, nil
	}
	return nil, errors.New("there is no controller of that name")
}
