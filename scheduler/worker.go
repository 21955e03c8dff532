package scheduler

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/evenkeel/evenkeel/timeline"
)

// worker runs due keys until the scheduler stops. A run that ends its goroutine (runtime.Goexit, as
// testing's FailNow does) takes the worker with it: another one takes its place.
func (s *Scheduler[K]) worker(life, ctx context.Context, workers *sync.WaitGroup) {
	stopped := false
	defer func() {
		if !stopped {
			workers.Go(func() { s.worker(life, ctx, workers) })
		}
	}()
	for {
		state, run, ok := s.take(life)
		if !ok {
			stopped = true
			return
		}
		s.execute(ctx, state, run)
	}
}

// take waits for a due key; it returns false once the scheduler stops, or is about to because the
// context of its Run has ended.
func (s *Scheduler[K]) take(life context.Context) (*keyState[K], Run, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.stopped && life.Err() == nil {
		if state, run, ok := s.core.take(time.Now()); ok {
			s.active[state.key] = struct{}{}
			return state, run, true
		}
		s.work.Wait()
	}
	return nil, Run{}, false
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
func (s *Scheduler[K]) execute(ctx context.Context, state *keyState[K], run Run) {
	started := time.Now()
	result := Result{Err: errExited}
	defer func() {
		if value := recover(); value != nil {
			result = Result{Err: NewPanicError(value)}
		}
		s.finish(state, run, result, started)
	}()
	result = s.run(ctx, state.key, run)
}

// finish decides the causes that arrived during the run, outside the lock, until none is undecided,
// and then ends the run.
func (s *Scheduler[K]) finish(state *keyState[K], run Run, result Result, started time.Time) {
	duration := time.Since(started)
	var kept []arrival
	s.mu.Lock()
	for s.options.Decide != nil && len(state.causes) > 0 {
		undecided, forgot := state.collect(), state.forgot
		s.mu.Unlock()
		kept = append(kept, s.needed(state.key, undecided)...)
		s.mu.Lock()
		if state.forgot > forgot {
			kept = nil // they were about a resource that is gone
		}
	}
	next := s.core.finish(time.Now(), state, result, kept)
	delete(s.active, state.key)
	s.ended++
	s.armLocked()
	s.work.Signal()
	s.mu.Unlock()
	if result.Decided != nil {
		result.Decided()
	}
	if s.options.Record != nil {
		s.options.Record(state.key, record(run, result, started, duration, next))
	}
}

// needed are those of the causes that need a run.
func (s *Scheduler[K]) needed(key K, causes []arrival) []arrival {
	return slices.DeleteFunc(causes, func(c arrival) bool {
		_, many := c.Cause.(timeline.Overflow)
		return !many && !s.options.Decide(key, c.Cause)
	})
}

func record(run Run, result Result, started time.Time, duration, next time.Duration) timeline.Record {
	r := timeline.Record{
		Causes: run.Causes, Waited: run.Waited, Started: started, Duration: duration,
		Attempt: run.Attempt, Requests: result.Requests, Next: next,
	}
	var panicked *PanicError
	switch {
	case errors.As(result.Err, &panicked):
		r.Outcome, r.Err = timeline.Panicked, result.Err.Error()
	case result.Err != nil:
		r.Outcome, r.Err = timeline.Failed, result.Err.Error()
	case result.Gone:
		r.Outcome = timeline.Gone
	}
	r.ReadsAhead = result.ReadsAhead
	return r
}
