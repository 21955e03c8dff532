package run

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework/internal/cache"
	"github.com/evenkeel/evenkeel/framework/internal/host"
	"github.com/evenkeel/evenkeel/framework/internal/source"
	"github.com/evenkeel/evenkeel/framework/internal/write"
	"github.com/evenkeel/evenkeel/trc"
)

// Registry holds the dynamic sources of one controller: those that were added to the declared ones,
// and may be removed again. It counts who holds and who reads each of them. A goroutine for each
// source opens and closes it; see serve.
type Registry struct {
	of       *Controller // set once, as is changing
	changing *sync.Mutex // the operator's; taken before mu

	mu      sync.Mutex        // guards the fields below, and those of entries that say so; a leaf
	byName  map[string]*entry // the sources that are not removed
	life    *host.Life        // nil before the controller has its stores
	over    chan struct{}     // closed by end
	ended   bool              // no source may be added
	leaving map[*entry]bool   // removed sources whose goroutines have not ended
	// lingering are removed sources that did not stop in time, and may not have stopped yet.
	lingering []*entry
	serial    int            // the serial number of the newest entry
	running   sync.WaitGroup // the goroutines of serve
}

// visit is what a run reads and holds of the registry.
type visit struct {
	any   atomic.Bool // the run has used the registry at all
	reads []*entry    // guarded by Registry.mu, as is holds
	holds bool        // the run's primary was added as a holder
}

// add adds a source unless it is there, and makes the run's primary a holder of it, or the operator
// if by is nil. It reports whether the source was not there.
func (s *Registry) add(given *entry, by *Run) (added bool, err error) {
	fail := func(why error) (bool, error) {
		return false, fmt.Errorf("framework: controller %q: add source %q: %w", s.of.Name, given.Name, why)
	}
	switch declared := s.of.declared(given.Name).(type) {
	case nil:
	case source.Description:
		if given.supervised == nil && declared.Key == given.secondary.Key {
			return false, nil
		}
		return fail(fmt.Errorf("ControllerOptions.Secondaries has one of that name, %s; this is %s", declared.Text(), given.describe()))
	case *source.Supervised:
		if given.supervised != nil && source.Identical(declared.Source, given.supervised.Source) {
			return false, nil
		}
		return fail(fmt.Errorf("ControllerOptions.Sources has one of that name, a %T; this is %s", declared.Source, given.describe()))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || by != nil && s.enterLocked(by) != nil {
		return fail(write.ErrRunEnded)
	}
	there := s.byName[given.Name]
	if there != nil && !there.is(given) {
		return fail(fmt.Errorf("there is one of that name, %s; this is %s", there.describe(), given.describe()))
	}
	if there == nil {
		there = given
		if s.byName == nil {
			s.byName = map[string]*entry{}
		}
		s.serial++
		there.serial, there.removed, there.admitted, there.unread = s.serial, make(chan struct{}), make(chan struct{}), make(chan struct{})
		there.holders, there.waiting = map[trc.Key]bool{}, map[trc.Key]bool{}
		s.byName[given.Name] = there
		s.launchLocked(there)
	}
	if by == nil {
		there.byOperator = true
	} else {
		there.holders[by.Key], by.visit.holds = true, true
	}
	return there == given, nil
}

// holdsAlready reports whether the run's primary already holds that very secondary. Most calls of
// AddSecondary find that.
func (s *Registry) holdsAlready(secondary any, by *Run) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.knownLocked(secondary)
	return a != nil && a.holders[by.Key] && s.enterLocked(by) == nil
}

// enterLocked records that a run uses the registry, or returns an error if the run has ended.
func (s *Registry) enterLocked(by *Run) error {
	by.visit.any.Store(true)
	if by.Ended.Load() { // otherwise the end of the run sees the mark
		return write.ErrRunEnded
	}
	return nil
}

// Begin starts the goroutines of all sources, now that the controller has its stores. l is the life
// of the operator from here on.
func (s *Registry) Begin(l *host.Life) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.life, s.over = l, make(chan struct{})
	for _, a := range s.byName {
		s.launchLocked(a)
	}
}

// launchLocked starts the goroutine of a source, if the controller has its stores. A source of the
// author's must wait for the end of the same source that was added and removed before.
func (s *Registry) launchLocked(a *entry) {
	if l := s.life; l != nil && !s.ended {
		ctx, cancel := context.WithCancel(l.Background)
		a.cancel, a.gone = cancel, make(chan struct{})
		for before := range s.leaving {
			if a.supervised != nil && before.is(a) {
				a.after = append(a.after, before)
			}
		}
		s.lingering = slices.DeleteFunc(s.lingering, func(before *entry) bool { return cache.IsClosed(before.supervised.Ended) })
		for _, before := range s.lingering {
			if a.supervised != nil && before.is(a) {
				a.after = append(a.after, before)
			}
		}
		s.running.Go(func() { s.serve(ctx, l, a) })
	}
}

// Drop ends the hold of the run's primary on a source, or the hold of the operator if by is nil. It
// returns an error for a declared source.
func (s *Registry) Drop(name string, by *Run) error {
	if s.of.lasts(name) {
		return fmt.Errorf("framework: controller %q: remove source %q: it is one of ControllerOptions, which last as long as the operator", s.of.Name, name)
	}
	var waiting map[trc.Key]bool
	s.mu.Lock()
	a := s.byName[name]
	if a != nil && by != nil {
		waiting = s.dropLocked(a, by.Key)
	} else if a != nil && a.byOperator {
		a.byOperator = false
		waiting = s.unheldLocked(a)
	}
	neverBegun := a != nil && a.cancel == nil && a.isRemoved()
	s.mu.Unlock()
	if neverBegun {
		s.of.leaveCluster(a)
	}
	s.trigger(name, waiting, "it was removed")
	return nil
}

