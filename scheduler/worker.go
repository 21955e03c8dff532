package scheduler

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/evenkeel/evenkeel/retry"
	"github.com/evenkeel/evenkeel/timeline"
)

// worker runs due keys until the scheduler stops. A run that ends its goroutine (runtime.Goexit, as
// testing's FailNow does) takes the worker with it: another one takes its place.
func (s *Scheduler[K]) worker(life context.Context, workers *sync.WaitGroup) {
	stopped := false
	defer func() {
		if !stopped {
			workers.Go(func() { s.worker(life, workers) })
		}
	}()
	for {
		state, run, term, began := s.take(life)
		if term == nil {
			stopped = true
			return
		}
		s.execute(term, state, end{run: run, began: began})
	}
}

// take waits for a due key; it returns no term once the scheduler stops, or is about to because the
// context of its Run has ended.
func (s *Scheduler[K]) take(life context.Context) (*keyState[K], Run, *term, instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.stopped && life.Err() == nil {
		now := s.now()
		if state, run, ok := s.core.take(now); ok {
			s.begun++
			s.active[state] = s.begun
			s.armLocked()
			s.callLocked()
			return state, run, s.term, now
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
	// Value is what was passed to panic, Stack the stack at that moment.
	Value any
	Stack []byte
}

// Error names the value; the stack is in [PanicError.Stack].
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// NewPanicError is for those who recover a panic themselves; it takes the stack of the caller, who
// should be a deferred function.
func NewPanicError(value any) *PanicError {
	return &PanicError{Value: value, Stack: debug.Stack()}
}

// errExited is the failure of a run that neither returned nor panicked.
var errExited = errors.New("scheduler: the run ended its goroutine (runtime.Goexit)")

// execute runs a key and ends its run, however that ended.
func (s *Scheduler[K]) execute(term *term, state *keyState[K], e end) {
	e.Result = Result{Err: errExited}
	defer func() {
		if value := recover(); value != nil {
			e.Err, e.verdict = NewPanicError(value), retry.Verdict{}
		}
		s.finish(term, state, e)
	}()
	e.Result = s.run(term.ctx, state.key, e.run)
	if e.Err != nil { // should the classifier panic, all else that the run left counts
		e.verdict = s.options.Retry.Judge(e.Err)
	}
}

// finish decides the causes that arrived during the run, outside the lock, until none is undecided,
// and then ends the run.
func (s *Scheduler[K]) finish(term *term, state *keyState[K], e end) {
	key := state.key
	s.mu.Lock()
	now := s.now() // the clock is dearer than all else here
	ended := now
	for s.options.Decide != nil && state.pending != nil {
		undecided, forgot := s.core.unload(state), state.forgot
		s.mu.Unlock()
		undecided.keep(func(c timeline.Cause) bool { return s.options.Decide(key, c) })
		e.kept.join(undecided)
		s.mu.Lock()
		if now = s.now(); state.forgot > forgot {
			e.kept = batch{} // they were about a resource that is gone
		}
	}
	e.cutOff = term.over
	next := s.core.finish(now, state, e)
	s.ended++
	if e.Decided != nil || s.records(e) {
		s.mu.Unlock()
		s.tell(key, e, ended.since(e.began), next)
		s.mu.Lock()
	}
	s.core.release(now, state)
	s.endedLocked(state)
	s.armLocked()
	s.callLocked()
	s.mu.Unlock()
}

// records reports whether somebody is to be told of a run.
func (s *Scheduler[K]) records(e end) bool {
	return s.options.Record != nil && (e.Err != nil || !s.options.RecordFailures)
}

// tell tells of a run, before the key can have another: the records of a key come in the order of its runs.
func (s *Scheduler[K]) tell(key K, e end, duration, next time.Duration) {
	if e.Decided != nil {
		e.Decided()
	}
	if !s.records(e) {
		return
	}
	r := record(e.run, e.Result)
	r.Started, r.Duration, r.Next = time.Now().Add(-s.now().since(e.began)), duration, next
	s.options.Record(key, r)
}

func record(run Run, result Result) timeline.Record {
	r := timeline.Record{
		Causes: run.Causes, Waited: run.Waited, Gate: run.Gate, Attempt: run.Attempt, Requests: result.Requests,
	}
	switch {
	case result.Err != nil:
		var panicked *PanicError
		if r.Outcome = timeline.Failed; errors.As(result.Err, &panicked) {
			r.Outcome, r.Stack = timeline.Panicked, string(panicked.Stack)
		}
		r.Err, r.Excused = result.Err.Error(), result.Excused
	case result.Gone:
		r.Outcome = timeline.Gone
	}
	r.Nodes, r.ReadsAhead, r.ID = result.Nodes, result.ReadsAhead, result.ID
	return r
}
