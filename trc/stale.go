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
	// DefaultStaleAfter is how long a watch may be silent: three times the time between two bookmarks.
	DefaultStaleAfter = 3 * time.Minute
	// unbookmarkedSilence is the least time that a watch without bookmarks may be silent: the
	// Reflector asks the server to end a watch after 5 to 10 minutes, and starts another.
	unbookmarkedSilence = 12 * time.Minute
)

// StaleError means that a watch has been silent for too long. Its connection is dead without an
// error, or the API server is.
type StaleError struct {
	// Namespace is the namespace of the watch, "" for all.
	Namespace string
	// For is how long the watch has been silent. Limit is how long it may be.
	For, Limit time.Duration
}

// Error returns the duration and the limit.
func (e *StaleError) Error() string {
	return fmt.Sprintf("nothing was heard for %v, more than %v", e.For.Round(time.Second), e.Limit)
}

// Stale returns a [*StaleError] if some watch has received neither event nor bookmark nor list for
// longer than [Options.StaleAfter]. If the server sends no bookmarks, the limit is at least 12
// minutes, and the start of a watch counts as a sign of life.
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

// silence returns how long the watch has been silent, and how long it may be.
func (w *Watch) silence() (silent, limit time.Duration) {
	now, heard := time.Since(w.store.born), w.lastActivity.Load()
	if w.bookmarked.Load() {
		return now - time.Duration(heard), w.store.options.StaleAfter
	}
	return now - time.Duration(max(heard, w.begun.Load())), max(w.store.options.StaleAfter, unbookmarkedSilence)
}

// recordActivity records a sign of life of the API server and its kind.
func (w *Watch) recordActivity(kind *atomic.Int64) {
	now := int64(time.Since(w.store.born))
	w.lastActivity.Store(now)
	kind.Store(now)
	if kind != &w.doing.list && w.doing.barren.Load() != 0 {
		w.doing.barren.Store(0)
		w.doing.inRow.Store(0)
	}
}

// errUnanswered means that a request got no answer in time, as on a connection that is dead without
// an error.
var errUnanswered = errors.New("trc: no answer")

// withAnswerTimeout cancels the context of a request that is not answered within
// Options.StaleAfter, which is longer than the API server takes for any request. Call answered when
// the answer begins, and release when nothing more is read from it.
func (w *Watch) withAnswerTimeout(ctx context.Context) (_ context.Context, answered, release func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	limit := w.store.options.StaleAfter
	timer := time.AfterFunc(limit, func() { cancel(fmt.Errorf("%w after %v", errUnanswered, limit)) })
	return ctx, func() { timer.Stop() }, func() { timer.Stop(); cancel(nil) }
}

// timeoutCause returns the cause of a failed request if that is a missing answer, and err
// otherwise.
func timeoutCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, errUnanswered) {
		return cause
	}
	return err
}

// guarded is a watch that is stopped when it has been silent for too long, so that the Reflector
// starts another.
type guarded struct {
	watch.Interface
	timer *time.Timer
	ended func()
}

// guard wraps a watch that has just begun.
func (w *Watch) guard(events watch.Interface, ended func()) watch.Interface {
	begun := time.Now()
	w.begun.Store(int64(time.Since(w.store.born)))
	g := &guarded{Interface: events, ended: ended}
	armed := make(chan struct{})       // closed when g.timer is set
	soon := w.store.options.StaleAfter // the limit may become shorter with the first bookmark
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
