package run

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework/internal/host"
	"github.com/evenkeel/evenkeel/framework/internal/source"
	"github.com/evenkeel/evenkeel/framework/internal/write"
	"github.com/evenkeel/evenkeel/trc"
)

// Registry are the sources of one controller that were added to those of its options, and may be removed again: who
// holds and who reads them. What that takes is done by a goroutine for each; see attend.
type Registry struct {
	of       *Controller // set once, as is the next
	changing *sync.Mutex // the operator's, taken before the other

	mu      sync.Mutex // guards below, and what additions say they guard; a leaf
	byName  map[string]*entry
	life    *host.Life    // nil before the controller has its stores
	over    chan struct{} // closed at the end
	ended   bool
	leaving map[*entry]bool // that are removed, and still there
	// lingering are sources that were left behind, as they did not end in time, and may not have yet.
	lingering []*entry
	serial    int
	running   sync.WaitGroup // what attends to them
}

// visit is what a run has to do with additions.
type visit struct {
	any   atomic.Bool // anything at all
	reads []*entry    // guarded by the mutex of the additions, as is holds
	holds bool
}

// add adds what is not there yet, for a run or, if that is nil, for the operator. It reports whether it was not.
func (s *Registry) add(given *entry, by *Run) (added bool, err error) {
	fail := func(why error) (bool, error) {
		return false, fmt.Errorf("framework: controller %q: add source %q: %w", s.of.ControllerName(), given.Name, why)
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
		there.holders[by.PrimaryKey()], by.visits().holds = true, true
	}
	return there == given, nil
}

// holdsAlready tells whether a run's primary holds that very secondary, which most calls are about.
func (s *Registry) holdsAlready(secondary any, by *Run) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.knownLocked(secondary)
	return a != nil && a.holders[by.PrimaryKey()] && s.enterLocked(by) == nil
}

// enterLocked notes that a run has to do with additions, before it can end without their knowing.
func (s *Registry) enterLocked(by *Run) error {
	by.visits().any.Store(true)
	if by.isOver() { // or its end sees the mark
		return write.ErrRunEnded
	}
	return nil
}

// Begin has the additions attended to, as the controller has its stores now.
func (s *Registry) Begin(l *host.Life) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.life, s.over = l, make(chan struct{})
	for _, a := range s.byName {
		s.launchLocked(a)
	}
}

func (s *Registry) launchLocked(a *entry) {
	if l := s.life; l != nil && !s.ended {
		ctx, cancel := context.WithCancel(l.Background)
		a.cancel, a.gone = cancel, make(chan struct{})
		for before := range s.leaving {
			if a.supervised != nil && before.is(a) {
				a.after = append(a.after, before)
			}
		}
		s.lingering = slices.DeleteFunc(s.lingering, func(before *entry) bool { return isClosed(before.supervised.Ended) })
		for _, before := range s.lingering {
			if a.supervised != nil && before.is(a) {
				a.after = append(a.after, before)
			}
		}
		s.running.Go(func() { s.attend(ctx, l, a) })
	}
}

// Drop ends the hold of a run's primary on an addition, or that of the operator.
func (s *Registry) Drop(name string, by *Run) error {
	if s.of.lasts(name) {
		return fmt.Errorf("framework: controller %q: remove source %q: it is one of ControllerOptions, which last as long as the operator", s.of.ControllerName(), name)
	}
	var waiting map[trc.Key]bool
	s.mu.Lock()
	a := s.byName[name]
	if a != nil && by != nil {
		waiting = s.dropLocked(a, by.PrimaryKey())
	} else if a != nil && a.byOperator {
		a.byOperator = false
		waiting = s.unheldLocked(a)
	}
	neverBegun := a != nil && a.cancel == nil && a.isRemoved()
	s.mu.Unlock()
	if neverBegun {
		s.of.forsake(a)
	}
	s.offer(name, waiting, "it was removed")
	return nil
}

// letGo ends the holds of a primary that is gone.
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
		s.offer(name, left, "it was removed")
	}
}

func (s *Registry) dropLocked(a *entry, primary trc.Key) (waiting map[trc.Key]bool) {
	if !a.holders[primary] {
		return nil
	}
	delete(a.holders, primary)
	return s.unheldLocked(a)
}

// unheldLocked removes an addition if nobody holds it.
func (s *Registry) unheldLocked(a *entry) (waiting map[trc.Key]bool) {
	if len(a.holders) > 0 || a.byOperator {
		return nil
	}
	return s.removeLocked(a)
}

// removeLocked takes an addition away from runs that begin to read it, and returns the primaries that waited for it.
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

// end removes all, and returns when nothing is left of them. None can be added any more.
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

// offer makes primaries due for what has become of an addition.
func (s *Registry) offer(name string, primaries map[trc.Key]bool, why string) {
	for key := range primaries {
		s.of.sink().Offer(key, eventsource.Offer{Cause: externalCause(name, why), Initial: true})
	}
}

// read returns the source of secondaries for a run. It is the run's until that ends: nothing is taken down before.
func (s *Registry) read(secondary any, by *Run) (*source.Opened, error) {
	a, o, err := s.enter(secondary, by)
	switch {
	case err != nil:
		return nil, err
	case a == nil:
		return nil, s.of.unknownSecondary(secondary)
	case o == nil:
		why := s.Problem(a)
		if why == nil { // since then it may be read
			why = host.ErrUnfilled
		}
		return nil, &notSynced{fmt.Errorf("framework: controller %q: secondary %q: %w: %w", s.of.ControllerName(), a.Name, host.ErrNotSynced, why)}
	}
	return o, nil
}

// enter notes that a run reads an addition, or waits until it may.
func (s *Registry) enter(secondary any, by *Run) (*entry, *source.Opened, error) {
	s.mu.Lock()
	a := s.knownLocked(secondary)
	s.mu.Unlock()
	if a == nil { // maybe one that is declared alike
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
		there.waiting[by.PrimaryKey()] = true
		return there, nil, nil
	}
	if visit := by.visits(); !slices.Contains(visit.reads, there) {
		visit.reads = append(visit.reads, there)
		there.readers++
	}
	return there, there.opened, nil
}

// knownLocked returns what was added as that very secondary, or nil.
func (s *Registry) knownLocked(secondary any) *entry {
	for _, a := range s.byName { // they are few
		if a.supervised == nil && a.secondary.Key == secondary {
			return a
		}
	}
	return nil
}

// leave ends what a run has to do with additions.
func (s *Registry) leave(by *Run) {
	visit := by.visits()
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
	// If it goes after that, forgetting it comes after that, too. Another one of its name has had no run yet, and holds nothing.
	if holds && s.of.isGone(by.PrimaryKey(), by.primaryUID()) {
		s.letGo(by.PrimaryKey())
	}
}

// Now are the additions in the order of their names.
func (s *Registry) Now() []*entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*entry
	for _, name := range slices.Sorted(maps.Keys(s.byName)) {
		all = append(all, s.byName[name])
	}
	return all
}

// secondaries are those that were added.
func (s *Registry) secondaries() []source.Description {
	var all []source.Description
	for _, a := range s.Now() {
		if a.supervised == nil {
			all = append(all, a.secondary)
		}
	}
	return all
}

// heldBy are the primaries that hold some.
func (s *Registry) heldBy() (keys []trc.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.byName {
		keys = slices.AppendSeq(keys, maps.Keys(a.holders))
	}
	return keys
}

// len counts them, with those that are removed and still there.
func (s *Registry) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byName) + len(s.leaving)
}
