package write

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/evenkeel/evenkeel/framework/internal/cache"
	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// enter registers a request. It returns an error if the run has ended, or if another instance
// leads. The context of the request ends with the run, the term of leadership and the operator.
func (w *Writer) enter(ctx context.Context, what underway) (_ context.Context, done func(), err error) {
	if w.Port.Abandoned.Load() {
		return nil, nil, errRemoved
	}
	asked := fmt.Stringer(what) // once: it allocates
	ctx, down, ok := w.Port.Inflight.Enter(ctx, asked)
	if !ok {
		return nil, nil, ErrRunEnded
	}
	ctx, downOfTerm, ok := w.enterTerm(ctx, asked)
	if !ok {
		down()
		return nil, nil, ErrStandby
	}
	ctx, downOfRun, ok := w.Home().inflight.Enter(ctx, asked)
	if !ok {
		downOfTerm()
		down()
		return nil, nil, ErrRunEnded
	}
	return ctx, func() { downOfRun(); downOfTerm(); down() }, nil
}

// enterTerm registers a request in the term that its run began in. Outside of runs it uses the
// current term.
func (w *Writer) enterTerm(ctx context.Context, what fmt.Stringer) (_ context.Context, done func(), ok bool) {
	if !w.Port.Fence.Required {
		return ctx, func() {}, true
	}
	t := w.Term
	if !w.inRun() {
		t = w.Port.Fence.Current()
	}
	if t == nil {
		return nil, nil, false
	}
	return t.Inflight.Enter(ctx, what)
}

// LostLease reports whether the term in which the run began has ended.
func (w *Writer) LostLease() bool {
	return w.Port.Fence.Required && (w.Term == nil || !w.Term.Lasts())
}

// check returns the error that enter would return, for writes that may need no request.
func (w *Writer) check() error {
	switch {
	case w.Port.Inflight.IsClosed() || w.Home().inflight.IsClosed():
		return ErrRunEnded
	case w.inRun() && w.LostLease() || !w.Port.Fence.Allowed():
		return ErrStandby
	case w.Port.Abandoned.Load():
		return errRemoved
	}
	return nil
}

// End closes the writer and returns the requests that it sent. None of them is in flight then,
// except those that ignore the end of their context.
func (w *Writer) End() []timeline.Request {
	w.inflight.Close()
	left := w.inflight.Left()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(left) > 0 {
		return slices.Clone(w.requests) // those in flight may still record something
	}
	return slices.Clip(w.requests)
}

// writtenStores returns the caches that answers were added to, in all clusters.
func (w *Writer) writtenStores() (stores []*cache.Store) {
	w.mu.Lock()
	remotes, kinds := w.remotes, slices.Collect(maps.Keys(w.written))
	w.mu.Unlock()
	for _, kind := range kinds {
		stores = append(stores, w.Port.StoresOfKind(kind)...)
	}
	for _, other := range remotes {
		stores = append(stores, other.writtenStores()...)
	}
	return stores
}

// deliveryTime is how long the end of a run waits for the delivery of changes, if filters or
// mappers are slow.
const deliveryTime = 100 * time.Millisecond

// AwaitDelivery waits until the changes that the run's writes met are delivered, which another
// goroutine may be about to do. A foreign change and an answer after it are then one reason to run
// again, not two. This saves a run; nothing depends on it.
func (w *Writer) AwaitDelivery(ctx context.Context) {
	for _, s := range w.writtenStores() {
		if done := s.DeliveredTo(w.Run.Controller); done != nil {
			ctx, cancel := context.WithTimeout(ctx, deliveryTime)
			cache.Await(ctx, done)
			cancel()
		}
	}
}

// Closing returns the function to call after the causes that arrived during the run are decided. It
// is nil if nothing is proven.
func (w *Writer) Closing() func() {
	if len(w.pages()) == 0 {
		return nil
	}
	return w.Close
}

// pages returns the pages of proven writes, one for each cluster that has any.
func (w *Writer) pages() (pages []*trc.Page) {
	w.mu.Lock()
	remotes := w.remotes
	if w.page != nil {
		pages = append(pages, w.page)
	}
	w.mu.Unlock()
	for _, other := range remotes {
		pages = append(pages, other.pages()...)
	}
	return pages
}

// Close drops the proofs after the events in delivery have reached the scheduler: until then the
// proofs explain them.
func (w *Writer) Close() {
	pages := w.pages()
	if len(pages) == 0 {
		return
	}
	stores := w.writtenStores()
	left := new(atomic.Int32)
	left.Store(int32(len(stores)) + 1)
	done := func() {
		if left.Add(-1) == 0 {
			for _, page := range pages {
				page.Close()
			}
		}
	}
	for _, s := range stores {
		s.AfterTo(w.Run.Controller, done)
	}
	done()
}

// underway describes a request in flight, for people.
type underway struct {
	verb string
	of   *client.Client // nil if it is not known
	key  trc.Key
	by   trc.Writer // empty if nobody in particular
}

// String returns the request and who sends it.
func (r underway) String() string {
	text := "a request"
	if r.of != nil {
		text = r.verb + " " + r.of.Describe(r.key)
	}
	if r.by != (trc.Writer{}) {
		text += " of a run of " + r.by.Primary.String() + " by controller " + r.by.Controller
	}
	return text
}
