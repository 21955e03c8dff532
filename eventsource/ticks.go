package eventsource

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/evenkeel/evenkeel/internal/author"
	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// Ticks makes each primary due at its own times, as by a calendar.
type Ticks[P trc.Object] struct {
	turns[P]
	name     string
	next     func(primary P, after time.Time) time.Time
	callNext *author.Callback // calls next

	state  sync.Mutex // guards the fields below; while it is held, only that of turns may be taken
	due    map[trc.Key]time.Time
	failed map[trc.Key]error
	behind map[trc.Key]bool // primaries for which next could not be called because it hangs
	sink   Sink
}

var (
	_ Source         = (*Ticks[trc.Object])(nil)
	_ PrimaryWatcher = (*Ticks[trc.Object])(nil)
)

// NewTicks returns a source that makes a primary due at the time that next returns: the first time
// after the given one, or the zero time for never. next must be pure. It is called again after each
// tick, and when the primary has changed.
func NewTicks[P trc.Object](name string, next func(primary P, after time.Time) time.Time) (*Ticks[P], error) {
	var wrong []error
	if name == "" {
		wrong = append(wrong, errors.New("eventsource: the name is empty"))
	}
	if next == nil {
		wrong = append(wrong, fmt.Errorf("eventsource: %q: next is nil", name))
	}
	if len(wrong) > 0 {
		return nil, errors.Join(wrong...)
	}
	t := &Ticks[P]{name: name, next: next, callNext: newCalls().New("next"), due: map[trc.Key]time.Time{}, failed: map[trc.Key]error{}, behind: map[trc.Key]bool{}}
	t.turns = turns[P]{workers: 1, selects: func(P) bool { return true }, first: t.until, turn: t.tick, renews: true, onLeft: t.drop}
	return t, nil
}

// Name returns the name of the source.
func (t *Ticks[P]) Name() string { return t.name }

// Synced returns a closed channel.
func (t *Ticks[P]) Synced() <-chan struct{} { return closed }

// Err returns an error that names a primary for which next panicked, hung or returned no later
// time. Such a primary has no ticks until it changes.
func (t *Ticks[P]) Err() error {
	t.state.Lock()
	defer t.state.Unlock()
	for key, err := range t.failed {
		return fmt.Errorf("eventsource: ticks %q: %d primaries fail, one of them %s: %w", t.name, len(t.failed), key, err)
	}
	return nil
}

// Start begins to tick.
func (t *Ticks[P]) Start(sink Sink) (stop func(), err error) {
	t.state.Lock()
	t.sink = sink
	clear(t.due) // ticks of an earlier run are long past
	t.state.Unlock()
	return t.run(), nil
}

// until computes when a primary is due, and returns the time until then. A primary that is due
// already, and has not had its turn yet, stays due.
func (t *Ticks[P]) until(primary P) (time.Duration, bool) {
	now, key := time.Now(), trc.KeyOf(primary)
	due, err := t.after(primary, now)
	if hangs, is := author.As[*author.Failure](err); is && hangs.Kind == author.Hangs {
		t.retryWhenBack(key)
	}
	t.state.Lock()
	defer t.state.Unlock()
	if was, known := t.due[key]; known && !was.After(now) {
		return 0, true
	}
	if t.isCurrent(key, primary) {
		delete(t.failed, key)
		delete(t.due, key)
		if err != nil {
			t.failed[key] = err
		} else if !due.IsZero() {
			t.due[key] = due
		}
	}
	due, known := t.due[key]
	return due.Sub(now), known
}

// retryWhenBack calls next for a primary again once it no longer hangs.
func (t *Ticks[P]) retryWhenBack(key trc.Key) {
	t.state.Lock()
	first := len(t.behind) == 0
	t.behind[key] = true
	t.state.Unlock()
	if first && !t.callNext.WhenBack(t.retryBehind) {
		t.retryBehind()
	}
}

func (t *Ticks[P]) retryBehind() {
	t.state.Lock()
	behind := t.behind
	t.behind = map[trc.Key]bool{}
	t.state.Unlock()
	for key := range behind {
		t.restart(key)
	}
}

// after calls next and checks that its result is later than now: otherwise the ticks would have no
// pause.
func (t *Ticks[P]) after(primary P, now time.Time) (time.Time, error) {
	due, failure := callValue(t.callNext, func() string { return trc.KeyOf(primary).String() }, func() time.Time { return t.next(primary, now) })
	if failure != nil {
		return due, failureError(failure)
	}
	if !due.IsZero() && !due.After(now) {
		return due, fmt.Errorf("the next time is %v, which is not after %v", due, now)
	}
	return due, nil
}

// tick offers the primary if it is due; a change may have postponed that.
func (t *Ticks[P]) tick(_ context.Context, primary P) (time.Duration, bool) {
	key := trc.KeyOf(primary)
	t.state.Lock()
	due, known := t.due[key]
	sink, left := t.sink, time.Until(due)
	if left <= 0 {
		delete(t.due, key)
	}
	t.state.Unlock()
	if !known || left > 0 {
		return left, known
	}
	sink.Offer(key, Offer{Cause: timeline.External{Source: t.name, ID: due.UTC().Format(time.RFC3339)}})
	return t.until(primary)
}

func (t *Ticks[P]) drop(key trc.Key) {
	t.state.Lock()
	defer t.state.Unlock()
	delete(t.due, key)
	delete(t.failed, key)
	delete(t.behind, key)
}
