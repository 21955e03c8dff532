package write

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/evenkeel/evenkeel/framework/internal/cache"
	"github.com/evenkeel/evenkeel/framework/internal/contest"
	"github.com/evenkeel/evenkeel/framework/internal/lease"
	"github.com/evenkeel/evenkeel/internal/author"
	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// Run is what one run writes, in all clusters: its writers, and what they have in common. It is
// safe for concurrent use after Begin.
type Run struct {
	// Local is the run's writer to the cluster of the primary.
	Local Writer
	// By identifies the run; empty outside of one.
	By trc.Writer
	// Term is the term of leadership in which the run began; nil if there is no election.
	Term *lease.Term
	// Primary is the primary of the run.
	Primary Primary
	// Chain finds the run's place in a chain of runs.
	Chain contest.Chain
	// Record is what is kept of the run's requests and reads.
	Record Record

	inflight   lease.Inflight // the in-flight requests of the run
	unresolved requests       // the writes of unknown outcome
	made       requests       // creates of earlier runs whose objects this run cannot find

	mu      sync.Mutex // guards remotes; a leaf
	remotes []*Writer  // the run's writers to other clusters
}

// Begin sets up a run: its identity, its term of leadership, and whether its requests are recorded.
func (r *Run) Begin(m *Config, by trc.Writer, term *lease.Term, recording bool, calls *author.Callbacks) {
	r.By, r.Term, r.Record.On, r.inflight.Calls = by, term, recording, calls
	r.Primary.config = m
	r.Local.Config, r.Local.Run, r.Local.primary = m, r, &r.Primary
}

// isRun reports whether this is a run. It returns false for what is written outside of runs.
func (r *Run) isRun() bool { return r.By != (trc.Writer{}) }

// At returns the run's writer to a cluster.
func (r *Run) At(c *Port) *Writer {
	if c == r.Local.Port {
		return &r.Local
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, remote := range r.remotes {
		if remote.Port == c {
			return remote
		}
	}
	// In another cluster, no kind is the kind of the primaries.
	remote := &Writer{Config: &Config{Port: c, FieldManager: r.Local.FieldManager, Mode: r.Local.Mode}, Run: r}
	r.remotes = append(r.remotes, remote)
	return remote
}

// others returns the run's writers to other clusters.
func (r *Run) others() []*Writer {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.remotes
}

// enterTerm registers a request in the term that the run began in. Outside of runs it uses the
// current term.
func (r *Run) enterTerm(ctx context.Context, fence *lease.Fence, what fmt.Stringer) (_ context.Context, done func(), ok bool) {
	if !fence.Required {
		return ctx, func() {}, true
	}
	t := r.Term
	if !r.isRun() {
		t = fence.Current()
	}
	if t == nil {
		return nil, nil, false
	}
	return t.Inflight.Enter(ctx, what)
}

// LostLease reports whether the term in which the run began has ended.
func (r *Run) LostLease() bool { return r.lostLease(r.Local.Port.Fence) }

// lostLease is LostLease by the fence of one cluster. All clusters have the same one.
func (r *Run) lostLease(fence *lease.Fence) bool {
	return fence.Required && (r.Term == nil || !r.Term.Lasts())
}

// End closes the writers and returns the requests that they sent. None of them is in flight then,
// except those that ignore the end of their context.
func (r *Run) End() []timeline.Request {
	r.inflight.Close()
	return r.Record.list(len(r.inflight.Left()) > 0)
}

// writtenStores returns the caches that answers were added to, in all clusters.
func (r *Run) writtenStores() []*cache.Store {
	stores := r.Local.answers.appendStores(nil, r.Local.Port)
	for _, other := range r.others() {
		stores = other.answers.appendStores(stores, other.Port)
	}
	return stores
}

// deliveryTime is how long the end of a run waits for the delivery of changes, if filters or
// mappers are slow.
const deliveryTime = 100 * time.Millisecond

// AwaitDelivery waits until the changes that the run's writes met are delivered, which another
// goroutine may be about to do. A foreign change and an answer after it are then one reason to run
// again, not two. This saves a run; nothing depends on it.
func (r *Run) AwaitDelivery(ctx context.Context) {
	for _, s := range r.writtenStores() {
		if done := s.DeliveredTo(r.By.Controller); done != nil {
			ctx, cancel := context.WithTimeout(ctx, deliveryTime)
			cache.Await(ctx, done)
			cancel()
		}
	}
}

// Closing returns the function to call after the causes that arrived during the run are decided. It
// is nil if nothing is proven.
func (r *Run) Closing() func() {
	if len(r.pages()) == 0 {
		return nil
	}
	return r.Close
}

// pages returns the pages of proven writes, one for each cluster that has any.
func (r *Run) pages() []*trc.Page {
	pages := r.Local.answers.appendPage(nil)
	for _, other := range r.others() {
		pages = other.answers.appendPage(pages)
	}
	return pages
}

// Close drops the proofs after the events in delivery have reached the scheduler: until then the
// proofs explain them.
func (r *Run) Close() {
	pages := r.pages()
	if len(pages) == 0 {
		return
	}
	stores := r.writtenStores()
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
		s.AfterTo(r.By.Controller, done)
	}
	done()
}

// requests is a list of requests. The zero value is an empty one.
type requests struct {
	mu  sync.Mutex // guards all; a leaf
	all []Request
}

// add appends requests.
func (l *requests) add(more ...Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, more...)
}

// takeAll takes all requests out.
func (l *requests) takeAll() []Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.all
	l.all = nil
	return all
}

// takeLike takes out the first create of the same content, with whatever generated name.
func (l *requests) takeLike(q *Request) (former Request, any bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := slices.IndexFunc(l.all, func(former Request) bool { return former.isLike(q) })
	if at < 0 {
		return Request{}, false
	}
	former = l.all[at]
	l.all = slices.Delete(l.all, at, at+1)
	return former, true
}
