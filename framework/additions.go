package framework

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/evenkeel/evenkeel/framework/internal/write"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework/internal/source"
	"github.com/evenkeel/evenkeel/trc"
)

// addedSources are the sources of one controller that were added to those of its options, and may be removed again: who
// holds and who reads them. What that takes is done by a goroutine for each; see attend.
type addedSources struct {
	of       *controller // set once, as is the next
	changing *sync.Mutex // the operator's, taken before the other

	mu      sync.Mutex // guards below, and what additions say they guard; a leaf
	byName  map[string]*addition
	life    *life         // nil before the controller has its stores
	over    chan struct{} // closed at the end
	ended   bool
	leaving map[*addition]bool // that are removed, and still there
	// lingering are sources that were left behind, as they did not end in time, and may not have yet.
	lingering []*addition
	serial    int
	running   sync.WaitGroup // what attends to them
}

// visit is what a run has to do with additions.
type visit struct {
	any   atomic.Bool // anything at all
	reads []*addition // guarded by the mutex of the additions, as is holds
	holds bool
}

// add adds what is not there yet, for a run or, if that is nil, for the operator. It reports whether it was not.
func (s *addedSources) add(given *addition, by *run) (added bool, err error) {
	fail := func(why error) (bool, error) {
		return false, fmt.Errorf("framework: controller %q: add source %q: %w", s.of.controllerName(), given.name, why)
	}
	switch declared := s.of.declared(given.name).(type) {
	case nil:
	case source.Description:
		if given.guest == nil && declared.Key == given.secondary.Key {
			return false, nil
		}
		return fail(fmt.Errorf("ControllerOptions.Secondaries has one of that name, %s; this is %s", declared.Text(), given.describe()))
	case *source.Supervised:
		if given.guest != nil && source.Identical(declared.Source, given.guest.Source) {
			return false, nil
		}
		return fail(fmt.Errorf("ControllerOptions.Sources has one of that name, a %T; this is %s", declared.Source, given.describe()))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || by != nil && s.enterLocked(by) != nil {
		return fail(write.ErrRunEnded)
	}
	there := s.byName[given.name]
	if there != nil && !there.is(given) {
		return fail(fmt.Errorf("there is one of that name, %s; this is %s", there.describe(), given.describe()))
	}
	if there == nil {
		there = given
		if s.byName == nil {
			s.byName = map[string]*addition{}
		}
		s.serial++
		there.serial, there.removed, there.admitted, there.unread = s.serial, make(chan struct{}), make(chan struct{}), make(chan struct{})
		there.holders, there.waiting = map[trc.Key]bool{}, map[trc.Key]bool{}
		s.byName[given.name] = there
		s.launchLocked(there)
	}
	if by == nil {
		there.byOperator = true
	} else {
		there.holders[by.primaryKey()], by.visits().holds = true, true
	}
	return there == given, nil
}

// holdsAlready tells whether a run's primary holds that very secondary, which most calls are about.
func (s *addedSources) holdsAlready(secondary any, by *run) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.knownLocked(secondary)
	return a != nil && a.holders[by.primaryKey()] && s.enterLocked(by) == nil
}

// enterLocked notes that a run has to do with additions, before it can end without their knowing.
func (s *addedSources) enterLocked(by *run) error {
	by.visits().any.Store(true)
	if by.isOver() { // or its end sees the mark
		return write.ErrRunEnded
	}
	return nil
}

// begin has the additions attended to, as the controller has its stores now.
func (s *addedSources) begin(l *life) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.life, s.over = l, make(chan struct{})
	for _, a := range s.byName {
		s.launchLocked(a)
	}
}

func (s *addedSources) launchLocked(a *addition) {
	if l := s.life; l != nil && !s.ended {
		ctx, cancel := context.WithCancel(l.background)
		a.cancel, a.gone = cancel, make(chan struct{})
		for before := range s.leaving {
			if a.guest != nil && before.is(a) {
				a.after = append(a.after, before)
			}
		}
		s.lingering = slices.DeleteFunc(s.lingering, func(before *addition) bool { return isClosed(before.guest.Ended) })
		for _, before := range s.lingering {
			if a.guest != nil && before.is(a) {
				a.after = append(a.after, before)
			}
		}
		s.running.Go(func() { s.attend(ctx, l, a) })
	}
}

