package eventsource

import (
	"fmt"
	"sync"
	"time"

	"github.com/evenkeel/evenkeel/trc"
)

// Health describes the state of a source in more detail than [Source.Err]. A time is zero if it
// does not apply.
type Health struct {
	// LastSuccess and LastFailure are the times of the last successful and the last failed attempt.
	LastSuccess time.Time `json:"lastSuccess,omitzero"`
	LastFailure time.Time `json:"lastFailure,omitzero"`
	// FailuresInRow is the number of failures since the last success, over all primaries. Failures is
	// the number of all failures.
	FailuresInRow int `json:"failuresInRow,omitempty"`
	Failures      int `json:"failures,omitempty"`
	// NextAttempt is the time of the next automatic attempt.
	NextAttempt time.Time `json:"nextAttempt,omitzero"`
	// Overdue is for how long an attempt should have ended or begun but has not. Source.Err reports
	// that, too.
	Overdue time.Duration `json:"overdue,omitempty"`
	// Holds is the number of values that the source holds.
	Holds int `json:"holds,omitempty"`
}

// HealthReporter is implemented by a [Source] that reports more of its state. Health must not
// block.
type HealthReporter interface {
	Health() Health
}

var (
	_ HealthReporter = (*Polling[int])(nil)
	_ HealthReporter = (*PollingEach[trc.Object, int])(nil)
	_ HealthReporter = (*Inbound[int])(nil)
)

// overdueGrace is how late an attempt may be without being overdue, because the machine may be
// busy.
const overdueGrace = 5 * time.Second

// attempts records attempts to fetch something. The zero value is ready to use.
type attempts struct {
	mu       sync.Mutex // guards the fields below; a leaf
	outcome  Health     // without the fields that depend on the time
	count    int
	underWay map[int]time.Time // start times by number
	due      time.Time         // time of the next attempt, while none is under way
}

// begin records the start of an attempt. end must be called with its result.
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
		a.outcome.LastSuccess, a.outcome.FailuresInRow = time.Now().Round(0), 0
		return
	}
	a.outcome.LastFailure = time.Now().Round(0)
	a.outcome.FailuresInRow++
	a.outcome.Failures++
}

// next records when the next attempt is due.
func (a *attempts) next(after time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.due = time.Now().Add(after)
}

// stop records that there will be no further attempt.
func (a *attempts) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.due = time.Time{}
}

// health returns the present state. timeout is how long an attempt may take.
func (a *attempts) health(timeout time.Duration) Health {
	a.mu.Lock()
	defer a.mu.Unlock()
	h := a.outcome
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

// overdueErr returns an error if an attempt is overdue, otherwise nil.
func overdueErr(name string, h Health) error {
	if h.Overdue == 0 {
		return nil
	}
	return fmt.Errorf("eventsource: poll %q is overdue by %v: its Fetch has not returned though its context has ended", name, h.Overdue.Round(time.Second))
}

// Health returns the state of the polls.
func (p *Polling[V]) Health() Health {
	h := p.attempts.health(p.options.Timeout)
	h.Holds = p.holds()
	return h
}

// Health returns the state of the polls of all primaries. The primaries fail independently:
// FailuresInRow is the largest number of failures in a row of one primary.
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

// Health returns the state of the fetches.
func (i *Inbound[V]) Health() Health {
	h := i.attempts.health(i.options.Timeout)
	h.NextAttempt, h.Holds = time.Time{}, i.holds()
	return h
}

// holds returns the number of values.
func (v *Values[V]) holds() (n int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, h := range v.primaries {
		n += len(h.values)
	}
	return n
}
