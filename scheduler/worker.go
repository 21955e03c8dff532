package scheduler

import (
	"context"
	"errors"
	"runtime/debug"
	"sync"
	"time"

	"github.com/evenkeel/evenkeel/internal/author"
	"github.com/evenkeel/evenkeel/retry"
	"github.com/evenkeel/evenkeel/timeline"
)

// worker runs due keys until the scheduler stops. If a run ends its goroutine (runtime.Goexit, as
// testing's FailNow does), the worker ends with it, and another one takes its place.
func (s *Scheduler[K]) worker(life context.Context, workers *sync.WaitGroup) {
	stopped := false
	defer func() {
		if !stopped {
			workers.Go(func() { s.worker(life, workers) })
		}
	}()
	for {
		state, run, scope, began := s.take(life)
		if scope == nil {
			stopped = true
			return
		}
		s.execute(scope, state, end{run: run, began: began})
	}
}

// take waits for a due key. It returns no scope once the scheduler stops, or is about to because
// the context of its Run has ended.
func (s *Scheduler[K]) take(life context.Context) (*keyState[K], Run, *runScope, instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.stopped && life.Err() == nil {
		now := s.now()
		if state, run, ok := s.core.take(now); ok {
			s.begun++
			s.active[state] = flight{s.begun, now}
			s.armLocked()
			s.callLocked()
			return state, run, s.scope, now
		}
		s.resting++
		s.work.Wait()
		s.resting--
		s.waking = false
	}
	return nil, Run{}, nil, 0
}

// PanicError is the failure of a run that panicked.
type PanicError struct {
	// Value is the value passed to panic.
	Value any
	Stack []byte
}

// Error returns the value as text, without the stack.
func (e *PanicError) Error() string { return "panic: " + author.Sprint(e.Value) }

// NewPanicError is for callers that recover a panic themselves. It captures the stack of the
// caller, which should be a deferred function.
func NewPanicError(value any) *PanicError {
	return &PanicError{Value: value, Stack: debug.Stack()}
}

// errExited is the failure of a run that neither returned nor panicked.
var errExited = errors.New("scheduler: the run ended its goroutine (runtime.Goexit)")

// execute runs a key and then finishes the run, however it ended.
func (s *Scheduler[K]) execute(scope *runScope, state *keyState[K], e end) {
	e.Result = Result{Err: errExited}
	defer func() {
		if value := recover(); value != nil {
			e.Err, e.verdict = NewPanicError(value), retry.Verdict{}
		}
		s.finish(scope, state, e)
	}()
	e.Result = s.run(scope.ctx, state.key, e.run)
	if e.Err != nil { // if the classifier panics, the rest of the result counts
		e.Err = author.Sound(e.Err)
		e.verdict, e.Err = s.options.judge(e.Err)
	}
}

// finish decides, without the lock, about the causes that arrived during the run until none is
// undecided. Then it ends the run. It ends the run even if the functions that it calls panic or end
// the goroutine.
func (s *Scheduler[K]) finish(scope *runScope, state *keyState[K], e end) {
	var undecided batch
	var now instant // reading the clock is the most expensive step here
	settled, released := false, false
	defer func() {
		if released {
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if !settled { // Decide ended the goroutine: its causes count as needed
			e.kept.join(undecided)
			now = s.now()
			s.settleLocked(now, scope, state, e)
			s.options.recordFlaw("Decide", errExited)
		}
		s.releaseLocked(now, state)
	}()
	s.mu.Lock()
	now = s.now()
	ended := now
	for s.options.Decide != nil && state.pending != nil {
		forgotten := state.forgotten
		undecided = s.core.unload(state)
		s.mu.Unlock()
		needed := undecided
		needed.keep(func(c timeline.Cause) bool { return s.options.needs(state.key, c) })
		s.needless.Add(uint64(len(undecided.causes) - len(needed.causes)))
		e.kept.join(needed)
		undecided = batch{}
		s.mu.Lock()
		if now = s.now(); state.forgotten > forgotten {
			e.kept = batch{} // they concern a resource that is gone
		}
	}
	next := s.settleLocked(now, scope, state, e)
	settled = true
	if e.Decided == nil && !s.options.records(&e) {
		s.releaseLocked(now, state)
		released = true
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()
	s.report(state.key, e, ended.since(e.began), next)
}

// settleLocked decides what follows a run, and returns the time until the next one.
func (s *Scheduler[K]) settleLocked(now instant, scope *runScope, state *keyState[K], e end) time.Duration {
	e.cutOff = scope.over
	s.ended++
	return s.core.finish(now, state, e)
}

// releaseLocked makes the key of an ended run idle.
func (s *Scheduler[K]) releaseLocked(now instant, state *keyState[K]) {
	s.core.release(now, state)
	s.endedLocked(state)
	s.armLocked()
	s.callLocked()
}

// report calls Decided and Record, before the key can have another run: the records of a key are in
// the order of its runs.
func (s *Scheduler[K]) report(key K, e end, duration, next time.Duration) {
	returned := false
	defer func() {
		if value := recover(); value != nil {
			s.options.recordFlaw("Record", NewPanicError(value))
		} else if !returned {
			s.options.recordFlaw("Record", errExited)
		}
	}()
	if e.Decided != nil {
		e.Decided()
	}
	if s.options.records(&e) {
		r, now := record(&e), time.Now()
		r.Started, r.Duration, r.Next = now.Add(-instant(now.Sub(s.zero)).since(e.began)), duration, next
		s.options.Record(key, r)
	}
	returned = true
}

// Flaw returns the first failure of a function of the options ([Options.Decide], [Options.Record]
// or [retry.Policy.Classify]), or nil. The scheduler continues without the function's result.
func (s *Scheduler[K]) Flaw() error {
	if flaw := s.options.flaw.Load(); flaw != nil {
		return *flaw
	}
	return nil
}

func record(e *end) timeline.Record {
	run, result := &e.run, &e.Result
	r := timeline.Record{
		Causes: run.Causes, Waited: run.Waited, Queued: run.Queued, Gate: run.Gate, Attempt: run.Attempt, Requests: result.Requests,
	}
	switch {
	case result.Err != nil:
		r.Outcome = timeline.Failed
		if panicked, ok := author.As[*PanicError](result.Err); ok {
			r.Outcome, r.Stack = timeline.Panicked, string(panicked.Stack)
		}
		r.Err, r.Excused, r.Final = author.Text(result.Err), result.Excused, e.verdict.Class == retry.NotAgain
	case result.Gone:
		r.Outcome = timeline.Gone
	}
	r.Rescheduled = result.RescheduleNow || result.RescheduleAfter > 0 || result.Superseded
	r.Nodes, r.ReadsAhead, r.ID = result.Nodes, result.ReadsAhead, result.ID
	r.Fights, r.Loop = result.Fights, result.Loop
	return r
}
