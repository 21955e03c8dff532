package registry

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework/internal/cache"
	"github.com/evenkeel/evenkeel/framework/internal/host"
	"github.com/evenkeel/evenkeel/framework/internal/source"
	"github.com/evenkeel/evenkeel/framework/internal/write"
	"github.com/evenkeel/evenkeel/trc"
)

// ErrNotSynced is framework.ErrNotSynced.
var ErrNotSynced = errors.New("framework: the source is not synced yet")

// NotSynced is ErrNotSynced with the reason.
type NotSynced struct{ error }

// Unwrap returns the error with the reason.
func (n *NotSynced) Unwrap() error { return n.error }

// Visit is what a run reads and holds of the registry.
type Visit struct {
	Key   trc.Key      // the run's primary
	Ended *atomic.Bool // the run has ended

	any   atomic.Bool // the run has used the registry at all
	reads []*Entry    // guarded by Registry.mu, as is holds
	holds bool        // the run's primary was added as a holder
}

// enter records that a run uses the registry, or returns an error if the run has ended.
func (v *Visit) enter() error {
	v.any.Store(true)
	if v.Ended.Load() { // otherwise the end of the run sees the mark
		return write.ErrRunEnded
	}
	return nil
}

// Read returns the source of a secondary for a run. It stays open until the run ends.
func (s *Registry) Read(secondary any, by *Visit) (*source.Opened, error) {
	if a := s.byKey[secondary]; a != nil {
		return a.opened, nil
	}
	a, o, err := s.enter(secondary, by)
	switch {
	case err != nil:
		return nil, err
	case a == nil:
		return nil, s.unknown(secondary)
	case o == nil:
		why := s.Problem(a)
		if why == nil { // it has been opened since then
			why = host.ErrUnfilled
		}
		return nil, &NotSynced{fmt.Errorf("framework: controller %q: secondary %q: %w: %w", s.Controller, a.Name, ErrNotSynced, why)}
	}
	return o, nil
}

// enter records that a run reads a dynamic source, or that its primary waits until it may. It
// returns nil, nil, nil if there is no such source.
func (s *Registry) enter(secondary any, by *Visit) (*Entry, *source.Opened, error) {
	s.mu.Lock()
	a := s.knownLocked(secondary)
	s.mu.Unlock()
	if a == nil { // there may be an equal one
		d, err := s.Describe("the secondary", secondary)
		if err != nil {
			return nil, nil, err
		}
		a = Secondary(d)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := by.enter(); err != nil {
		return nil, nil, err
	}
	there := s.byName[a.Name]
	if there == nil || there.Required || !there.Is(a) {
		return nil, nil, nil
	}
	if there.opened == nil {
		there.waiting[by.Key] = true
		return there, nil, nil
	}
	if !slices.Contains(by.reads, there) {
		by.reads = append(by.reads, there)
		there.readers++
	}
	return there, there.opened, nil
}

// knownLocked returns the dynamic source that was added with that very secondary, or nil.
func (s *Registry) knownLocked(secondary any) *Entry {
	for _, a := range s.byName { // there are few
		if !a.Required && a.Supervised == nil && a.Secondary.Key == secondary {
			return a
		}
	}
	return nil
}

// Leave ends what a run reads of the registry. uid is that of the run's primary.
func (s *Registry) Leave(by *Visit, uid types.UID) {
	if !by.any.Load() {
		return
	}
	s.mu.Lock()
	for _, a := range by.reads {
		if a.readers--; a.readers == 0 && a.isRemoved() {
			close(a.unread)
		}
	}
	by.reads = nil
	holds := by.holds
	s.mu.Unlock()
	// If the primary is deleted after this check, its deletion is handled later and ends the holds. A
	// new primary of the same name has had no run yet, and holds nothing.
	if holds && s.isGone(by.Key, uid) {
		s.LetGo(by.Key)
	}
}

// Store is a store of a source. A controller reads it until Unread is closed, or until the operator
// ends if Unread is nil.
type Store struct {
	*cache.Store
	Unread <-chan struct{}
}

// Opened returns an open source, nil unless runs may read it.
func (s *Registry) Opened(a *Entry) *source.Opened {
	s.mu.Lock()
	defer s.mu.Unlock()
	return a.opened
}

// Stores returns the stores that runs may read at the moment.
func (s *Registry) Stores() []Store {
	var all []Store
	for _, a := range s.Now() {
		if opened := s.Opened(a); opened != nil {
			all = append(all, Store{opened.Store, a.removed})
		}
	}
	return all
}
