package eventsource

import (
	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// Sink receives the primaries that are due.
type Sink interface {
	// Offer makes the primary due. It does not block.
	Offer(primary trc.Key, offer Offer)
}

// Offer is the reason why a primary is due.
type Offer struct {
	Cause timeline.Cause
	// Initial is set for what existed when the source started.
	Initial bool
}

// Source makes primaries due. Custom sources implement it.
type Source interface {
	// Name returns a name that is unique within a controller.
	Name() string
	// Start starts the source, which offers to the sink from then on. Start must return without
	// waiting for the outside world.
	//
	// It is called once everything that the controller watches has been read, in the order of the
	// controller's sources. No primary runs before the sources in the controller's options are
	// synced. Runs do not wait for sources that are added later. After an error or a panic, Start
	// is called again, with back-off, until it succeeds: a failed call must leave nothing running.
	//
	// stop ends the source. After stop has returned, no further Offer call begins; calls under way may
	// still return later. stop is called once, from any goroutine, possibly before the source is
	// synced, and must leave no goroutine. A nil stop means that there is nothing to end.
	Start(sink Sink) (stop func(), err error)
	// Synced returns a channel that is closed once the source has offered, or holds, everything that
	// existed at its start, even if that is nothing. It is called after Start has succeeded.
	Synced() <-chan struct{}
	// Err returns the present problem of the source, or nil. It may be called at any time, from any
	// goroutine, and must not block.
	Err() error
}

// PrimaryWatcher is implemented by a [Source] that keeps state for each primary, as a poll does.
type PrimaryWatcher interface {
	// PrimaryChanged is called for every change of a primary, including changes that filters keep from
	// making it due. old is nil for an addition. new is nil for a deletion, and when the watch of its
	// namespace ends. Both are shared and must not be changed. It must not block. It is called for the
	// existing primaries before [Source.Start] is called.
	PrimaryChanged(old, new trc.Object)
}

// hasLeft reports whether a change of a primary ends it: it is gone, or another object has taken
// its name.
func hasLeft(old, new trc.Object) bool {
	return new == nil || old != nil && old.GetUID() != new.GetUID()
}

// closed is the Synced channel of sources that are synced from the beginning.
var closed = func() <-chan struct{} {
	channel := make(chan struct{})
	close(channel)
	return channel
}()
