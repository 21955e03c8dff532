package framework

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/evenkeel/evenkeel/internal/author"
)

// flightGrace is how long the end of requests is waited for whose contexts have ended. Those of ours end at once; what
// the author sends by [Do], or a transport of the author's, may ignore it.
const flightGrace = 10 * time.Second

// flight is the requests that are under way for somebody, who can end them.
type flight struct {
	calls *author.Callbacks // takes in what ignores its end; may be nil

	mu    sync.Mutex // guards everything below; a leaf
	ended time.Time  // zero before
	next  int
	under map[int]*boarded
	empty chan struct{} // closed when nothing is under way any more; nil before the end
}

// boarded is a request that is under way.
type boarded struct {
	what   fmt.Stringer
	cancel context.CancelFunc
	back   func() // to be called when it has returned after all; nil unless it was reported
	// reported says that it was, or is being.
	reported bool
}

// board lets a request take off, unless the flight has ended. The returned context ends with the flight;
// done must be called when the answer is there.
func (f *flight) board(ctx context.Context, what fmt.Stringer) (_ context.Context, done func(), ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.ended.IsZero() {
		return nil, nil, false
	}
	ctx, cancel := context.WithCancel(ctx)
	if f.under == nil {
		f.under = map[int]*boarded{}
	}
	f.next++
	number := f.next
	f.under[number] = &boarded{what: what, cancel: cancel}
	return ctx, func() { cancel(); f.down(number) }, true
}

func (f *flight) down(number int) {
	f.mu.Lock()
	landed := f.under[number]
	delete(f.under, number)
	if f.empty != nil && len(f.under) == 0 {
		close(f.empty)
		f.empty = nil
	}
	back := landed.back
	f.mu.Unlock()
	if back != nil {
		back()
	}
}

// isOver reports whether nothing takes off any more.
func (f *flight) isOver() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.ended.IsZero()
}

// end lets nothing take off any more, breaks off what is under way and waits until it is down; at most for flightGrace
// since the first call. What has not returned by then is left behind, named, and reported until it has.
func (f *flight) end() {
	f.mu.Lock()
	if f.ended.IsZero() {
		f.ended = time.Now()
	}
	for _, b := range f.under {
		b.cancel()
	}
	if len(f.under) == 0 {
		f.mu.Unlock()
		return
	}
	if f.empty == nil {
		f.empty = make(chan struct{})
	}
	empty, timer := f.empty, time.NewTimer(flightGrace-time.Since(f.ended))
	f.mu.Unlock()
	defer timer.Stop()
	select {
	case <-empty:
	case <-timer.C:
		f.report()
	}
}

// report names what ignores its end, without the lock: the log is the author's.
func (f *flight) report() {
	if f.calls == nil {
		return
	}
	f.mu.Lock()
	since, under := f.ended, maps.Clone(f.under)
	maps.DeleteFunc(under, func(_ int, b *boarded) bool { known := b.reported; b.reported = true; return known })
	f.mu.Unlock()
	for number, b := range under {
		back := f.calls.Ignores(b.what.String()+", whose context has ended", since)
		f.mu.Lock()
		if f.under[number] == b {
			b.back, back = back, nil
		}
		f.mu.Unlock()
		if back != nil { // it has returned meanwhile
			back()
		}
	}
}

// left are the requests that are still under way.
func (f *flight) left() (left []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, b := range f.under {
		left = append(left, b.what.String())
	}
	slices.Sort(left)
	return left
}
