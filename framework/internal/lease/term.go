package lease

import (
	"sync"
	"time"

	"github.com/evenkeel/evenkeel/internal/author"
)

// Term is one term of leadership, from getting the lease to losing it.
//
// It ends by the clock. A renewal moves its deadline, which is before the time at which others may
// take over. The clock goes on while the process is stopped. If the platform knows how long the
// machine was suspended (on Linux), it also goes on then.
type Term struct {
	Inflight Inflight             // the writes of the term
	over     func()               // called at the deadline
	asleep   func() time.Duration // how long the machine was suspended so far
	Values   Values               // the author's values of the term

	mu      sync.Mutex    // guards the fields below; a leaf
	until   time.Time     // the deadline; zero before the lease is held
	slept   time.Duration // the result of asleep before the last renewal was sent
	expired bool          // the term has ended
	timer   *time.Timer
}

// NewTerm returns a term that has not begun; Extend begins it. over is called at its deadline.
// asleep returns how long the machine was suspended so far.
func NewTerm(over func(), asleep func() time.Duration, calls *author.Callbacks) *Term {
	return &Term{over: over, asleep: asleep, Inflight: Inflight{Calls: calls}}
}

// PauseTimer stops the timer, as a pause of the process would delay it. It is for tests.
func (t *Term) PauseTimer() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timer.Stop()
}

// leftLocked returns the time to the deadline.
func (t *Term) leftLocked() time.Duration { return time.Until(t.until) - (t.asleep() - t.slept) }

// Extend moves the deadline, unless it has passed: then the term has ended, whatever happened
// since. slept is the result of asleep before the renewal was sent.
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

// expire ends the term, unless it was extended after its timer had fired.
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

// Stop ends the timer of a term that has ended otherwise.
func (t *Term) Stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expired = true
	if t.timer != nil {
		t.timer.Stop()
	}
}

// began reports whether the lease was held.
func (t *Term) began() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.until.IsZero()
}

// Lasts reports whether the term has begun and its deadline has not passed. It asks the clock, as
// the timer may be late after a pause of the process.
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
