package write

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/evenkeel/evenkeel/framework/internal/cache"
	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// enter refuses a write once the run has ended, and while another instance leads. The context of its requests
// ends with the run, the term in office and the operator.
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

// enterTerm lets a write take off in the term that its run began in; outside of runs in whichever there is.
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

// LostLease tells whether the term in which the run began has ended.
func (w *Writer) LostLease() bool {
	return w.Port.Fence.Required && (w.Term == nil || !w.Term.Lasts())
}

// check returns what begin would refuse a write for, nil if nothing: for those that turn out to need no request.
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

// End closes the writer and returns the requests it sent. None of them is under way any more, but for those that
// ignore the end of their context.
func (w *Writer) End() []timeline.Request {
	w.inflight.Close()
	left := w.inflight.Left()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(left) > 0 {
		return slices.Clone(w.requests) // they may still note something
	}
	return slices.Clip(w.requests)
}

// writtenStores are the caches that answers were laid over, in whatever cluster.
func (w *Writer) writtenStores() (stores []*cache.Store) {
	w.mu.Lock()
	far := w.far
	for kind := range w.written {
		stores = append(stores, w.Port.StoresOfKind(kind)...)
	}
	w.mu.Unlock()
	for _, other := range far {
		stores = append(stores, other.writtenStores()...)
	}
	return stores
}

// deliveryTime is how long the end of a run waits for what its writes met to be told of, should filters or mappers be slow.
const deliveryTime = 100 * time.Millisecond

// AwaitDelivery waits until what the run's writes met has been told of, which another goroutine may be about to do: what a
// foreign change and an answer after it bring is one reason to run again, not one and then the other. This saves a
// run; nothing depends on it.
func (w *Writer) AwaitDelivery(ctx context.Context) {
	for _, s := range w.writtenStores() {
		if done := s.DeliveredTo(w.Run.Controller); done != nil {
			ctx, cancel := context.WithTimeout(ctx, deliveryTime)
			cache.Await(ctx, done)
			cancel()
		}
	}
}

// Closing is what to call once the causes that arrived during the run are decided: nothing, if nothing is proven.
func (w *Writer) Closing() func() {
	if len(w.pages()) == 0 {
		return nil
	}
	return w.Close
}

// pages take the proven writes, one for each cluster where there are any.
func (w *Writer) pages() (pages []*trc.Page) {
	w.mu.Lock()
	far := w.far
	if w.page != nil {
		pages = append(pages, w.page)
	}
	w.mu.Unlock()
	for _, other := range far {
		pages = append(pages, other.pages()...)
	}
	return pages
}

// Close forgets what the server has proven, once what is on its way to the scheduler has arrived: until
// then it explains it.
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

// underway says what is under way, for people.
type underway struct {
	verb string
	of   *client.Client // nil if it is not known
	key  trc.Key
	by   trc.Writer // nobody in particular if it is empty
}

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
