package eventsource

import (
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// Changes makes a primary due at changes that the filters of primaries keep from doing so: at one of a label, say, where only a new generation does. All
// others go on as they do.
type Changes[P trc.Object] struct {
	name string
	due  func(old, new P) bool
	left func(P) // may be nil

	mu   sync.Mutex // guards what follows; a leaf
	sink Sink       // while it runs
	runs int        // of Start, so that the end of one ends no later one
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

// WhenLeft has a function called with each primary that has left: it was deleted, or is not watched or selected any more. Another one of its name that comes
// does so after that. It is for before the source is registered.
func (c *Changes[P]) WhenLeft(left func(P)) { c.left = left }

// Name returns the name of the source.
func (c *Changes[P]) Name() string { return c.name }

// Synced is closed from the beginning.
func (c *Changes[P]) Synced() <-chan struct{} { return closed }

// Err is always nil.
func (c *Changes[P]) Err() error { return nil }

// Start begins to offer, to the sink of the last Start alone.
func (c *Changes[P]) Start(sink Sink) (stop func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs++
	c.sink = sink
	run := c.runs
	return func() { c.stop(run) }, nil
}

func (c *Changes[P]) stop(run int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.runs == run {
		c.sink = nil
	}
}

// Due makes a primary due now, for what its owner knows of besides changes. It does nothing while the source does not run. It may be
// called at any time, from any goroutine.
func (c *Changes[P]) Due(key types.NamespacedName) {
	c.mu.Lock()
	sink := c.sink
	c.mu.Unlock()
	if sink != nil {
		sink.Offer(trc.Key(key), Offer{Cause: timeline.External{Source: c.name}})
	}
}

// PrimaryChanged offers the primary if it is due.
func (c *Changes[P]) PrimaryChanged(old, new trc.Object) {
	if old == nil {
		return
	}
	if hasLeft(old, new) {
		if c.left != nil {
			c.left(old.(P))
		}
		return
	}
	c.mu.Lock()
	sink := c.sink
	c.mu.Unlock()
	if sink == nil || !c.due(old.(P), new.(P)) {
		return
	}
	sink.Offer(trc.KeyOf(new), Offer{Cause: timeline.External{Source: c.name, ID: new.GetResourceVersion()}})
}
