package admission

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
)

// ErrRunTimeout is the cause of the end of a run's context.
var ErrRunTimeout = errors.New("framework: the run exceeded ControllerOptions.RunTimeout")

// Lifetime is how long a run goes on, and the context that the author gets: it ends with the run, at its deadline, and
// when the run is cancelled. What that takes is made only once somebody asks: most runs find nothing to do, and it
// would cost them more than all else. That the deadline passes unasked is noticed by the [Admission].
type Lifetime struct {
	parent   context.Context // the scheduler's
	limit    time.Duration
	deadline time.Time
	of       interface{ Logger() logr.Logger } // the run
	reported atomic.Bool                       // that it went on after its deadline
	ignores  time.Time                         // when it was noted that it goes on though it was cut off; guarded by the gate

	made atomic.Pointer[spans] // nil until somebody asks

	mu   sync.Mutex // guards making spans and below; a leaf
	over error      // why it has ended; nil if only its parent or its deadline can have ended it
}

var _ context.Context = (*Lifetime)(nil)

// Begin begins the life of a run.
func (l *Lifetime) Begin(parent context.Context, limit time.Duration, of interface{ Logger() logr.Logger }) {
	l.parent, l.limit, l.deadline, l.of = parent, limit, time.Now().Add(limit), of
}

// spans are the contexts of a run.
type spans struct {
	whole context.Context // without the deadline
	timed context.Context
	end   func(cause error)
}

func (l *Lifetime) spans() *spans {
	if made := l.made.Load(); made != nil {
		return made
	}
	logger := l.of.Logger() // the author's code; not under the lock
	l.mu.Lock()
	defer l.mu.Unlock()
	if made := l.made.Load(); made != nil {
		return made
	}
	whole, cancel := context.WithCancelCause(logr.NewContext(l.parent, logger))
	if l.over != nil {
		cancel(l.over) // before the deadline, which may have passed since
	}
	timed, stop := context.WithDeadlineCause(whole, l.deadline, fmt.Errorf("%w of %v", ErrRunTimeout, l.limit))
	made := &spans{whole: whole, timed: timed, end: func(cause error) { cancel(cause); stop() }}
	l.made.Store(made)
	return made
}

// Whole is the context that the deadline does not end.
func (l *Lifetime) Whole() context.Context { return l.spans().whole }

// Deadline is that of [framework.ControllerOptions.RunTimeout].
func (l *Lifetime) Deadline() (time.Time, bool) {
	if earlier, ok := l.parent.Deadline(); ok && earlier.Before(l.deadline) {
		return earlier, true
	}
	return l.deadline, true
}

// Done is closed at the end.
func (l *Lifetime) Done() <-chan struct{} { return l.spans().timed.Done() }

// Err says that it has ended.
func (l *Lifetime) Err() error { return l.spans().timed.Err() }

// Value is the parent's; the logger is the run's.
func (l *Lifetime) Value(key any) any { return l.spans().timed.Value(key) }

// String keeps fmt from reading what changes.
func (l *Lifetime) String() string { return "framework: context of a run" }

// Cancel ends it, for the first cause that is given.
func (l *Lifetime) Cancel(cause error) {
	l.mu.Lock()
	if l.over == nil {
		l.over = cause
	}
	cause = l.over // whoever gave the first may not have come to end it yet
	made := l.made.Load()
	l.mu.Unlock()
	if made != nil {
		made.end(cause)
	}
}

// Cause is what it was cancelled for, nil if it was not.
func (l *Lifetime) Cause() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over
}

// IsCut tells whether something but its deadline has ended it.
func (l *Lifetime) IsCut() bool { return l.parent.Err() != nil || l.Cause() != nil }

// End ends it with the run.
func (l *Lifetime) End() {
	if made := l.made.Load(); made != nil && errors.Is(context.Cause(made.timed), ErrRunTimeout) {
		l.report()
	}
	l.Cancel(context.Canceled)
}

// report logs, once, that the run went on until its deadline: it may be stuck.
func (l *Lifetime) report() {
	if l.reported.CompareAndSwap(false, true) {
		l.of.Logger().Info("the run has exceeded its deadline", "timeout", l.limit.String())
	}
}

// WithTimeout says in a failure that the run had exceeded its deadline.
func WithTimeout(ctx context.Context, failure error) error {
	if failure == nil || errors.Is(failure, ErrRunTimeout) {
		return failure
	}
	cause := context.Cause(ctx)
	if !errors.Is(cause, ErrRunTimeout) {
		return failure
	}
	return fmt.Errorf("%w (%w)", failure, cause)
}
