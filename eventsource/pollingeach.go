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

// PollingEachOptions configures a [PollingEach].
type PollingEachOptions[P trc.Object, V any] struct {
	// Name is the name of the source. Required; unique within the controller.
	Name string
	// Period is the time between the end of a primary's poll and the start of its next. Required;
	// [Fetched].Next overrides it. It varies by a tenth. It doubles with each failure, up to ten
	// periods. More than 70 years count as 70.
	Period time.Duration
	// Timeout is the timeout of a poll. Default: 30 s.
	Timeout time.Duration
	// Workers is the number of polls at a time. Default: 8.
	Workers int
	// Fetch returns the values of one primary. Required. The primary is shared and must not be
	// changed. It must return when its context ends.
	Fetch func(ctx context.Context, primary P) (Fetched[V], error)
	// Select reports whether a primary is polled. Default: all that are not being deleted.
	Select func(primary P) bool
	// Values configures how values are identified and compared.
	Values ValuesOptions[V]
}

// Fetched is the result of a poll of one primary.
type Fetched[V any] struct {
	Values []V
	// Next, if not zero, replaces the period until the next poll.
	Next time.Duration
}

// PollingEach fetches the values of each primary from an external system, several at a time. The
// first polls are spread over a period. A poll that fails or panics changes nothing, and does not
// affect other primaries. [PollingEach.Err] reports it until that primary's next poll succeeds.
type PollingEach[P trc.Object, V any] struct {
	*Values[V]
	turns[P]
	options  PollingEachOptions[P, V]
	attempts attempts

	failed sync.Mutex // guards the fields below; while it is held, only that of turns may be taken
	// failures counts the failures in a row of the primaries whose last poll failed.
	failures  map[trc.Key]int
	last      error
	sink      Sink
	unclaimed unclaimed // values that were written for primaries that are not polled
}

var (
	_ Source         = (*PollingEach[trc.Object, int])(nil)
	_ PrimaryWatcher = (*PollingEach[trc.Object, int])(nil)
)

// NewPollingEach returns a source, or an error that names every invalid option.
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
	p.turns = turns[P]{
		workers: options.Workers, selects: options.Select, turn: p.poll, onLeft: p.forgetAll,
		first: func(P) (time.Duration, bool) { return rand.N(options.Period), true },
	}
	return p, nil
}

// Name returns the name of the source.
func (p *PollingEach[P, V]) Name() string { return p.options.Name }

// Synced returns a closed channel: [PollingEach.Fetch] polls primaries that have not been polled
// yet.
func (p *PollingEach[P, V]) Synced() <-chan struct{} { return closed }

// Err returns an error with the number of primaries whose last poll failed, and the newest of their
// errors; nil if there are none.
func (p *PollingEach[P, V]) Err() error {
	p.failed.Lock()
	failing, last := len(p.failures), p.last
	p.failed.Unlock()
	if failing == 0 {
		return errors.Join(overdueErr(p.options.Name, p.attempts.health(p.options.Timeout)), p.calls.err(p.options.Name))
	}
	return fmt.Errorf("eventsource: poll %q: %d primaries fail, the last of them %w", p.options.Name, failing, last)
}

// Start starts polling.
func (p *PollingEach[P, V]) Start(sink Sink) (stop func(), err error) {
	p.failed.Lock()
	p.sink = sink
	p.failed.Unlock()
	return p.run(), nil
}

// Fetch returns the values of a primary, and polls it first if that has not been done yet. Values
// of a primary that is gone, or that Select excludes, are not stored: each Fetch polls it.
func (p *PollingEach[P, V]) Fetch(ctx context.Context, primary P) ([]V, error) {
	key := trc.KeyOf(primary)
	if p.mayKeep(primary) && p.known(key) {
		return p.Of(key), nil
	}
	result, err := p.fetch(ctx, primary)
	if err == nil && !result.kept {
		return sortedByID(result.values), nil
	}
	return p.Of(key), err
}

func (p *PollingEach[P, V]) poll(ctx context.Context, primary P) (next time.Duration, again bool) {
	key := trc.KeyOf(primary)
	result, err := p.fetch(ctx, primary)
	if ctx.Err() != nil {
		return 0, false
	}
	p.failed.Lock()
	sink := p.sink
	failures := p.failures[key] + 1
	if !p.mayKeep(primary) { // it has left meanwhile, and may not return
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
	p.offer(sink, p.options.Name, false, result.changes)
	if result.next > 0 {
		return result.next, true
	}
	return jittered(p.options.Period), true
}

// answer is the result of a poll of one primary.
type answer[V any] struct {
	values  map[string]V
	changes []change[V]
	next    time.Duration
	kept    bool
}

var errNotKept = errors.New("the primary is not polled")

func (p *PollingEach[P, V]) fetch(ctx context.Context, primary P) (a answer[V], err error) {
	key := trc.KeyOf(primary)
	fetch, ended := p.begin(key), p.attempts.begin()
	a.next, err = callGuarded(ctx, p.options.Timeout, func(ctx context.Context) (time.Duration, error) {
		fetched, err := p.options.Fetch(ctx, primary)
		a.values = p.byID(fetched.Values)
		return fetched.Next, err
	})
	ended(err)
	// mayKeep is called between begin and end: a primary that leaves later is forgotten after end.
	if a.kept = p.mayKeep(primary); a.kept || err != nil {
		a.changes = p.end(fetch, key, a.values, err)
	} else {
		p.end(fetch, key, nil, errNotKept)
	}
	return a, err
}

// Wrote is [Values.Wrote]. Values that are written for primaries that are not polled, as by a run
// that ends after its primary has gone, are held for at most [DefaultUnclaimed] of them.
func (p *PollingEach[P, V]) Wrote(primary trc.Key, value V) {
	p.Values.Wrote(primary, value)
	if p.hasTurns(primary) {
		return
	}
	p.failed.Lock()
	dropped, drops := p.unclaimed.add(primary)
	p.failed.Unlock()
	if drops && !p.hasTurns(dropped) {
		p.forgetAll(dropped)
	}
}

func (p *PollingEach[P, V]) forgetAll(key trc.Key) {
	p.forget(key)
	p.failed.Lock()
	defer p.failed.Unlock()
	p.unclaimed.remove(key)
	delete(p.failures, key)
}