// drop ends the hold of a run's primary on an addition, or that of the operator.
func (s *addedSources) drop(name string, by *run) error {
	if s.of.lasts(name) {
		return fmt.Errorf("framework: controller %q: remove source %q: it is one of ControllerOptions, which last as long as the operator", s.of.controllerName(), name)
	}
	var waiting map[trc.Key]bool
	s.mu.Lock()
	a := s.byName[name]
	if a != nil && by != nil {
		waiting = s.dropLocked(a, by.primaryKey())
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
func (s *addedSources) letGo(primary trc.Key) {
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

func (s *addedSources) dropLocked(a *addition, primary trc.Key) (waiting map[trc.Key]bool) {
	if !a.holders[primary] {
		return nil
	}
	delete(a.holders, primary)
	return s.unheldLocked(a)
}

// unheldLocked removes an addition if nobody holds it.
func (s *addedSources) unheldLocked(a *addition) (waiting map[trc.Key]bool) {
	if len(a.holders) > 0 || a.byOperator {
		return nil
	}
	return s.removeLocked(a)
}

// removeLocked takes an addition away from runs that begin to read it, and returns the primaries that waited for it.
func (s *addedSources) removeLocked(a *addition) (waiting map[trc.Key]bool) {
	delete(s.byName, a.name)
	close(a.removed)
	if a.readers == 0 {
		close(a.unread)
	}
	if a.cancel != nil {
		if s.leaving == nil {
			s.leaving = map[*addition]bool{}
		}
		s.leaving[a] = true
		a.cancel()
	}
	waiting, a.waiting = a.waiting, nil
	return waiting
}

// end removes all, and returns when nothing is left of them. None can be added any more.
func (s *addedSources) end() {
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
func (s *addedSources) offer(name string, primaries map[trc.Key]bool, why string) {
	for key := range primaries {
		s.of.sink().Offer(key, eventsource.Offer{Cause: externalCause(name, why), Initial: true})
	}
}

// read returns the source of secondaries for a run. It is the run's until that ends: nothing is taken down before.
func (s *addedSources) read(secondary any, by *run) (*source.Opened, error) {
	a, o, err := s.enter(secondary, by)
	switch {
	case err != nil:
		return nil, err
	case a == nil:
		return nil, s.of.unknownSecondary(secondary)
	case o == nil:
		why := s.problem(a)
		if why == nil { // since then it may be read
			why = errUnfilled
		}
		return nil, &notSynced{fmt.Errorf("framework: controller %q: secondary %q: %w: %w", s.of.controllerName(), a.name, errNotSynced, why)}
	}
	return o, nil
}

// enter notes that a run reads an addition, or waits until it may.
func (s *addedSources) enter(secondary any, by *run) (*addition, *source.Opened, error) {
	s.mu.Lock()
	a := s.knownLocked(secondary)
	s.mu.Unlock()
	if a == nil { // maybe one that is declared alike
		d, err := s.of.describeSecondary("the secondary", secondary)
		if err != nil {
			return nil, nil, err
		}
		a = &addition{name: d.Name, secondary: d}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.enterLocked(by); err != nil {
		return nil, nil, err
	}
	there := s.byName[a.name]
	if there == nil || !there.is(a) {
		return nil, nil, nil
	}
	if there.opened == nil {
		there.waiting[by.primaryKey()] = true
		return there, nil, nil
	}
	if visit := by.visits(); !slices.Contains(visit.reads, there) {
		visit.reads = append(visit.reads, there)
		there.readers++
	}
	return there, there.opened, nil
}

// knownLocked returns what was added as that very secondary, or nil.
func (s *addedSources) knownLocked(secondary any) *addition {
	for _, a := range s.byName { // they are few
		if a.guest == nil && a.secondary.Key == secondary {
			return a
		}
	}
	return nil
}

// leave ends what a run has to do with additions.
func (s *addedSources) leave(by *run) {
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
	if holds && s.of.isGone(by.primaryKey(), by.primaryUID()) {
		s.letGo(by.primaryKey())
	}
}

// now are the additions in the order of their names.
func (s *addedSources) now() []*addition {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*addition
	for _, name := range slices.Sorted(maps.Keys(s.byName)) {
		all = append(all, s.byName[name])
	}
	return all
}

// secondaries are those that were added.
func (s *addedSources) secondaries() []source.Description {
	var all []source.Description
	for _, a := range s.now() {
		if a.guest == nil {
			all = append(all, a.secondary)
		}
	}
	return all
}

// heldBy are the primaries that hold some.
func (s *addedSources) heldBy() (keys []trc.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.byName {
		keys = slices.AppendSeq(keys, maps.Keys(a.holders))
	}
	return keys
}

// len counts them, with those that are removed and still there.
func (s *addedSources) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byName) + len(s.leaving)
}
