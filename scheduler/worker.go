package scheduler

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/evenkeel/evenkeel/internal/author"
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
func (e *PanicError) Error() string { return "panic: " + author.Sprint(e.Value) }

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
		e.Err = author.Sound(e.Err)
		e.verdict, e.Err = s.judge(e.Err)
	}
}

// judge asks what is to follow a failure, and returns it. If the classifier does not return, a retry by the policy
// follows, and the failure says so.
func (s *Scheduler[K]) judge(failure error) (retry.Verdict, error) {
	var verdict retry.Verdict
	why := author.Apart(author.Patience, func() { verdict = s.options.Retry.Judge(failure) })
	if why == nil {
		return verdict, failure
	}
	s.flawed("Retry.Classify", why)
	if why.Kind == author.Panicked {
		return retry.Verdict{}, &PanicError{Value: why.Value, Stack: why.Stack}
	}
	return retry.Verdict{}, fmt.Errorf("%w (Retry.Classify: %w)", failure, why)
}

// finish decides the causes that arrived during the run, outside the lock, until none is undecided,
// and then ends the run. It ends whatever the functions do that it calls.
func (s *Scheduler[K]) finish(term *term, state *keyState[K], e end) {
	var undecided batch
	var now instant // the clock is dearer than all else here
	settled, released := false, false
	defer func() {
		if released {
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if !settled { // Decide ended the goroutine: what it was asked about counts
			e.kept.join(undecided)
			now = s.now()
			s.settleLocked(now, term, state, e)
			s.flawedLocked("Decide", errExited)
		}
		s.releaseLocked(now, state)
	}()
	s.mu.Lock()
	now = s.now()
	ended := now
	for s.options.Decide != nil && state.pending != nil {
		forgot := state.forgot
		undecided = s.core.unload(state)
		s.mu.Unlock()
		needed := undecided
		needed.keep(func(c timeline.Cause) bool { return s.needs(state.key, c) })
		e.kept.join(needed)
		undecided = batch{}
		s.mu.Lock()
		if now = s.now(); state.forgot > forgot {
			e.kept = batch{} // they were about a resource that is gone
		}
	}
	next := s.settleLocked(now, term, state, e)
	settled = true
	if e.Decided == nil && !s.records(e) {
		s.releaseLocked(now, state)
		released = true
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()
	s.tell(state.key, e, ended.since(e.began), next)
}

// settleLocked decides what follows a run, and returns the time until the next one.
func (s *Scheduler[K]) settleLocked(now instant, term *term, state *keyState[K], e end) time.Duration {
	e.cutOff = term.over
	s.ended++
	return s.core.finish(now, state, e)
}

// releaseLocked lets go of the key of a run that has ended.
func (s *Scheduler[K]) releaseLocked(now instant, state *keyState[K]) {
	s.core.release(now, state)
	s.endedLocked(state)
	s.armLocked()
	s.callLocked()
}

// needs asks whether a cause needs a run. One that cannot be told about needs one.
func (s *Scheduler[K]) needs(key K, c timeline.Cause) (needed bool) {
	defer func() {
		if value := recover(); value != nil {
			s.flawed("Decide", NewPanicError(value))
			needed = true
		}
	}()
	return s.options.Decide(key, c)
}

// records reports whether somebody is to be told of a run.
func (s *Scheduler[K]) records(e end) bool {
	return s.options.Record != nil && (e.Err != nil || !s.options.RecordFailures)
}

// tell tells of a run, before the key can have another: the records of a key come in the order of its runs.
func (s *Scheduler[K]) tell(key K, e end, duration, next time.Duration) {
	returned := false
	defer func() {
		if value := recover(); value != nil {
			s.flawed("Record", NewPanicError(value))
		} else if !returned {
			s.flawed("Record", errExited)
		}
	}()
	if e.Decided != nil {
		e.Decided()
	}
	if s.records(e) {
		r := record(e.run, e.Result)
		r.Started, r.Duration, r.Next = time.Now().Add(-s.now().since(e.began)), duration, next
		s.options.Record(key, r)
	}
	returned = true
}

// flawed notes that one of the functions of the options did not return.
func (s *Scheduler[K]) flawed(function string, why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flawedLocked(function, why)
}

func (s *Scheduler[K]) flawedLocked(function string, why error) {
	if s.flaw == nil {
		s.flaw = fmt.Errorf("scheduler: %s: %w", function, why)
	}
}

// Flaw returns the first failure of a function of the options ([Options.Decide], [Options.Record] or
// [retry.Policy.Classify]), nil if there was none. The scheduler goes on without what that function would have done.
func (s *Scheduler[K]) Flaw() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.flaw
}

func record(run Run, result Result) timeline.Record {
	r := timeline.Record{
		Causes: run.Causes, Waited: run.Waited, Gate: run.Gate, Attempt: run.Attempt, Requests: result.Requests,
	}
	switch {
	case result.Err != nil:
		r.Outcome = timeline.Failed
		if panicked, ok := author.As[*PanicError](result.Err); ok {
			r.Outcome, r.Stack = timeline.Panicked, string(panicked.Stack)
		}
		r.Err, r.Excused = author.Text(result.Err), result.Excused
	case result.Gone:
		r.Outcome = timeline.Gone
	}
	r.Nodes, r.ReadsAhead, r.ID = result.Nodes, result.ReadsAhead, result.ID
	return r
}
