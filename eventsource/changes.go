package eventsource

import (
	"errors"
	"fmt"
	"sync"

	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// Changes makes a primary due at changes that the filters of primaries keep from doing so: at one of a label, say, where only a new generation does. All
// others go on as they do.
type Changes[P trc.Object] struct {
	name string
	due  func(old, new P) bool

	mu   sync.Mutex // guards sink; a leaf
	sink Sink       // while it runs
}

var (
	_ Source         = (*Changes[trc.Object])(nil)
	_ PrimaryWatcher = (*Changes[trc.Object])(nil)
)

// NewChanges returns a source that makes a primary due at the updates that due tells, which must be pure, and must not change what it is given. It is
// not asked about primaries that come or go.
func NewChanges[P trc.Object](name string, due func(old, new P) bool) (*Changes[P], error) {
	var missing error
	if due == nil {
		missing = fmt.Errorf("eventsource: %q: due is nil", name)
	}
	if err := errors.Join(checkName(name), missing); err != nil {
		return nil, err
	}
	return &Changes[P]{name: name, due: due}, nil
}

// Name returns the name of the source.
func (c *Changes[P]) Name() string { return c.name }

// Synced is closed from the beginning.
func (c *Changes[P]) Synced() <-chan struct{} { return closed }

// Err is always nil.
func (c *Changes[P]) Err() error { return nil }

// Start begins to offer.
func (c *Changes[P]) Start(sink Sink) (stop func(), err error) {
	c.offerTo(sink)
	return func() { c.offerTo(nil) }, nil
}

func (c *Changes[P]) offerTo(sink Sink) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sink = sink
}

// PrimaryChanged offers the primary if it is due.
func (c *Changes[P]) PrimaryChanged(old, new trc.Object) {
	c.mu.Lock()
	sink := c.sink
	c.mu.Unlock()
	if sink == nil || old == nil || hasLeft(old, new) || !c.due(old.(P), new.(P)) {
		return
	}
	sink.Offer(trc.KeyOf(new), Offer{Cause: timeline.External{Source: c.name, ID: new.GetResourceVersion()}})
}
