package eventsource

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/evenkeel/evenkeel/trc"
)

// PollingEachOptions configure a [PollingEach].
type PollingEachOptions[P trc.Object, V any] struct {
	// Name of the source, required, unique within the controller.
	Name string
	// Period between the end of a primary's poll and the begin of its next, required; a poll may say otherwise. It varies by a
	// tenth. After failures it is doubled, up to ten periods. More than 70 years count as 70.
	Period time.Duration
	// Timeout of a poll. Default 30 s.
	Timeout time.Duration
	// Workers is how many polls are under way at most. Default 8.
	Workers int
	// Fetch asks for the values of one primary, required. The primary is shared and must not be changed. It must return
	// when its context ends.
	Fetch func(ctx context.Context, primary P) (Fetched[V], error)
	// Select tells which primaries are polled. Default: all that are not being deleted.
	Select func(primary P) bool
	// Values say how values are told apart.
	Values ValuesOptions[V]
}

// Fetched is what a poll of one primary brought.
type Fetched[V any] struct {
	Values []V
	// Next replaces the period until the next poll, if it is not zero.
	Next time.Duration
}

// PollingEach asks an external system about each primary by itself, some at a time. The first polls are spread over a
// period. A poll that fails, or panics, changes nothing and is reported by [PollingEach.Err] until that
// primary's next one succeeds; the others are not affected.
type PollingEach[P trc.Object, V any] struct {
	*Values[V]
	rounds[P]
	options  PollingEachOptions[P, V]
	attempts attempts

	failed sync.Mutex // guards below; a leaf
	// failures counts those in a row of the primaries whose last poll failed.
	failures  map[trc.Key]int
	last      error
	sink      Sink
	unclaimed unclaimed // what was written for primaries that are not polled
}

var (
	_ Source         = (*PollingEach[trc.Object, int])(nil)
	_ PrimaryWatcher = (*PollingEach[trc.Object, int])(nil)
)

// NewPollingEach returns a source, or what is wrong with the options.
func NewPollingEach[P trc.Object, V any](options PollingEachOptions[P, V]) (*PollingEach[P, V], error) {
	if options.Timeout == 0 {
		options.Timeout = defaultTimeout
	}
	if options.Workers == 0 {
		options.Workers = 8
	}
	if options.Select == nil {
		options.Select = func(primary P) bool { return primary.GetDeletionTimestamp() == nil }
	}
	err := checkPoll(options.Name, options.Period, options.Timeout, options.Fetch == nil)
	if options.Workers < 0 {
		err = errors.Join(err, fmt.Errorf("eventsource: %q: Workers %d: must not be negative", options.Name, options.Workers))
	}
	if err != nil {
		return nil, err
	}
	p := &PollingEach[P, V]{Values: newValues(options.Values), options: options, failures: map[trc.Key]int{}, unclaimed: newUnclaimed(DefaultUnclaimed)}
	p.rounds = rounds[P]{
		workers: options.Workers, takes: options.Select, turn: p.poll, left: p.forgetAll,
		first: func(P) (time.Duration, bool) { return rand.N(options.Period), true },
	}
	return p, nil
}

// Name returns the name of the source.
func (p *PollingEach[P, V]) Name() string { return p.options.Name }

// Synced is closed from the beginning: what has not been polled is fetched by [PollingEach.Fetch].
func (p *PollingEach[P, V]) Synced() <-chan struct{} { return closed }

// Err returns how many primaries could not be polled the last time, and the newest of their errors.
func (p *PollingEach[P, V]) Err() error {
	p.failed.Lock()
	defer p.failed.Unlock()
	if len(p.failures) == 0 {
		return errors.Join(overdueErr(p.options.Name, p.attempts.health(p.options.Timeout)), p.calls.err(p.options.Name))
	}
	return fmt.Errorf("eventsource: poll %q: %d primaries fail, the last of them %w", p.options.Name, len(p.failures), p.last)
}

// Start begins to poll.
func (p *PollingEach[P, V]) Start(sink Sink) (stop func(), err error) {
	p.failed.Lock()
	p.sink = sink
	p.failed.Unlock()
	return p.run(), nil
}

// Fetch returns the values of a primary, and polls it at once if that has not been done yet. Those of a primary that is gone, or
// that Select does not take, are not kept: each Fetch polls it.
func (p *PollingEach[P, V]) Fetch(ctx context.Context, primary P) ([]V, error) {
	key := trc.KeyOf(primary)
	if p.mayKeep(primary) && p.known(key) {
		return p.Of(key), nil
	}
	asked, err := p.ask(ctx, primary)
	if err == nil && !asked.kept {
		return sortedByID(asked.values), nil
	}
	return p.Of(key), err
}

func (p *PollingEach[P, V]) poll(ctx context.Context, primary P) (next time.Duration, again bool) {
	key := trc.KeyOf(primary)
	asked, err := p.ask(ctx, primary)
	if ctx.Err() != nil {
		return 0, false
	}
	p.failed.Lock()
	sink := p.sink
	failures := p.failures[key] + 1
	if !p.mayKeep(primary) { // it has left meanwhile, and may not come back
		p.failed.Unlock()
		return periodAfter(p.options.Period, 0), true
	}
	if err != nil {
		p.failures[key], p.last = failures, fmt.Errorf("%s: %w", key, err)
	} else {
		delete(p.failures, key)
	}
	p.failed.Unlock()
	if err != nil {
		return periodAfter(p.options.Period, failures), true
	}
	p.offer(sink, p.options.Name, false, asked.changes)
	if asked.next > 0 {
		return asked.next, true
	}
	return jittered(p.options.Period), true
}

// answer is what a poll of one primary brought, and whether that is kept.
type answer[V any] struct {
	values  map[string]V
	changes []change[V]
	next    time.Duration
	kept    bool
}

var errNotKept = errors.New("the primary is not polled")

func (p *PollingEach[P, V]) ask(ctx context.Context, primary P) (a answer[V], err error) {
	key := trc.KeyOf(primary)
	fetch, ended := p.begin(key), p.attempts.begin()
	a.next, err = guarded(ctx, p.options.Timeout, func(ctx context.Context) (time.Duration, error) {
		fetched, err := p.options.Fetch(ctx, primary)
		a.values = p.byID(fetched.Values)
		return fetched.Next, err
	})
	ended(err)
	// Between begin and end: whoever leaves after that is forgotten after that.
	if a.kept = p.mayKeep(primary); a.kept || err != nil {
		a.changes = p.end(fetch, key, a.values, err)
	} else {
		p.end(fetch, key, nil, errNotKept)
	}
	return a, err
}

// Wrote is [Values.Wrote]. What is written for primaries that are not polled, as a run that ends late does for one that has gone, is held
// for [DefaultUnclaimed] of them at most.
func (p *PollingEach[P, V]) Wrote(primary trc.Key, value V) {
	p.Values.Wrote(primary, value)
	if p.hasTurns(primary) {
		return
	}
	p.failed.Lock()
	dropped, drops := p.unclaimed.pushed(primary)
	p.failed.Unlock()
	if drops && !p.hasTurns(dropped) {
		p.forgetAll(dropped)
	}
}

func (p *PollingEach[P, V]) forgetAll(key trc.Key) {
	p.forget(key)
	p.failed.Lock()
	defer p.failed.Unlock()
	p.unclaimed.goes(key)
	delete(p.failures, key)
}
