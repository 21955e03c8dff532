package eventsource

import (
	"fmt"
	"sync"
	"time"

	"github.com/evenkeel/evenkeel/trc"
)

// Health is what a source tells of itself beyond [Source.Err]. Times are zero for what has not happened, or does not exist.
type Health struct {
	// LastSuccess and LastFailure are when it last succeeded and failed to learn something.
	LastSuccess time.Time `json:"lastSuccess,omitzero"`
	LastFailure time.Time `json:"lastFailure,omitzero"`
	// FailuresInRow are those since the last success, of all primaries; Failures are all.
	FailuresInRow int `json:"failuresInRow,omitempty"`
	Failures      int `json:"failures,omitempty"`
	// NextAttempt is when it tries again by itself.
	NextAttempt time.Time `json:"nextAttempt,omitzero"`
	// Overdue is for how long something should have come to an end, or begun, that has not; Source.Err says so, too.
	Overdue time.Duration `json:"overdue,omitempty"`
	// Holds is how many values it holds.
	Holds int `json:"holds,omitempty"`
}

// HealthReporter is implemented by a [Source] that tells more of itself. It must not block.
type HealthReporter interface {
	Health() Health
}

var (
	_ HealthReporter = (*Polling[int])(nil)
	_ HealthReporter = (*PollingEach[trc.Object, int])(nil)
	_ HealthReporter = (*Inbound[int])(nil)
)

// overdueGrace is how late something may be: a busy machine is no failure.
const overdueGrace = 5 * time.Second

// attempts is what came of the attempts to learn something. The zero value is ready.
type attempts struct {
	mu       sync.Mutex // guards below; a leaf
	told     Health     // but for what depends on the time
	count    int
	underWay map[int]time.Time // since when, by number
	due      time.Time         // of the next, while none is under way
}

// begin notes an attempt. end must be called with what came of it.
func (a *attempts) begin() (end func(error)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.underWay == nil {
		a.underWay = map[int]time.Time{}
	}
	a.count++
	number := a.count
	a.underWay[number], a.due = time.Now(), time.Time{}
	return func(err error) { a.end(number, err) }
}

func (a *attempts) end(number int, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.underWay, number)
	if err == nil {
		a.told.LastSuccess, a.told.FailuresInRow = time.Now().Round(0), 0
		return
	}
	a.told.LastFailure = time.Now().Round(0)
	a.told.FailuresInRow++
	a.told.Failures++
}

// next notes when the next attempt is due.
func (a *attempts) next(after time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.due = time.Now().Add(after)
}

// stop notes that there will be none.
func (a *attempts) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.due = time.Time{}
}

// health is what is known now. timeout is what an attempt may take.
func (a *attempts) health(timeout time.Duration) Health {
	a.mu.Lock()
	defer a.mu.Unlock()
	h := a.told
	h.NextAttempt = a.due.Round(0)
	late := func(since time.Time, allowed time.Duration) {
		if over := time.Since(since) - allowed; over > overdueGrace {
			h.Overdue = max(h.Overdue, over)
		}
	}
	for _, begun := range a.underWay {
		late(begun, timeout)
	}
	if !a.due.IsZero() {
		late(a.due, 0)
	}
	return h
}

// overdueErr says that an attempt is overdue, nil if none is.
func overdueErr(name string, h Health) error {
	if h.Overdue == 0 {
		return nil
	}
	return fmt.Errorf("eventsource: poll %q is overdue by %v: its Fetch has not returned though its context has ended", name, h.Overdue.Round(time.Second))
}

// Health tells of the polls.
func (p *Polling[V]) Health() Health {
	h := p.attempts.health(p.options.Timeout)
	h.Holds = p.holds()
	return h
}

// Health tells of the polls of all primaries. A failure of one says nothing of the others: FailuresInRow is the longest row
// there is.
func (p *PollingEach[P, V]) Health() Health {
	h := p.attempts.health(p.options.Timeout)
	h.FailuresInRow, h.Holds = 0, p.holds()
	p.failed.Lock()
	defer p.failed.Unlock()
	for _, inRow := range p.failures {
		h.FailuresInRow = max(h.FailuresInRow, inRow)
	}
	return h
}

// Health tells of what is fetched.
func (i *Inbound[V]) Health() Health {
	h := i.attempts.health(i.options.Timeout)
	h.NextAttempt, h.Holds = time.Time{}, i.holds()
	return h
}

// holds is how many values there are.
func (v *Values[V]) holds() (n int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, h := range v.primaries {
		n += len(h.values)
	}
	return n
}
