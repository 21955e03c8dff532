package registry

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework/internal/cache"
	"github.com/evenkeel/evenkeel/framework/internal/host"
	"github.com/evenkeel/evenkeel/framework/internal/source"
	"github.com/evenkeel/evenkeel/framework/internal/write"
	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// Registry holds the sources of one controller. Required ones are there for ever. The others are
// dynamic: it counts who holds and who reads each of them. A goroutine for each dynamic source
// opens and closes it; see server.
type Registry struct {
	Opener
	// isGone reports whether no primary with that name and UID exists, nor owes its last run.
	isGone func(primary trc.Key, uid types.UID) bool
	// unknown returns the error of a read of a secondary that is not there.
	unknown func(secondary any) error

	Required Required       // those of the options
	byKey    map[any]*Entry // required secondaries by their Key; not changed after the first run

	mu      sync.Mutex        // guards the fields below, and those of entries that say so; a leaf
	byName  map[string]*Entry // the sources that are not removed
	life    *host.Life        // nil before the controller has its stores
	over    chan struct{}     // closed by End
	ended   bool              // no source may be added
	leaving map[*Entry]bool   // removed sources whose goroutines have not ended
	// lingering are removed sources that did not stop in time, and may not have stopped yet.
	lingering []*Entry
	serial    int            // the serial number of the newest entry
	running   sync.WaitGroup // the goroutines of serve
}

// Set sets what a registry needs, before the first source is declared.
func (s *Registry) Set(o Opener, isGone func(trc.Key, types.UID) bool, unknown func(secondary any) error) {
	s.Opener, s.isGone, s.unknown, s.Required.of = o, isGone, unknown, s
	s.byName = map[string]*Entry{}
}

// Add adds a source unless it is there, and makes the run's primary a holder of it, or the operator
// if by is nil. It reports whether the source was not there.
func (s *Registry) Add(given *Entry, by *Visit) (added bool, err error) {
	fail := func(why error) (bool, error) {
		return false, fmt.Errorf("framework: controller %q: add source %q: %w", s.Controller, given.Name, why)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	there := s.byName[given.Name]
	switch {
	case there != nil && there.Required && there.isSame(given):
		return false, nil
	case there != nil && there.Required:
		return fail(fmt.Errorf("%s has one of that name, %s; this is %s", there.options(), there.Describe(), given.Describe()))
	case s.ended || by != nil && by.enter() != nil:
		return fail(write.ErrRunEnded)
	case there != nil && !there.Is(given):
		return fail(fmt.Errorf("there is one of that name, %s; this is %s", there.Describe(), given.Describe()))
	case there == nil:
		if err := given.check(s.leaving, s.lingering); err != nil {
			return fail(err)
		}
		there = given
		s.serial++
		there.serial, there.removed, there.admitted, there.unread = s.serial, make(chan struct{}), make(chan struct{}), make(chan struct{})
		there.holders, there.waiting = map[trc.Key]bool{}, map[trc.Key]bool{}
		s.byName[there.Name] = there
		s.launchLocked(there)
	}
	if by == nil {
		there.byOperator = true
	} else {
		there.holders[by.Key], by.holds = true, true
	}
	return there == given, nil
}

// AddSecondary is Add for a secondary. It gives the secondary its cluster.
func (s *Registry) AddSecondary(d source.Description, by *Visit) error {
	if err := s.reach(&d); err != nil {
		return err
	}
	added, err := s.Add(Secondary(d), by)
	if !added {
		s.Host.LeaveCluster(d.Config)
	}
	return err
}

// Begin starts the goroutines of all sources, now that the controller has its stores. l is the life
// of the operator from here on.
func (s *Registry) Begin(l *host.Life) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.life, s.over = l, make(chan struct{})
	for _, a := range s.byName {
		if !a.Required {
			s.launchLocked(a)
		}
	}
}

// launchLocked starts the goroutine of a source, if the controller has its stores. A source of the
// author's must wait for the end of the same source that was added and removed before.
func (s *Registry) launchLocked(a *Entry) {
	if l := s.life; l != nil && !s.ended {
		ctx, cancel := context.WithCancel(l.Background)
		a.cancel, a.gone = cancel, make(chan struct{})
		for before := range s.leaving {
			if a.Supervised != nil && before.Is(a) {
				a.after = append(a.after, before)
			}
		}
		s.lingering = slices.DeleteFunc(s.lingering, func(before *Entry) bool { return cache.IsClosed(before.Supervised.Ended) })
		for _, before := range s.lingering {
			if a.Supervised != nil && before.Is(a) {
				a.after = append(a.after, before)
			}
		}
		s.running.Go(func() { (&server{s, l, a}).serve(ctx) })
	}
}

