package registry

import (
	"cmp"
	"errors"

	"github.com/evenkeel/evenkeel/framework/internal/cache"
	"github.com/evenkeel/evenkeel/framework/internal/host"
	"github.com/evenkeel/evenkeel/framework/internal/write"
	"github.com/evenkeel/evenkeel/trc"
)

// HoldsAlready reports whether the run's primary already holds that very secondary. Most additions
// by runs find that.
func (s *Registry) HoldsAlready(secondary any, by *Visit) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.knownLocked(secondary)
	return a != nil && a.holders[by.Key] && by.enter() == nil
}

// The workflow of a controller adds its sources by name, waits for them, and releases them.

// IsHeld reports whether the run's primary holds the source with that name.
func (s *Registry) IsHeld(name string, by *Visit) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.byName[name]
	return a != nil && a.holders[by.Key] && by.enter() == nil
}

// Awaits returns nil if runs may read the source with that name. Otherwise it returns the reason,
// and the primary becomes due when runs may.
func (s *Registry) Awaits(name string, by *Visit) error {
	s.mu.Lock()
	a := s.byName[name]
	switch {
	case by.enter() != nil:
		s.mu.Unlock()
		return write.ErrRunEnded
	case a == nil:
		s.mu.Unlock()
		return errors.New("it was removed")
	case a.opened != nil, a.Supervised != nil && cache.IsClosed(a.Supervised.Synced):
		s.mu.Unlock()
		return nil
	}
	a.waiting[by.Key] = true
	s.mu.Unlock()
	return cmp.Or(s.Problem(a), host.ErrUnfilled)
}

// Release ends the hold of the run's primary, if it has one. After the end of the run it does
// nothing.
func (s *Registry) Release(name string, by *Visit) {
	s.mu.Lock()
	var waiting map[trc.Key]bool
	a := s.byName[name]
	if a != nil && by.enter() == nil {
		delete(a.waiting, by.Key)
		waiting = s.dropLocked(a, by.Key)
	}
	s.mu.Unlock()
	s.trigger(name, waiting, "it was removed")
}
