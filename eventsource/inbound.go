package eventsource

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// InboundOptions configures an [Inbound].
type InboundOptions[V any] struct {
	// Name is the name of the source. Required; unique within the controller.
	Name string
	// Fetch, if set, returns the values of a primary for which nothing has been pushed. It is called
	// when they are read for the first time. It must return when its context ends.
	Fetch func(ctx context.Context, primary trc.Key) ([]V, error)
	// Timeout is the timeout of a fetch. Default: 30 s.
	Timeout time.Duration
	// Unclaimed is for how many primaries that do not exist values are held, because they may be
	// created later. Default: [DefaultUnclaimed]. Beyond that, the values of the one that got its
	// first value earliest are dropped.
	Unclaimed int
	// Values configures how values are identified and compared.
	Values ValuesOptions[V]
}

// Inbound receives what an external system pushes, as by a web hook or a queue. A push carries a
// value, which is held until it or its primary is gone, or only makes a primary due. Pushing does
// not block. It may be done from any goroutine, also before the start: then the primaries are due
// at the start.
type Inbound[V any] struct {
	*Values[V]
	options  InboundOptions[V]
	attempts attempts

	mu        sync.Mutex // guards the fields below; while it is held, only that of Values may be taken
	sink      Sink       // set while it runs
	early     map[trc.Key]map[string]bool
	unclaimed unclaimed
}

var (
	_ Source         = (*Inbound[int])(nil)
	_ PrimaryWatcher = (*Inbound[int])(nil)
)

// NewInbound returns a source, or an error that names every invalid option.
func NewInbound[V any](options InboundOptions[V]) (*Inbound[V], error) {
	if options.Timeout == 0 {
		options.Timeout = defaultTimeout
	}
	if options.Unclaimed == 0 {
		options.Unclaimed = DefaultUnclaimed
	}
	err := errors.Join(checkName(options.Name), checkTimeout(options.Name, options.Timeout))
	if options.Unclaimed < 0 {
		err = errors.Join(err, fmt.Errorf("eventsource: %q: Unclaimed %d: must not be negative", options.Name, options.Unclaimed))
	}
	if err != nil {
		return nil, err
	}
	return &Inbound[V]{
		Values: newValues(options.Values), options: options, early: map[trc.Key]map[string]bool{}, unclaimed: newUnclaimed(options.Unclaimed),
	}, nil
}

// Name returns the name of the source.
func (i *Inbound[V]) Name() string { return i.options.Name }

// Synced returns a closed channel.
func (i *Inbound[V]) Synced() <-chan struct{} { return closed }

// Err returns an error that names a function of the options that has not returned, or has panicked
// in the last minute; otherwise nil. Other failures are returned to the callers of Fetch.
func (i *Inbound[V]) Err() error { return i.calls.err(i.options.Name) }

// Start starts offering primaries.
func (i *Inbound[V]) Start(sink Sink) (stop func(), err error) {
	i.mu.Lock()
	early := i.early
	i.sink, i.early = sink, map[trc.Key]map[string]bool{}
	i.mu.Unlock()
	for primary, ids := range early {
		for id := range ids {
			sink.Offer(primary, Offer{Cause: timeline.External{Source: i.options.Name, ID: id}, Initial: true})
		}
	}
	return func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.sink = nil
	}, nil
}

// Push stores a value. The primary is due if the value differs from the stored one.
func (i *Inbound[V]) Push(primary trc.Key, value V) {
	c := i.put(primary, i.options.Values.id(value), &value)
	i.mu.Lock()
	i.limitLocked(primary)
	i.mu.Unlock()
	i.changed(c)
}

// Wrote is [Values.Wrote]. A value that is written for a primary that is gone is held like a pushed
// one.
func (i *Inbound[V]) Wrote(primary trc.Key, value V) {
	i.Values.Wrote(primary, value)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.limitLocked(primary)
}

