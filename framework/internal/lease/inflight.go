package lease

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/evenkeel/evenkeel/internal/author"
)

// Grace is how long Close waits for requests whose contexts have ended. The framework's requests
// end at once. A request of the author's in framework.Do, or the author's transport, may ignore the
// end of its context.
const Grace = 10 * time.Second

// Inflight registers requests in flight, so that their owner can end them. The zero value is ready
// for use. It is safe for concurrent use.
type Inflight struct {
	Calls *author.Callbacks // reports requests that ignore their end; may be nil

	mu       sync.Mutex // guards everything below; a leaf
	closed   time.Time  // when Close was called first; zero before
	next     int
	requests map[int]*entered
	empty    chan struct{} // closed when no request is in flight; nil before Close
}

// entered is a request in flight.
type entered struct {
	what     fmt.Stringer
	cancel   context.CancelFunc
	returned func() // called when it has returned after all; nil unless it was reported
	// reported says that it was reported, or is being reported.
	reported bool
}

// Enter registers a request unless the group is closed. The returned context ends with the group.
// done must be called when the request has returned.
func (f *Inflight) Enter(ctx context.Context, what fmt.Stringer) (_ context.Context, done func(), ok bool) {
	ctx, cancel := context.WithCancel(ctx) // not under the lock: ctx may make its author's logger
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed.IsZero() {
		cancel()
		return nil, nil, false
	}
	if f.requests == nil {
		f.requests = map[int]*entered{}
	}
	f.next++
	number := f.next
	f.requests[number] = &entered{what: what, cancel: cancel}
	return ctx, func() { cancel(); f.leave(number) }, true
}

// leave removes a request that has returned.
func (f *Inflight) leave(number int) {
	f.mu.Lock()
	left := f.requests[number]
	delete(f.requests, number)
	if f.empty != nil && len(f.requests) == 0 {
		close(f.empty)
		f.empty = nil
	}
	back := left.returned
	f.mu.Unlock()
	if back != nil {
		back()
	}
}

// IsClosed reports whether Close was called.
func (f *Inflight) IsClosed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.closed.IsZero()
}

// Close lets no request enter, cancels those in flight and waits until they have returned. It waits
// at most for Grace since the first call. Requests that have not returned by then are left behind,
// logged, and reported until they return.
func (f *Inflight) Close() {
	f.mu.Lock()
	if f.closed.IsZero() {
		f.closed = time.Now()
	}
	for _, b := range f.requests {
		b.cancel()
	}
	if len(f.requests) == 0 {
		f.mu.Unlock()
		return
	}
	if f.empty == nil {
		f.empty = make(chan struct{})
	}
	empty, timer := f.empty, time.NewTimer(Grace-time.Since(f.closed))
	f.mu.Unlock()
	defer timer.Stop()
	select {
	case <-empty:
	case <-timer.C:
		f.report()
	}
}

// report reports the requests that ignore their end. It does so without the lock: the log is the
// author's.
func (f *Inflight) report() {
	if f.Calls == nil {
		return
	}
	f.mu.Lock()
	since, under := f.closed, maps.Clone(f.requests)
	maps.DeleteFunc(under, func(_ int, b *entered) bool { known := b.reported; b.reported = true; return known })
	f.mu.Unlock()
	for number, b := range under {
		back := f.Calls.Ignores(b.what.String()+", whose context has ended", since)
		f.mu.Lock()
		if f.requests[number] == b {
			b.returned, back = back, nil
		}
		f.mu.Unlock()
		if back != nil { // it has returned in the meantime
			back()
		}
	}
}

// Left returns the requests that are still in flight.
func (f *Inflight) Left() (left []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, b := range f.requests {
		left = append(left, b.what.String())
	}
	slices.Sort(left)
	return left
}
