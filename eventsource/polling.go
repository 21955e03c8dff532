package eventsource

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/evenkeel/evenkeel/internal/author"
	"github.com/evenkeel/evenkeel/trc"
)

// PollingOptions configures a [Polling].
type PollingOptions[V any] struct {
	// Name is the name of the source. Required; unique within the controller.
	Name string
	// Period is the time between the end of a poll and the start of the next. Required. It varies by a
	// tenth, so that instances do not poll in step. It doubles with each failure, up to ten periods.
	// More than 70 years count as 70.
	Period time.Duration
	// Timeout is the timeout of a poll. Default: 30 s.
	Timeout time.Duration
	// Fetch returns the values of all primaries. Required. Primaries that are not in the result have
	// no values. It must return when its context ends.
	Fetch func(ctx context.Context) (map[trc.Key][]V, error)
	// Values configures how values are identified and compared.
	Values ValuesOptions[V]
}

// Polling fetches the values of all primaries from an external system at once, one poll after the
// other. A poll that fails or panics changes nothing; [Polling.Err] reports it until one succeeds.
type Polling[V any] struct {
	*Values[V]
	options  PollingOptions[V]
	synced   chan struct{}
	once     sync.Once
	failure  atomic.Pointer[error]
	attempts attempts
}

var _ Source = (*Polling[int])(nil)

// NewPolling returns a source, or an error that names every invalid option.
func NewPolling[V any](options PollingOptions[V]) (*Polling[V], error) {
	if options.Timeout == 0 {
		options.Timeout = defaultTimeout
	}
	if err := checkPoll(options.Name, options.Period, options.Timeout, options.Fetch == nil); err != nil {
		return nil, err
	}
	return &Polling[V]{Values: newValues(options.Values), options: options, synced: make(chan struct{})}, nil
}

const defaultTimeout = 30 * time.Second

// checkPoll returns an error that names every invalid option of a poll.
func checkPoll(name string, period, timeout time.Duration, nothing bool) error {
	var missing error
	if nothing {
		missing = fmt.Errorf("eventsource: %q: Fetch is nil", name)
	}
	return errors.Join(checkName(name), checkPeriod(name, period), checkTimeout(name, timeout), missing)
}

func checkName(name string) error {
	if name == "" {
		return errors.New("eventsource: Name is empty")
	}
	return nil
}

func checkPeriod(name string, period time.Duration) error {
	if period <= 0 {
		return fmt.Errorf("eventsource: %q: Period %v: must be positive", name, period)
	}
	return nil
}

func checkTimeout(name string, timeout time.Duration) error {
	if timeout < 0 {
		return fmt.Errorf("eventsource: %q: Timeout %v: must not be negative", name, timeout)
	}
	return nil
}

// Name returns the name of the source.
func (p *Polling[V]) Name() string { return p.options.Name }

// Synced returns a channel that is closed once a poll has succeeded.
func (p *Polling[V]) Synced() <-chan struct{} { return p.synced }

// Err returns the failure of the last poll, or nil.
func (p *Polling[V]) Err() error {
	if failure := p.failure.Load(); failure != nil {
		return *failure
	}
	return errors.Join(overdueErr(p.options.Name, p.attempts.health(p.options.Timeout)), p.calls.err(p.options.Name))
}

// Start starts polling, beginning with a poll.
func (p *Polling[V]) Start(sink Sink) (stop func(), err error) {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { p.poll(ctx, sink) })
	return func() { cancel(); waitFor(&all) }, nil
}

func (p *Polling[V]) poll(ctx context.Context, sink Sink) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	defer p.attempts.stop()
	again := func(failures int) {
		wait := periodAfter(p.options.Period, failures)
		p.attempts.next(wait)
		timer.Reset(wait)
	}
	for failures, initial := 0, true; ; again(failures) {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		fetch, ended := p.beginAll(), p.attempts.begin()
		all, err := callGuarded(ctx, p.options.Timeout, p.fetch)
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		ended(err)
		changes := p.endAll(fetch, all, err)
		if err != nil {
			failures++
			err = fmt.Errorf("eventsource: poll %q, failure %d: %w", p.options.Name, failures, err)
			p.failure.Store(&err)
			continue
		}
		failures = 0
		p.failure.Store(nil)
		p.offer(sink, p.options.Name, initial, changes)
		initial = false
		p.once.Do(func() { close(p.synced) })
	}
}

func (p *Polling[V]) fetch(ctx context.Context) (map[trc.Key]map[string]V, error) {
	all, err := p.options.Fetch(ctx)
	byID := make(map[trc.Key]map[string]V, len(all))
	for primary, values := range all {
		byID[primary] = p.byID(values)
	}
	return byID, err
}

// longest is the longest period. With jitter it is still a valid Duration.
const longest = math.MaxInt64 / 4 * time.Nanosecond

// periodAfter returns a period with jitter, doubled with each failure, up to ten periods.
func periodAfter(period time.Duration, failures int) time.Duration {
	most := longest
	if period <= longest/10 {
		most = 10 * period
	}
	wait := min(period, most)
	for range failures {
		if wait >= most/2 {
			wait = most
			break
		}
		wait *= 2
	}
	return jittered(wait)
}

// jittered varies a duration by a tenth.
func jittered(d time.Duration) time.Duration {
	d = min(d, longest)
	return d - d/20 + rand.N(d/10+1)
}

// callGuarded calls an author's function with a timeout. It turns a panic, or the end of its
// goroutine, into an error.
func callGuarded[R any](ctx context.Context, timeout time.Duration, call func(context.Context) (R, error)) (answer R, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if failure := author.Apart(math.MaxInt64, func() { answer, err = call(ctx) }); failure != nil {
		var none R
		return none, failureError(failure)
	}
	return answer, author.Sound(err)
}

// failureError returns the error for an author's function that did not return.
func failureError(failure *author.Failure) error {
	if failure.Stack == nil {
		return failure
	}
	return fmt.Errorf("%w\n%s", failure, failure.Stack)
}
