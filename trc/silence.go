package trc

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/watch"
)

const (
	// DefaultStaleAfter is how long a watch may be silent: three times as long as between two bookmarks.
	DefaultStaleAfter = 3 * time.Minute
	// unbookmarkedSilence is how long at least one without bookmarks may be: the Reflector has the server end a
	// watch after 5 to 10 minutes, and begins another.
	unbookmarkedSilence = 12 * time.Minute
)

// StaleError is what is wrong with a watch that has been silent for too long: its connection is dead though
// nobody has said so, or the API server is.
type StaleError struct {
	// Namespace is the watch's, "" for all.
	Namespace string
	// For is how long nothing has been heard, Limit what was allowed.
	For, Limit time.Duration
}

// Error says for how long.
func (e *StaleError) Error() string {
	return fmt.Sprintf("nothing was heard for %v, more than %v", e.For.Round(time.Second), e.Limit)
}

// Stale returns a [*StaleError] if some watch has heard nothing for longer than [Options.StaleAfter]: neither
// event nor bookmark nor list. A server that sends no bookmarks may be silent for 12 minutes, and the begin of a
// watch is a sign of its life.
func (s *Store) Stale() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for namespace, w := range s.watches {
		if silent, limit := w.silence(); silent > limit {
			return &StaleError{Namespace: namespace, For: silent, Limit: limit}
		}
	}
	return nil
}

// silence is how long nothing has been heard on the watch, and how long that may be.
func (w *Watch) silence() (silent, limit time.Duration) {
	now, heard := time.Since(w.store.born), w.heard.Load()
	if w.bookmarked.Load() {
		return now - time.Duration(heard), w.store.options.StaleAfter
	}
	return now - time.Duration(max(heard, w.begun.Load())), max(w.store.options.StaleAfter, unbookmarkedSilence)
}

// hear notes a sign of life of the API server, and of what kind it was.
func (w *Watch) hear(kind *atomic.Int64) {
	now := int64(time.Since(w.store.born))
	w.heard.Store(now)
	kind.Store(now)
	if kind != &w.doing.list && w.doing.barren.Load() != 0 {
		w.doing.barren.Store(0)
		w.doing.inRow.Store(0)
	}
}

// errUnanswered is a request of which nothing was heard, as through a connection that is dead though nobody has said so.
var errUnanswered = errors.New("trc: no answer")

// answering ends the context of a request unless it is answered in time: what Options.StaleAfter allows a watch is more than
// the API server takes for anything. release must be called once nothing is read of the answer
// any more, answered when it begins.
func (w *Watch) answering(ctx context.Context) (_ context.Context, answered, release func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	limit := w.store.options.StaleAfter
	timer := time.AfterFunc(limit, func() { cancel(fmt.Errorf("%w after %v", errUnanswered, limit)) })
	return ctx, func() { timer.Stop() }, func() { timer.Stop(); cancel(nil) }
}

// unanswered says what a request failed for, if it was that.
func unanswered(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, errUnanswered) {
		return cause
	}
	return err
}

// guarded is a watch that ends when it has been silent for too long, so that the Reflector begins another.
type guarded struct {
	watch.Interface
	timer *time.Timer
	ended func()
}

// guard begins to guard a watch that has just begun.
func (w *Watch) guard(events watch.Interface, ended func()) watch.Interface {
	begun := time.Now()
	w.begun.Store(int64(time.Since(w.store.born)))
	g := &guarded{Interface: events, ended: ended}
	armed := make(chan struct{})       // before that there is no timer to set
	soon := w.store.options.StaleAfter // what is allowed may become less, with the first bookmark
	g.timer = time.AfterFunc(soon, func() {
		<-armed
		silent, limit := w.silence()
		if left := limit - min(silent, time.Since(begun)); left > 0 {
			g.timer.Reset(min(left, soon))
			return
		}
		events.Stop()
	})
	close(armed)
	return g
}

// Stop ends the watch.
func (g *guarded) Stop() {
	g.timer.Stop()
	g.Interface.Stop()
	g.ended()
}
