package run

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/evenkeel/evenkeel/framework/internal/cache"
	"github.com/evenkeel/evenkeel/framework/internal/host"
	"github.com/evenkeel/evenkeel/framework/internal/source"
	"github.com/evenkeel/evenkeel/framework/internal/write"
	"github.com/evenkeel/evenkeel/trc"
)

// The methods of the registry that the workflow needs. It adds its sources by name, waits for them,
// and releases them.

// isHeld reports whether the run's primary holds the source with that name.
func (s *Registry) isHeld(name string, by *Run) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.byName[name]
	return a != nil && a.holders[by.Key] && s.enterLocked(by) == nil
}

// awaits returns nil if runs may read the source with that name. Otherwise it returns the reason,
// and the primary becomes due when runs may.
func (s *Registry) awaits(name string, by *Run) error {
	s.mu.Lock()
	a := s.byName[name]
	switch {
	case s.enterLocked(by) != nil:
		s.mu.Unlock()
		return write.ErrRunEnded
	case a == nil:
		s.mu.Unlock()
		return errors.New("it was removed")
	case a.opened != nil, a.supervised != nil && cache.IsClosed(a.supervised.Synced):
		s.mu.Unlock()
		return nil
	}
	a.waiting[by.Key] = true
	s.mu.Unlock()
	return cmp.Or(s.Problem(a), host.ErrUnfilled)
}

// release ends the hold of the run's primary, if it has one. After the end of the run it does
// nothing.
func (s *Registry) release(name string, by *Run) {
	s.mu.Lock()
	var waiting map[trc.Key]bool
	a := s.byName[name]
	if a != nil && s.enterLocked(by) == nil {
		delete(a.waiting, by.Key)
		waiting = s.dropLocked(a, by.Key)
	}
	s.mu.Unlock()
	s.trigger(name, waiting, "it was removed")
}

// synced enqueues the primaries that waited for a source of the author's.
func (s *Registry) synced(a *entry) {
	s.mu.Lock()
	waiting := a.waiting
	if !a.isRemoved() {
		a.waiting = map[trc.Key]bool{}
	}
	s.mu.Unlock()
	s.trigger(a.Name, waiting, "it is filled")
}

// reserves returns an error if another source has the name of one of the workflow's. It also
// refuses a run that adds the workflow's own source, except for a node: the workflow decides alone
// when that source ends.
func (m *Workflow) reserves(controller string, given *entry, by *Run, forNode bool) error {
	d := m.DormantNamed(given.Name)
	if d == nil {
		return nil
	}
	own := &entry{Name: d.Name, secondary: d.description}
	if d.given == nil {
		own.supervised = &source.Supervised{Source: d.Source}
	}
	switch {
	case !own.is(given):
	case by != nil && !forNode:
		return fmt.Errorf("framework: controller %q: add source %q: it is one of ControllerOptions.Workflow, which adds it itself", controller, given.Name)
	default:
		return nil
	}
	return fmt.Errorf("framework: controller %q: add source %q: ControllerOptions.Workflow has one of that name, %s; this is %s",
		controller, given.Name, own.describe(), given.describe())
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
