package eventsource

import (
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// Changes makes a primary due for changes that the filters of primaries ignore: for the change of a
// label, say, if the filter requires a new generation. It does not affect other changes.
type Changes[P trc.Object] struct {
	name string
	due  func(old, new P) bool
	left func(P) // may be nil

	mu   sync.Mutex // guards the fields below; a leaf
	sink Sink       // set while it runs
	runs int        // number of Start calls: the stop of one does not end a later one
}

var (
	_ Source         = (*Changes[trc.Object])(nil)
	_ PrimaryWatcher = (*Changes[trc.Object])(nil)
)

// NewChanges returns a source that makes a primary due for the updates for which due reports true.
// due must be pure and must not change its arguments. It is not called for primaries that come or
// go.
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

// WhenLeft sets a function that is called with each primary that has left: it was deleted, or is no
// longer watched or selected. It is called before another primary of that name appears. Call
// WhenLeft before the source is registered.
func (c *Changes[P]) WhenLeft(left func(P)) { c.left = left }

// Name returns the name of the source.
func (c *Changes[P]) Name() string { return c.name }

// Synced returns a closed channel.
func (c *Changes[P]) Synced() <-chan struct{} { return closed }

// Err returns nil.
func (c *Changes[P]) Err() error { return nil }

// Start starts the source. It offers only to the sink of the last Start.
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

// Due makes a primary due now, for reasons other than changes. It does nothing unless the source is
// running. It may be called at any time, from any goroutine.
func (c *Changes[P]) Due(key types.NamespacedName) {
	c.mu.Lock()
	sink := c.sink
	c.mu.Unlock()
	if sink != nil {
		sink.Offer(trc.Key(key), Offer{Cause: timeline.External{Source: c.name}})
	}
}

// PrimaryChanged makes the primary due if the change requires that.
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
