package lease

import (
	"sync"
	"time"

	"github.com/evenkeel/evenkeel/internal/author"
)

// Term is one time in office, from getting the lease to losing it.
//
// It ends by the clock: a renewal carries it to a deadline that lies before the one at which others may
// take over. The clock goes on while the process is stopped, and, where the platform tells for how long (on Linux),
// while the machine is suspended.
type Term struct {
	Inflight Inflight             // the writes of the term
	over     func()               // called at the deadline
	asleep   func() time.Duration // for how long the machine was suspended so far
	Values   Values

	mu      sync.Mutex    // guards below; a leaf
	until   time.Time     // zero before the lease is held
	slept   time.Duration // what asleep was before that was asked for
	expired bool
	timer   *time.Timer
}

// NewTerm returns a term that has not begun: extend begins it. over is called at its deadline, asleep tells for how long the machine was
// suspended so far.
func NewTerm(over func(), asleep func() time.Duration, calls *author.Callbacks) *Term {
	return &Term{over: over, asleep: asleep, Inflight: Inflight{Calls: calls}}
}

// PauseTimer has the timer come late, as a pause of the process has. It is for tests.
func (t *Term) PauseTimer() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timer.Stop()
}

// leftLocked is the time to the deadline.
func (t *Term) leftLocked() time.Duration { return time.Until(t.until) - (t.asleep() - t.slept) }

// Extend moves the deadline, unless that has passed: then the term has ended, whatever came since. slept is what asleep
// was before the renewal was asked for.
func (t *Term) Extend(until time.Time, slept time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.expired {
		return
	}
	if !t.until.IsZero() && t.leftLocked() <= 0 {
		t.timer.Reset(0) // it may have been set before the machine was suspended
		return
	}
	t.until, t.slept = until, slept
	if t.timer == nil {
		t.timer = time.AfterFunc(t.leftLocked(), t.expire)
		return
	}
	t.timer.Reset(t.leftLocked())
}

// expire ends the term, unless it was extended when its timer had gone off already.
func (t *Term) expire() {
	t.mu.Lock()
	if left := t.leftLocked(); t.expired || left > 0 {
		if !t.expired {
			t.timer.Reset(left)
		}
		t.mu.Unlock()
		return
	}
	t.expired = true
	t.mu.Unlock()
	t.over()
	t.Inflight.Close()
}

// Stop stops the clock, for a term that has ended otherwise.
func (t *Term) Stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expired = true
	if t.timer != nil {
		t.timer.Stop()
	}
}

// began tells whether the lease was held.
func (t *Term) began() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.until.IsZero()
}

// Lasts asks the clock, not the timer: after a pause of the process that may be late.
func (t *Term) Lasts() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.expired || t.until.IsZero() {
		return false
	}
	if t.leftLocked() > 0 {
		return true
	}
	t.timer.Reset(0) // it may have been set before the machine was suspended
	return false
}
