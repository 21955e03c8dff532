package framework

import (
	"sync"
	"time"

	"github.com/evenkeel/evenkeel/internal/author"
)

// office tells whether this instance may write. Without leader election it always may.
type office struct {
	contested bool // set before the first write

	mu   sync.Mutex // guards below; a leaf
	term *term      // nil while standing by
}

// enter lets writes take off.
func (o *office) enter(t *term) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.term = t
}

// leave refuses writes from now on, breaks off those under way and waits until they are down.
func (o *office) leave(t *term) {
	o.mu.Lock()
	if o.term == t {
		o.term = nil
	}
	o.mu.Unlock()
	t.flying.end()
}

// current returns the term in office, nil while standing by or if there is no election.
func (o *office) current() *term {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.term
}

// may tells whether writes may be sent now. It is asked before every single request.
func (o *office) may() bool {
	if !o.contested {
		return true
	}
	t := o.current()
	return t != nil && t.lasts()
}

// term is one time in office, from getting the lease to losing it.
//
// It ends by the clock: a renewal carries it to a deadline that lies before the one at which others may
// take over. The clock goes on while the process is stopped, and, where the platform tells for how long (on Linux),
// while the machine is suspended.
type term struct {
	flying flight               // the writes of the term
	over   func()               // called at the deadline
	asleep func() time.Duration // for how long the machine was suspended so far
	kept   perTerm

	mu      sync.Mutex    // guards below; a leaf
	until   time.Time     // zero before the lease is held
	slept   time.Duration // what asleep was before that was asked for
	expired bool
	timer   *time.Timer
}

// newTerm returns a term that has not begun: extend begins it. over is called at its deadline, asleep tells for how long the machine was
// suspended so far.
func newTerm(over func(), asleep func() time.Duration, calls *author.Callbacks) *term {
	return &term{over: over, asleep: asleep, flying: flight{calls: calls}}
}

// pauseTimer has the timer come late, as a pause of the process has. It is for tests.
func (t *term) pauseTimer() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timer.Stop()
}

// leftLocked is the time to the deadline.
func (t *term) leftLocked() time.Duration { return time.Until(t.until) - (t.asleep() - t.slept) }

// extend moves the deadline, unless that has passed: then the term has ended, whatever came since. slept is what asleep
// was before the renewal was asked for.
func (t *term) extend(until time.Time, slept time.Duration) {
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
func (t *term) expire() {
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
	t.flying.end()
}

// stop stops the clock, for a term that has ended otherwise.
func (t *term) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expired = true
	if t.timer != nil {
		t.timer.Stop()
	}
}

// began tells whether the lease was held.
func (t *term) began() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.until.IsZero()
}

// lasts asks the clock, not the timer: after a pause of the process that may be late.
func (t *term) lasts() bool {
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