// letGo ends the holds of a deleted primary.
func (s *Registry) letGo(primary trc.Key) {
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
func (s *Registry) dropLocked(a *entry, primary trc.Key) (waiting map[trc.Key]bool) {
	if !a.holders[primary] {
		return nil
	}
	delete(a.holders, primary)
	return s.unheldLocked(a)
}

// unheldLocked removes a source if nobody holds it, and returns the primaries that waited for it.
func (s *Registry) unheldLocked(a *entry) (waiting map[trc.Key]bool) {
	if len(a.holders) > 0 || a.byOperator {
		return nil
	}
	return s.removeLocked(a)
}

// removeLocked removes a source: no run may begin to read it. It returns the primaries that waited
// for it.
func (s *Registry) removeLocked(a *entry) (waiting map[trc.Key]bool) {
	delete(s.byName, a.Name)
	close(a.removed)
	if a.readers == 0 {
		close(a.unread)
	}
	if a.cancel != nil {
		if s.leaving == nil {
			s.leaving = map[*entry]bool{}
		}
		s.leaving[a] = true
		a.cancel()
	}
	waiting, a.waiting = a.waiting, nil
	return waiting
}

// end removes all sources and returns when all goroutines have ended. No source can be added after
// that.
func (s *Registry) end() {
	s.mu.Lock()
	s.ended = true
	for _, a := range s.byName {
		s.removeLocked(a)
	}
	if s.over != nil {
		close(s.over)
	}
	s.mu.Unlock()
	s.running.Wait()
}

// trigger enqueues the primaries that waited for the source.
func (s *Registry) trigger(name string, primaries map[trc.Key]bool, why string) {
	for key := range primaries {
		s.of.sink().Offer(key, eventsource.Offer{Cause: externalCause(name, why), Initial: true})
	}
}

// read returns the source of a secondary for a run. It stays open until the run ends.
func (s *Registry) read(secondary any, by *Run) (*source.Opened, error) {
	a, o, err := s.enter(secondary, by)
	switch {
	case err != nil:
		return nil, err
	case a == nil:
		return nil, s.of.unknownSecondary(secondary)
	case o == nil:
		why := s.Problem(a)
		if why == nil { // it has been opened since then
			why = host.ErrUnfilled
		}
		return nil, &notSynced{fmt.Errorf("framework: controller %q: secondary %q: %w: %w", s.of.Name, a.Name, ErrNotSynced, why)}
	}
	return o, nil
}

// enter records that a run reads a source, or that its primary waits until it may. It returns nil,
// nil, nil if there is no such source.
func (s *Registry) enter(secondary any, by *Run) (*entry, *source.Opened, error) {
	s.mu.Lock()
	a := s.knownLocked(secondary)
	s.mu.Unlock()
	if a == nil { // there may be an equal one
		d, err := s.of.describeSecondary("the secondary", secondary)
		if err != nil {
			return nil, nil, err
		}
		a = &entry{Name: d.Name, secondary: d}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.enterLocked(by); err != nil {
		return nil, nil, err
	}
	there := s.byName[a.Name]
	if there == nil || !there.is(a) {
		return nil, nil, nil
	}
	if there.opened == nil {
		there.waiting[by.Key] = true
		return there, nil, nil
	}
	if visit := &by.visit; !slices.Contains(visit.reads, there) {
		visit.reads = append(visit.reads, there)
		there.readers++
	}
	return there, there.opened, nil
}

// knownLocked returns the source that was added with that very secondary, or nil.
func (s *Registry) knownLocked(secondary any) *entry {
	for _, a := range s.byName { // there are few
		if a.supervised == nil && a.secondary.Key == secondary {
			return a
		}
	}
	return nil
}

// leave ends what a run reads of the registry.
func (s *Registry) leave(by *Run) {
	visit := &by.visit
	if !visit.any.Load() {
		return
	}
	s.mu.Lock()
	for _, a := range visit.reads {
		if a.readers--; a.readers == 0 && a.isRemoved() {
			close(a.unread)
		}
	}
	visit.reads = nil
	holds := visit.holds
	s.mu.Unlock()
	// If the primary is deleted after this check, its deletion is handled later and ends the holds. A
	// new primary of the same name has had no run yet, and holds nothing.
	if holds && s.of.isGone(by.Key, by.uid()) {
		s.letGo(by.Key)
	}
}

// Now returns the sources, sorted by name.
func (s *Registry) Now() []*entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*entry
	for _, name := range slices.Sorted(maps.Keys(s.byName)) {
		all = append(all, s.byName[name])
	}
	return all
}

// secondaries returns the dynamic secondaries.
func (s *Registry) secondaries() []source.Description {
	var all []source.Description
	for _, a := range s.Now() {
		if a.supervised == nil {
			all = append(all, a.secondary)
		}
	}
	return all
}

// heldBy returns the primaries that hold sources. A primary may occur more than once.
func (s *Registry) heldBy() (keys []trc.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.byName {
		keys = slices.AppendSeq(keys, maps.Keys(a.holders))
	}
	return keys
}

// len returns the number of sources, with removed ones whose goroutines have not ended.
func (s *Registry) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byName) + len(s.leaving)
}
