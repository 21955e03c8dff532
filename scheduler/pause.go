package scheduler

import (
	"context"
	"errors"
	"slices"
)

// ErrPaused is the cause (see [context.Cause]) with which [Scheduler.Pause] cancels runs.
var ErrPaused = errors.New("scheduler: paused")

// term is a time without a pause: the runs that begin in it share a context.
type term struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	over   bool // guarded by the scheduler's mutex
}

func newTerm(runs context.Context) *term {
	ctx, cancel := context.WithCancelCause(runs)
	return &term{ctx: ctx, cancel: cancel}
}

// pause is a call of Pause that waits for the runs up to a certain one.
type pause struct {
	last  uint64 // of the runs begun
	left  int
	ended chan struct{}
}

// Pause holds all keys back until [Scheduler.Resume]: no run begins any more, and the contexts of those in
// flight are cancelled at once, with [ErrPaused] as their cause. It waits for them to return, and returns nil,
// or after 10 s an error naming the keys whose runs ignored their cancellation; the scheduler is paused then,
// too, and such a key still has no second run before that one has returned.
//
// A run that was cut off counts as if it had never begun, whatever it returned or did: after the resumption it
// comes again, with the same causes and those that arrived since, and with the same attempt; no back-off begins
// or ends. Only a reschedule it asked for is kept, and what it said of its resource being gone.
//
// Events are taken in and timers come due during a pause as at other times: their keys run after it.
//
// Pause may be called at any time. Before Run it makes Run begin paused. In a pause it only waits for what is
// still in flight. Once the context of Run has ended it cuts the grace period short: Run returns when the runs
// that it cancelled have returned. After the end of Run it has nothing to do. A Resume does not shorten its wait for
// the runs that were in flight when it was called. It must not be called by a run, which would wait for itself.
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
		if run <= waiting.last {
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
	if s.term != nil {
		s.term.over = true
		s.term.cancel(ErrPaused)
		s.term = nil
	}
	waiting := &pause{last: s.begun, left: len(s.active), ended: make(chan struct{})}
	if waiting.left == 0 {
		close(waiting.ended)
	} else {
		s.waiting = append(s.waiting, waiting)
	}
	return waiting
}

// Resume ends a pause: everything that is due runs. Without a pause, and after the end of Run, it has nothing
// to do.
func (s *Scheduler[K]) Resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.core.paused || s.stopped {
		return
	}
	s.core.paused = false
	if s.started {
		s.term = newTerm(s.runs)
	}
	s.callLocked()
}

// endedLocked notes that the run of a key has ended.
func (s *Scheduler[K]) endedLocked(state *keyState[K]) {
	run := s.active[state]
	delete(s.active, state)
	s.waiting = slices.DeleteFunc(s.waiting, func(p *pause) bool {
		if run > p.last {
			return false
		}
		p.left--
		if p.left == 0 {
			close(p.ended)
		}
		return p.left == 0
	})
}
