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

// Grace is how long the end of requests is waited for whose contexts have ended. Those of ours end at once; what
// the author sends by [framework.Do], or a transport of the author's, may ignore it.
const Grace = 10 * time.Second

// Inflight is the requests that are under way for somebody, who can end them.
type Inflight struct {
	Calls *author.Callbacks // takes in what ignores its end; may be nil

	mu       sync.Mutex // guards everything below; a leaf
	closed   time.Time  // zero before
	next     int
	requests map[int]*entered
	empty    chan struct{} // closed when nothing is under way any more; nil before the end
}

// entered is a request that is under way.
type entered struct {
	what     fmt.Stringer
	cancel   context.CancelFunc
	returned func() // to be called when it has returned after all; nil unless it was reported
	// reported says that it was, or is being.
	reported bool
}

// Enter lets a request take off, unless the flight has ended. The returned context ends with the flight;
// done must be called when the answer is there.
func (f *Inflight) Enter(ctx context.Context, what fmt.Stringer) (_ context.Context, done func(), ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed.IsZero() {
		return nil, nil, false
	}
	ctx, cancel := context.WithCancel(ctx)
	if f.requests == nil {
		f.requests = map[int]*entered{}
	}
	f.next++
	number := f.next
	f.requests[number] = &entered{what: what, cancel: cancel}
	return ctx, func() { cancel(); f.leave(number) }, true
}

func (f *Inflight) leave(number int) {
	f.mu.Lock()
	landed := f.requests[number]
	delete(f.requests, number)
	if f.empty != nil && len(f.requests) == 0 {
		close(f.empty)
		f.empty = nil
	}
	back := landed.returned
	f.mu.Unlock()
	if back != nil {
		back()
	}
}

// IsClosed reports whether nothing takes off any more.
func (f *Inflight) IsClosed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.closed.IsZero()
}

// Close lets nothing take off any more, breaks off what is under way and waits until it is down; at most for Grace
// since the first call. What has not returned by then is left behind, named, and reported until it has.
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

// report names what ignores its end, without the lock: the log is the author's.
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
		if back != nil { // it has returned meanwhile
			back()
		}
	}
}

// Left are the requests that are still under way.
func (f *Inflight) Left() (left []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, b := range f.requests {
		left = append(left, b.what.String())
	}
	slices.Sort(left)
	return left
}