// Drop ends the hold of the run's primary on a source, or the hold of the operator if by is nil. It
// returns an error for a source of the options.
func (s *Registry) Drop(name string, by *Visit) error {
	var waiting map[trc.Key]bool
	s.mu.Lock()
	a := s.byName[name]
	switch {
	case a == nil:
	case a.lasts:
		s.mu.Unlock()
		return fmt.Errorf("framework: controller %q: remove source %q: it is one of ControllerOptions, which last as long as the operator", s.Controller, name)
	case by != nil:
		waiting = s.dropLocked(a, by.Key)
	case a.byOperator:
		a.byOperator = false
		waiting = s.unheldLocked(a)
	}
	neverBegun := a != nil && a.cancel == nil && a.isRemoved()
	s.mu.Unlock()
	if neverBegun {
		s.leave(a)
	}
	s.trigger(name, waiting, "it was removed")
	return nil
}

// LetGo ends the holds of a deleted primary.
func (s *Registry) LetGo(primary trc.Key) {
	var waiting map[string]map[trc.Key]bool
	s.mu.Lock()
	for name, a := range s.byName {
		delete(a.waiting, primary)
		if left := s.dropLocked(a, primary); len(left) > 0 {
			if waiting == nil {
				waiting = map[string]map[trc.Key]bool{}
			}
			waiting[name] = left
		}
	}
	s.mu.Unlock()
	for name, left := range waiting {
		s.trigger(name, left, "it was removed")
	}
}

// dropLocked ends the hold of a primary. It returns the primaries that waited for the source if
// that removes it.
func (s *Registry) dropLocked(a *Entry, primary trc.Key) (waiting map[trc.Key]bool) {
	if !a.holders[primary] {
		return nil
	}
	delete(a.holders, primary)
	return s.unheldLocked(a)
}

// unheldLocked removes a source if nobody holds it, and returns the primaries that waited for it.
func (s *Registry) unheldLocked(a *Entry) (waiting map[trc.Key]bool) {
	if len(a.holders) > 0 || a.byOperator {
		return nil
	}
	return s.removeLocked(a)
}

// removeLocked removes a source: no run may begin to read it. It returns the primaries that waited
// for it.
func (s *Registry) removeLocked(a *Entry) (waiting map[trc.Key]bool) {
	delete(s.byName, a.Name)
	close(a.removed)
	if a.readers == 0 {
		close(a.unread)
	}
	if a.cancel != nil {
		if s.leaving == nil {
			s.leaving = map[*Entry]bool{}
		}
		s.leaving[a] = true
		a.cancel()
	}
	waiting, a.waiting = a.waiting, nil
	return waiting
}

// End removes the dynamic sources and waits until their goroutines have ended. Then it stops
// the required ones. No source can be added after that.
func (s *Registry) End() {
	s.mu.Lock()
	s.ended = true
	for _, a := range s.byName {
		if !a.Required {
			s.removeLocked(a)
		}
	}
	if s.over != nil {
		close(s.over)
	}
	s.mu.Unlock()
	s.running.Wait()
	s.Required.end()
}

// trigger enqueues the primaries that waited for the source.
func (s *Registry) trigger(name string, primaries map[trc.Key]bool, why string) {
	for key := range primaries {
		s.Sink.Offer(key, eventsource.Offer{Cause: timeline.External{Source: name, ID: why}, Initial: true})
	}
}

// Now returns the sources: required ones in their order, then the others by name.
func (s *Registry) Now() []*Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Clone(s.Required.all)
	for _, name := range slices.Sorted(maps.Keys(s.byName)) {
		if a := s.byName[name]; !a.Required {
			all = append(all, a)
		}
	}
	return all
}

// Secondaries returns the secondaries, required ones first. They must not be changed.
func (s *Registry) Secondaries() []*source.Description {
	now := s.Now()
	all := make([]*source.Description, 0, len(now))
	for _, a := range now {
		if a.Supervised == nil {
			all = append(all, &a.Secondary)
		}
	}
	return all
}

// Find returns the first secondary that a condition holds for, nil if there is none. It must not be
// changed. Each write asks, so nothing is copied. The condition is asked with the lock held.
func (s *Registry) Find(is func(*source.Description) bool) *source.Description {
	for _, a := range s.Required.all {
		if a.Supervised == nil && is(&a.Secondary) {
			return &a.Secondary
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.byName {
		if !a.Required && a.Supervised == nil && is(&a.Secondary) {
			return &a.Secondary
		}
	}
	return nil
}

// Sources returns the author's sources, required ones first.
func (s *Registry) Sources() []*source.Supervised {
	var all []*source.Supervised
	for _, a := range s.Now() {
		if a.Supervised != nil {
			all = append(all, a.Supervised)
		}
	}
	return all
}

// HeldBy returns the primaries that hold sources. A primary may occur more than once.
func (s *Registry) HeldBy() (keys []trc.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.byName {
		keys = slices.AppendSeq(keys, maps.Keys(a.holders))
	}
	return keys
}

// Len returns the number of dynamic sources, with removed ones whose goroutines have not ended.
func (s *Registry) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byName) - len(s.Required.all) + len(s.leaving)
}
