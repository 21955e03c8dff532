package framework

import (
	"context"
	"sync"
)

// flight is the requests that are under way for somebody, who can end them.
type flight struct {
	under sync.WaitGroup // added to under mu, and only before the end

	mu    sync.Mutex // guards everything below; a leaf
	ended bool
	next  int
	calls map[int]context.CancelFunc
}

// board lets a request take off, unless the flight has ended. The returned context ends with the flight;
// done must be called when the answer is there.
func (f *flight) board(ctx context.Context) (_ context.Context, done func(), ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return nil, nil, false
	}
	ctx, cancel := context.WithCancel(ctx)
	if f.calls == nil {
		f.calls = map[int]context.CancelFunc{}
	}
	f.next++
	number := f.next
	f.calls[number] = cancel
	f.under.Add(1)
	return ctx, func() {
		cancel()
		f.mu.Lock()
		delete(f.calls, number)
		f.mu.Unlock()
		f.under.Done()
	}, true
}

// isOver reports whether nothing takes off any more.
func (f *flight) isOver() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ended
}

// end lets nothing take off any more, breaks off what is under way and waits until it is down.
func (f *flight) end() {
	f.mu.Lock()
	f.ended = true
	for _, cancel := range f.calls {
		cancel()
	}
	f.mu.Unlock()
	f.under.Wait()
}
