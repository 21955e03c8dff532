package eventsource

import (
	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// Sink takes in that a primary is due.
type Sink interface {
	// Offer makes the primary due. It does not block.
	Offer(primary trc.Key, offer Offer)
}

// Offer is why a primary is due.
type Offer struct {
	Cause timeline.Cause
	// Initial is set for what was there already when the source started.
	Initial bool
}

// Source makes primaries due. It is the one interface that custom sources implement.
type Source interface {
	// Name is unique within a controller.
	Name() string
	// Start begins to offer to the sink and returns without waiting for the world; stop ends it, and nothing is
	// offered after stop has returned and the offers under way have. It is called once all that the controller watches has been
	// read, in the order of the controller's sources; no primary runs before all of them are synced. After an error, or a
	// panic, it is called again, with back-off, until it succeeds: what has failed must leave nothing behind. stop is called
	// once, from any goroutine, perhaps before the source is synced, and leaves no goroutine; nil means that there is
	// nothing to end.
	Start(sink Sink) (stop func(), err error)
	// Synced is closed once the source has offered, or holds, everything that was there at its start, also if that is
	// nothing. It is asked after Start has succeeded.
	Synced() <-chan struct{}
	// Err is what is wrong with the source at the moment, nil if nothing is. It may be called at any time, from any
	// goroutine, and must not block.
	Err() error
}

// PrimaryWatcher is implemented by a [Source] that keeps something for each primary, as a poll.
type PrimaryWatcher interface {
	// PrimaryChanged is called for every change of a primary, also for those that filters keep from making
	// it due. old is nil for an addition, new for a deletion, or the end of the watch of its namespace; both are shared
	// and must not be changed. It must not block. The primaries that there are at the start are told of before
	// [Source.Start] is called.
	PrimaryChanged(old, new trc.Object)
}

// hasLeft tells whether a change of a primary ends it: it is gone, or another has taken its name.
func hasLeft(old, new trc.Object) bool {
	return new == nil || old != nil && old.GetUID() != new.GetUID()
}

// closed is what sources return that are synced from the beginning.
var closed = func() <-chan struct{} {
	channel := make(chan struct{})
	close(channel)
	return channel
}()
