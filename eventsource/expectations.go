package eventsource

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// ExpectationState is the state of an expectation.
type ExpectationState int

// The states of expectations.
const (
	// NothingExpected means that there is none.
	NothingExpected ExpectationState = iota
	// Pending means neither fulfilled nor timed out.
	Pending
	// Fulfilled means that it has been fulfilled. Check returns it once.
	Fulfilled
	// TimedOut means that it was not fulfilled in time. It stays, and may still be fulfilled, until it
	// is replaced or dropped.
	TimedOut
)

// String returns "nothing expected", "pending", "fulfilled" or "timed out".
func (s ExpectationState) String() string {
	switch s {
	case NothingExpected:
		return "nothing expected"
	case Pending:
		return "pending"
	case Fulfilled:
		return "fulfilled"
	case TimedOut:
		return "timed out"
	}
	return fmt.Sprintf("ExpectationState(%d)", int(s))
}

// Expectations remember for each primary what a reconciler waits for, and make it due when the
// timeout has passed: for example, that a Deployment is ready within five minutes. The expected
// change itself must make the primary due in another way; the reconciler then calls Check. C is the
// type that expectations are judged by, such as a run's context.
//
// A primary has one expectation at a time, which is dropped when the primary is gone. At most
// [DefaultUnclaimed] primaries that do not exist have one. Expectations are in memory: after a
// restart there are none. All methods may be called from any goroutine.
type Expectations[C any] struct {
	name string

	mu        sync.Mutex // guards the fields below; a leaf
	sink      Sink       // set while it runs
	all       map[trc.Key]*expectation[C]
	unclaimed unclaimed // primaries that do not exist, as after a run that ended late
}

// expectation is the expectation of one primary.
type expectation[C any] struct {
	name      string
	deadline  time.Time
	timer     *time.Timer
	fulfilled func(C) bool
}

var (
	_ Source         = (*Expectations[int])(nil)
	_ PrimaryWatcher = (*Expectations[int])(nil)
)

// NewExpectations returns a source. Its name must be unique within the controller, and not empty.
func NewExpectations[C any](name string) (*Expectations[C], error) {
	if name == "" {
		return nil, errors.New("eventsource: the name is empty")
	}
	return &Expectations[C]{name: name, all: map[trc.Key]*expectation[C]{}, unclaimed: newUnclaimed(DefaultUnclaimed)}, nil
}

// Name returns the name of the source.
func (e *Expectations[C]) Name() string { return e.name }

// Synced returns a closed channel.
func (e *Expectations[C]) Synced() <-chan struct{} { return closed }

// Err returns nil.
func (e *Expectations[C]) Err() error { return nil }

// Start starts offering primaries whose expectation has timed out.
func (e *Expectations[C]) Start(sink Sink) (stop func(), err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sink = sink
	for primary, x := range e.all {
		e.waitLocked(primary, x)
	}
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.sink = nil
		for _, x := range e.all {
			x.timer.Stop()
		}
	}, nil
}

// Expect sets the expectation of a primary and replaces any other. fulfilled reports whether it is
// fulfilled. It returns an error if timeout is not positive or fulfilled is nil.
func (e *Expectations[C]) Expect(primary trc.Key, name string, timeout time.Duration, fulfilled func(C) bool) error {
	if timeout <= 0 {
		return fmt.Errorf("eventsource: expect %q of %s: timeout %v: must be positive", name, primary, timeout)
	}
	if fulfilled == nil {
		return fmt.Errorf("eventsource: expect %q of %s: fulfilled is nil", name, primary)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.dropLocked(primary)
	x := &expectation[C]{name: name, deadline: time.Now().Add(timeout), fulfilled: fulfilled}
	e.all[primary] = x
	e.waitLocked(primary, x)
	if dropped, drops := e.unclaimed.add(primary); drops {
		e.dropLocked(dropped)
	}
	return nil
}

// waitLocked starts or continues to wait for the deadline.
func (e *Expectations[C]) waitLocked(primary trc.Key, x *expectation[C]) {
	if x.timer != nil {
		x.timer.Stop()
	}
	x.timer = time.AfterFunc(time.Until(x.deadline), func() {
		e.mu.Lock()
		sink := e.sink
		if e.all[primary] != x {
			sink = nil
		}
		e.mu.Unlock()
		if sink != nil {
			sink.Offer(primary, Offer{Cause: timeline.External{Source: e.name, ID: x.name + " timed out"}})
		}
	})
}

// Check returns the name and the state of a primary's expectation. A fulfilled expectation is
// dropped.
func (e *Expectations[C]) Check(primary trc.Key, by C) (name string, state ExpectationState) {
	e.mu.Lock()
	x := e.all[primary]
	e.mu.Unlock()
	if x == nil {
		return "", NothingExpected
	}
	if x.fulfilled(by) {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.all[primary] == x {
			e.dropLocked(primary)
		}
		return x.name, Fulfilled
	}
	if time.Now().Before(x.deadline) {
		return x.name, Pending
	}
	return x.name, TimedOut
}

// Expected returns the name of a primary's expectation without judging it, or "".
func (e *Expectations[C]) Expected(primary trc.Key) (name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if x := e.all[primary]; x != nil {
		return x.name
	}
	return ""
}

// Drop removes the expectation of a primary.
func (e *Expectations[C]) Drop(primary trc.Key) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.dropLocked(primary)
}

func (e *Expectations[C]) dropLocked(primary trc.Key) {
	if x := e.all[primary]; x != nil {
		x.timer.Stop()
		delete(e.all, primary)
	}
}

// PrimaryChanged drops the expectation of a primary that is gone.
func (e *Expectations[C]) PrimaryChanged(old, new trc.Object) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if new != nil {
		e.unclaimed.claim(trc.KeyOf(new))
	} else {
		e.unclaimed.remove(trc.KeyOf(old))
	}
	if hasLeft(old, new) {
		e.dropLocked(trc.KeyOf(old))
	}
}
