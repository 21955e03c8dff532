package scheduler

import (
	"context"
	"errors"
	"slices"
)

// ErrPaused is the cause (see [context.Cause]) with which [Scheduler.Pause] cancels runs.
var ErrPaused = errors.New("scheduler: paused")

// runScope is the time between two pauses. The runs that begin in it share a context.
type runScope struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	over   bool // guarded by the scheduler's mutex
}

func newRunScope(runs context.Context) *runScope {
	ctx, cancel := context.WithCancelCause(runs)
	return &runScope{ctx: ctx, cancel: cancel}
}

// pause is a call of Pause that waits for the runs that began before it.
type pause struct {
	last  uint64 // the number of the last run it waits for
	left  int
	ended chan struct{}
}

// Pause holds all keys back until [Scheduler.Resume]. No further run begins. The contexts of the
// runs in flight are cancelled at once, with [ErrPaused] as their cause. Pause waits for these runs
// and returns nil. After 10 s it returns an error that names the keys whose runs ignored their
// cancellation. The scheduler is paused in that case too, and such a key has no second run before
// the first has returned.
//
// A run that was cut off counts as if it had never begun, whatever it returned or did. After the
// pause it starts again, with the same causes and those that arrived since, and with the same
// attempt number. No back-off begins or ends. Only a reschedule that it asked for is kept, and
// [Result.Gone].
//
// During a pause, events are accepted and timers come due as usual. Their keys run after it.
//
// Pause may be called at any time. Before Run, it makes Run begin paused. During a pause, it only
// waits for what is still in flight. After the context of Run has ended, it cuts the grace period
// short: Run returns when the cancelled runs have returned. After Run has returned, it does
// nothing. Resume does not shorten its wait for the runs that were in flight when it was called. A
// run must not call Pause, because it would wait for itself.
func (s *Scheduler[K]) Pause() error {
	waiting := s.pause()
	if within(waiting.ended, cancelGrace) {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = slices.DeleteFunc(s.waiting, func(p *pause) bool { return p == waiting })
	var keys []K
	for state, run := range s.active {
		if run.number <= waiting.last {
			keys = append(keys, state.key)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	return stuck(keys)
}

func (s *Scheduler[K]) pause() *pause {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.core.pause()
	if s.scope != nil {
		s.scope.over = true
		s.scope.cancel(ErrPaused)
		s.scope = nil
	}
	waiting := &pause{last: s.begun, left: len(s.active), ended: make(chan struct{})}
	if waiting.left == 0 {
		close(waiting.ended)
	} else {
		s.waiting = append(s.waiting, waiting)
	}
	return waiting
}

// Resume ends a pause: everything that is due runs. Without a pause, or after Run has returned, it
// does nothing.
func (s *Scheduler[K]) Resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.core.paused || s.stopped {
		return
	}
	s.core.paused = false
	if s.started {
		s.scope = newRunScope(s.runs)
	}
	s.callLocked()
}

// endedLocked records that the run of a key has ended.
func (s *Scheduler[K]) endedLocked(state *keyState[K]) {
	run := s.active[state]
	delete(s.active, state)
	s.waiting = slices.DeleteFunc(s.waiting, func(p *pause) bool {
		if run.number > p.last {
			return false
		}
		p.left--
		if p.left == 0 {
			close(p.ended)
		}
		return p.left == 0
	})
}