// limitLocked limits what is held for primaries that do not exist. Call it when something is held
// for one.
func (i *Inbound[V]) limitLocked(primary trc.Key) {
	dropped, drops := i.unclaimed.add(primary)
	if drops {
		i.forget(dropped)
		delete(i.early, dropped)
	}
}

// Pull removes a value. The primary is due if there was one.
func (i *Inbound[V]) Pull(primary trc.Key, id string) { i.changed(i.put(primary, id, nil)) }

func (i *Inbound[V]) changed(c change[V]) {
	if i.matters(c) {
		i.Trigger(c.primary, c.id)
	}
}

// maxEarly is how many reasons are kept for a primary that is due at the start; one is enough to
// make it due.
const maxEarly = 64

// Trigger makes a primary due. id describes why.
func (i *Inbound[V]) Trigger(primary trc.Key, id string) {
	i.mu.Lock()
	sink := i.sink
	if sink == nil {
		if i.early[primary] == nil {
			i.early[primary] = map[string]bool{}
			i.limitLocked(primary)
		}
		if len(i.early[primary]) < maxEarly {
			i.early[primary][id] = true
		}
	}
	i.mu.Unlock()
	if sink != nil {
		sink.Offer(primary, Offer{Cause: timeline.External{Source: i.options.Name, ID: id}})
	}
}

// Fetch returns the values of a primary, and calls the Fetch of the options once if there are none.
func (i *Inbound[V]) Fetch(ctx context.Context, primary trc.Key) ([]V, error) {
	if values := i.Of(primary); len(values) > 0 || i.options.Fetch == nil || i.known(primary) {
		return values, nil
	}
	fetch, ended := i.begin(primary), i.attempts.begin()
	fresh, err := callGuarded(ctx, i.options.Timeout, func(ctx context.Context) (map[string]V, error) {
		values, err := i.options.Fetch(ctx, primary)
		return i.byID(values), err
	})
	ended(err)
	i.end(fetch, primary, fresh, err)
	i.mu.Lock()
	i.limitLocked(primary)
	i.mu.Unlock()
	if err != nil {
		err = fmt.Errorf("eventsource: fetch from %q for %s: %w", i.options.Name, primary, err)
	}
	return i.Of(primary), err
}

// PrimaryChanged drops what is held for a primary that is gone.
func (i *Inbound[V]) PrimaryChanged(old, new trc.Object) {
	i.mu.Lock()
	if new != nil {
		i.unclaimed.claim(trc.KeyOf(new))
	} else {
		i.unclaimed.remove(trc.KeyOf(old))
	}
	if hasLeft(old, new) {
		delete(i.early, trc.KeyOf(old))
		i.forget(trc.KeyOf(old))
	}
	i.mu.Unlock()
}

// Channel makes primaries due that arrive through a Go channel, as [Inbound.Trigger] does, until it
// is closed. It is for existing channels; new code should call an Inbound.
type Channel struct {
	*Inbound[struct{}]
	triggers <-chan Trigger
}

// Trigger names a primary that is due. ID describes why.
type Trigger struct {
	Primary trc.Key
	ID      string
}

// NewChannel returns a source, or an error that names every invalid argument.
func NewChannel(name string, triggers <-chan Trigger) (*Channel, error) {
	inbound, err := NewInbound(InboundOptions[struct{}]{Name: name})
	if triggers == nil {
		err = errors.Join(err, fmt.Errorf("eventsource: %q: the channel is nil", name))
	}
	if err != nil {
		return nil, err
	}
	return &Channel{Inbound: inbound, triggers: triggers}, nil
}

// Start starts receiving.
func (c *Channel) Start(sink Sink) (stop func(), err error) {
	end, err := c.Inbound.Start(sink)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case t, open := <-c.triggers:
				if !open {
					return
				}
				c.Trigger(t.Primary, t.ID)
			}
		}
	})
	return func() { cancel(); all.Wait(); end() }, nil
}
