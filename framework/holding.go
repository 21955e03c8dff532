package framework

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/evenkeel/evenkeel/framework/internal/write"

	"github.com/evenkeel/evenkeel/framework/internal/source"
	"github.com/evenkeel/evenkeel/trc"
)

// What the workflow needs of additions: its sources are added by name, waited for, and released.

// isHeld tells whether a run's primary holds what has a name.
func (s *addedSources) isHeld(name string, by *run) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.byName[name]
	return a != nil && a.holders[by.primaryKey()] && s.enterLocked(by) == nil
}

// awaits returns nil if runs may read what has a name; otherwise why they may not, and the primary is due when they may.
func (s *addedSources) awaits(name string, by *run) error {
	s.mu.Lock()
	a := s.byName[name]
	switch {
	case s.enterLocked(by) != nil:
		s.mu.Unlock()
		return write.ErrRunEnded
	case a == nil:
		s.mu.Unlock()
		return errors.New("it was removed")
	case a.opened != nil, a.guest != nil && isClosed(a.guest.Synced):
		s.mu.Unlock()
		return nil
	}
	a.waiting[by.primaryKey()] = true
	s.mu.Unlock()
	return cmp.Or(s.problem(a), errUnfilled)
}

// release ends the hold of a run's primary, if it has one. After the run it is that of the next one.
func (s *addedSources) release(name string, by *run) {
	s.mu.Lock()
	var waiting map[trc.Key]bool
	a := s.byName[name]
	if a != nil && s.enterLocked(by) == nil {
		delete(a.waiting, by.primaryKey())
		waiting = s.dropLocked(a, by.primaryKey())
	}
	s.mu.Unlock()
	s.offer(name, waiting, "it was removed")
}

// synced makes those due that waited for a source of the author's.
func (s *addedSources) synced(a *addition) {
	s.mu.Lock()
	waiting := a.waiting
	if !a.isRemoved() {
		a.waiting = map[trc.Key]bool{}
	}
	s.mu.Unlock()
	s.offer(a.name, waiting, "it is filled")
}

// reserves refuses another source under the name of one of the workflow, and that very one to runs but for a node: its end does not
// depend on them.
func (m *managed) reserves(controller string, given *addition, by *run, forNode bool) error {
	d := m.dormantNamed(given.name)
	if d == nil {
		return nil
	}
	own := &addition{name: d.name, secondary: d.description}
	if d.given == nil {
		own.guest = &source.Supervised{Source: d.source}
	}
	switch {
	case !own.is(given):
	case by != nil && !forNode:
		return fmt.Errorf("framework: controller %q: add source %q: it is one of ControllerOptions.Workflow, which adds it itself", controller, given.name)
	default:
		return nil
	}
	return fmt.Errorf("framework: controller %q: add source %q: ControllerOptions.Workflow has one of that name, %s; this is %s",
		controller, given.name, own.describe(), given.describe())
}

// inactive is the error of who reads a secondary of the workflow that is not there, nil of all others.
func (c *controller) inactive(is func(*dormant) bool) error {
	for _, d := range c.workflow.dormant {
		if is(d) {
			return fmt.Errorf("framework: controller %q: source %q: %w", c.name, d.name, errInactive)
		}
	}
	return nil
}

// dormantSecondaries are those of the workflow that may not be there.
func (c *run) dormantSecondaries() []source.Description {
	var all []source.Description
	for _, d := range c.controller.workflow.dormant {
		if d.given != nil {
			all = append(all, d.description)
		}
	}
	return all
}
