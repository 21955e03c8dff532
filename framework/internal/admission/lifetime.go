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

// ErrRunTimeout is the cause of the end of a context whose deadline has passed.
var ErrRunTimeout = errors.New("framework: the run exceeded ControllerOptions.RunTimeout")

// Lifetime is the context of a run. It ends with the run, at the run's deadline, and when the run
// is cancelled. The contexts behind it are made when they are first needed: most runs find nothing
// to do, and the contexts would cost them more than everything else. [Admission] notices a deadline
// that passes before that.
type Lifetime struct {
	parent   context.Context                   // the scheduler's
	limit    time.Duration                     // from the beginning to the deadline
	deadline time.Time                         // the time of the deadline
	of       interface{ Logger() logr.Logger } // the run
	reported atomic.Bool                       // the log line about the deadline was written
	// The time at which it was recorded that the run ignores its end; guarded by Admission.mu.
	ignores time.Time

	made atomic.Pointer[spans] // nil until it is needed

	mu sync.Mutex // guards the making of spans, and the fields below; a leaf
	// What the contexts are made from. It is nil if that is the parent.
	from context.Context
	// The cause of the end. It is nil if only the parent or the deadline can have ended the run.
	over error
}

var _ context.Context = (*Lifetime)(nil)

// Begin starts the lifetime of a run.
func (l *Lifetime) Begin(parent context.Context, limit time.Duration, of interface{ Logger() logr.Logger }) {
	l.parent, l.limit, l.deadline, l.of = parent, limit, time.Now().Add(limit), of
}

// MakeFrom sets what the contexts of the run are made from: a context that is made from the parent
// that Begin got. It must be called before the lifetime is used as a context.
func (l *Lifetime) MakeFrom(ctx context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.from = ctx
}

// spans are the contexts of a run.
type spans struct {
	whole context.Context   // without the deadline
	timed context.Context   // with the deadline
	end   func(cause error) // ends both
}

// spans returns the contexts of the run, and makes them if needed.
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
	from := l.from
	if from == nil {
		from = l.parent
	}
	whole, cancel := context.WithCancelCause(logr.NewContext(from, logger))
	if l.over != nil {
		cancel(l.over) // before the deadline, which may have passed since
	}
	timed, stop := context.WithDeadlineCause(whole, l.deadline, fmt.Errorf("%w of %v", ErrRunTimeout, l.limit))
	made := &spans{whole: whole, timed: timed, end: func(cause error) { cancel(cause); stop() }}
	l.made.Store(made)
	return made
}

// Whole returns the context without the deadline.
func (l *Lifetime) Whole() context.Context { return l.spans().whole }

// Deadline returns the deadline by ControllerOptions.RunTimeout, or an earlier one of the parent.
func (l *Lifetime) Deadline() (time.Time, bool) {
	if earlier, ok := l.parent.Deadline(); ok && earlier.Before(l.deadline) {
		return earlier, true
	}
	return l.deadline, true
}

// Done returns a channel that is closed at the end.
func (l *Lifetime) Done() <-chan struct{} { return l.spans().timed.Done() }

// Err returns a non-nil error after the end.
func (l *Lifetime) Err() error { return l.spans().timed.Err() }

// Value returns the parent's value. The logger is the run's.
func (l *Lifetime) Value(key any) any { return l.spans().timed.Value(key) }

// String returns a constant: fmt must not read fields that change.
func (l *Lifetime) String() string { return "framework: context of a run" }

// Cancel ends the run. Only the first cause counts.
func (l *Lifetime) Cancel(cause error) {
	l.mu.Lock()
	if l.over == nil {
		l.over = cause
	}
	cause = l.over // the caller with the first cause may not have ended the contexts yet
	made := l.made.Load()
	l.mu.Unlock()
	if made != nil {
		made.end(cause)
	}
}

// Cause returns the cause of Cancel, nil if it was not called.
func (l *Lifetime) Cause() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over
}

// IsCut reports whether the parent or Cancel has ended the run, not the deadline.
func (l *Lifetime) IsCut() bool { return l.parent.Err() != nil || l.Cause() != nil }

// End ends the lifetime at the end of the run.
func (l *Lifetime) End() {
	if made := l.made.Load(); made != nil && errors.Is(context.Cause(made.timed), ErrRunTimeout) {
		l.report()
	}
	l.Cancel(context.Canceled)
}

// report logs, once, that the run has exceeded its deadline. It may hang.
func (l *Lifetime) report() {
	if l.reported.CompareAndSwap(false, true) {
		l.of.Logger().Info("the run has exceeded its deadline", "timeout", l.limit.String())
	}
}

// WithTimeout adds to a failure that the run had exceeded its deadline.
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
