package source

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/framework/internal/safely"
	"github.com/evenkeel/evenkeel/internal/author"
	"github.com/evenkeel/evenkeel/scheduler"
	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// startAgain spaces the attempts to start a source of the author's.
var startAgain = wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.1, Steps: 10, Cap: time.Minute}

// How long a source of the author's may take to start and to stop before the framework goes on
// without it.
const (
	startLimit = 10 * time.Second
	stopLimit  = 15 * time.Second
)

// Supervised is a source of the author's. A panic, an error or a call that hangs is a failure of
// this source only: it is logged and shown by Operator.Ready, and the other sources go on.
//
// One goroutine calls Start, until that succeeds, and stop.
type Supervised struct {
	Source  eventsource.Source         // the author's
	Watcher eventsource.PrimaryWatcher // nil if the source is none
	Name    string                     // as it was at registration
	logger  logr.Logger
	Synced  chan struct{} // closed when the source has started and is synced
	begun   chan struct{} // closed when the first Start has returned, or taken too long
	once    sync.Once     // guards closing begun
	Ended   chan struct{} // closed when it has stopped

	Primaries atomic.Pointer[trc.Subscription] // of a dynamic source that watches primaries

	// The source's methods that are called repeatedly.
	changed, asksErr, AsksHealth *author.Callback

	mu          sync.Mutex            // guards the fields below; a leaf
	starting    int                   // the number of the attempt in progress; 0 if there is none
	failure     error                 // why it has not started
	undelivered map[trc.Key]error     // primaries whose last change it has not processed
	isBehind    bool                  // PrimaryChanged hangs; catchUp runs when it returns
	missed      map[trc.Key]oldAndNew // the changes since isBehind was set
}

// oldAndNew is a change of a primary.
type oldAndNew struct{ old, new trc.Object }

// AskTime is how long a call of a source's Err or Health may take: probes wait for it.
const AskTime = 500 * time.Millisecond

// Supervise returns a supervised source. It returns an error if the source has no name.
func Supervise(source eventsource.Source, of string, logger logr.Logger, calls, probes *author.Callbacks) (g *Supervised, err error) {
	g = &Supervised{
		Source: source, Synced: make(chan struct{}), begun: make(chan struct{}), Ended: make(chan struct{}), undelivered: map[trc.Key]error{},
	}
	if g.Name, err = NameOf(source); err != nil {
		return nil, err
	}
	g.Watcher, _ = source.(eventsource.PrimaryWatcher)
	g.logger = logger.WithValues("controller", of, "source", g.Name)
	whose := fmt.Sprintf(" of source %q of controller %q", g.Name, of)
	g.changed = calls.New("PrimaryChanged" + whose)
	g.asksErr, g.AsksHealth = probes.New("Err"+whose), probes.New("Health"+whose)
	return g, nil
}

// NameOf returns the name of a source.
func NameOf(source eventsource.Source) (string, error) {
	var name string
	err := safely.AskOnce("Name", func() error {
		if name = source.Name(); name == "" {
			return errors.New("its name is empty")
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	return name, nil
}

// guarded calls a method of a source, for as long as that takes. It returns an error if the method
// panics or ends its goroutine.
func guarded(method string, call func()) error {
	if err := safely.Apart(call); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	return nil
}

// Err returns what is wrong with the source, including the source's own Err.
func (g *Supervised) Err() error {
	g.mu.Lock()
	failure, undelivered := g.failure, len(g.undelivered)
	for key, err := range g.undelivered {
		if failure == nil {
			failure = fmt.Errorf("PrimaryChanged failed for %d primaries, one of them %s: %w", undelivered, key, err)
		}
	}
	g.mu.Unlock()
	if failure != nil {
		return failure
	}
	var says error
	if failure := g.asksErr.DoWithin(AskTime, safely.About(), func() { says = g.Source.Err() }); failure != nil {
		return fmt.Errorf("Err: %w", safely.Error(failure))
	}
	return author.Sound(says)
}

// PrimaryChanged passes on a change of a primary, if the source watches primaries. If it panics,
// the primary counts as undelivered until its next change. While it hangs, changes wait.
func (g *Supervised) PrimaryChanged(old, new trc.Object) {
	if g.Watcher == nil || g.postpones(old, new) {
		return
	}
	failure := g.changed.Do(safely.About(new, old), func() { g.Watcher.PrimaryChanged(old, new) })
	if failure != nil && failure.Kind == author.Hangs {
		g.fallsBehind(failure, old, new)
		return
	}
	g.delivered(failure, old, new)
}

// delivered records the result of PrimaryChanged.
func (g *Supervised) delivered(failure *author.Failure, old, new trc.Object) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if failure != nil && new != nil {
		g.undelivered[trc.KeyOf(new)] = fmt.Errorf("PrimaryChanged: %w", safely.Error(failure))
	} else {
		delete(g.undelivered, keyOfEither(old, new)) // no state is kept for a deleted primary
	}
}

// keyOfEither returns the key of the primary that has changed.
func keyOfEither(old, new trc.Object) trc.Key {
	if new != nil {
		return trc.KeyOf(new)
	}
	return trc.KeyOf(old)
}

// Later calls f in the order of the changes that a dynamic source gets. It does not call f if the
// source does not watch primaries. The caller must call deliver.
func (g *Supervised) Later(f func()) (deliver func()) {
	if subscription := g.Primaries.Load(); subscription != nil {
		return subscription.Later(f)
	}
	return func() {}
}

// postpones records a change while the source is behind. It keeps the first old state and the last
// new state of each primary.
func (g *Supervised) postpones(old, new trc.Object) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isBehind {
		g.postponeLocked(old, new)
	}
	return g.isBehind
}

// postponeLocked records a change for catchUp.
func (g *Supervised) postponeLocked(old, new trc.Object) {
	key := keyOfEither(old, new)
	if before, known := g.missed[key]; known {
		old = before.old
	}
	if old == nil && new == nil {
		delete(g.missed, key) // it was created and deleted
		return
	}
	g.missed[key] = oldAndNew{old, new}
}

// fallsBehind starts to postpone changes, until PrimaryChanged returns and catchUp has delivered
// them. why.Skipped says that this change was not delivered, so it is postponed, too.
func (g *Supervised) fallsBehind(why *author.Failure, old, new trc.Object) {
	g.mu.Lock()
	first := !g.isBehind
	if first {
		g.isBehind, g.missed = true, map[trc.Key]oldAndNew{}
	}
	if why.Skipped {
		g.postponeLocked(old, new)
	}
	g.mu.Unlock()
	if first && !g.changed.WhenBack(g.catchUp) {
		go g.catchUp()
	}
}

// catchUp delivers the postponed changes until none is left, or PrimaryChanged hangs again.
func (g *Supervised) catchUp() {
	for {
		g.mu.Lock()
		key, next, any := trc.Key{}, oldAndNew{}, false
		for key, next = range g.missed {
			any = true
			break
		}
		if !any {
			g.isBehind, g.missed = false, nil
			g.mu.Unlock()
			return
		}
		delete(g.missed, key)
		g.mu.Unlock()
		failure := g.changed.Do(safely.About(next.new, next.old), func() { g.Watcher.PrimaryChanged(next.old, next.new) })
		if failure != nil && failure.Kind == author.Hangs {
			if g.changed.WhenBack(g.catchUp) {
				return
			}
			continue
		}
		g.delivered(failure, next.old, next.new)
	}
}

// Start starts the source, repeatedly if it fails. It returns when the source has started, failed
// or taken too long, or when ctx has ended; the attempts go on without it. stop waits for the end
// of the source, but not longer than stopLimit. If ctx has ended already, it starts nothing.
func (g *Supervised) Start(ctx context.Context, sink eventsource.Sink) (stop func()) {
	living, cancel := context.WithCancel(context.Background())
	go func() {
		defer close(g.Ended)
		if ctx.Err() == nil {
			g.live(living, sink)
		}
	}()
	select {
	case <-g.begun:
	case <-ctx.Done():
	}
	return func() {
		cancel()
		select {
		case <-g.Ended:
		case <-time.After(stopLimit):
			g.logger.Info("the source does not stop; the operator no longer waits for it", "after", stopLimit.String())
		}
	}
}

// live starts the source, and stops it when ctx ends.
func (g *Supervised) live(ctx context.Context, sink eventsource.Sink) {
	defer g.hasBegun()
	again := startAgain
	for attempt := 1; ctx.Err() == nil; attempt++ {
		closable := &closableSink{name: g.Name, sink: sink}
		stop, synced, err := g.begin(attempt, closable)
		if err == nil {
			g.stay(ctx, synced)
			<-ctx.Done()
			closable.closed.Store(true)
			if err := guarded("stop", stop); err != nil {
				g.logger.Error(err, "source panicked", "stack", stackOf(err))
			}
			return
		}
		closable.closed.Store(true)
		g.fails(fmt.Errorf("start, attempt %d: %w", attempt, err))
		g.hasBegun()
		select {
		case <-time.After(again.Step()):
		case <-ctx.Done():
		}
	}
}

// begin starts the source once, and returns its channel Synced. The channel is nil if the source
// failed to return one, which is recorded.
func (g *Supervised) begin(attempt int, sink *closableSink) (stop func(), synced <-chan struct{}, err error) {
	g.attempts(attempt)
	defer g.attempts(0)
	late := time.AfterFunc(startLimit, func() { g.isLate(attempt) })
	defer late.Stop()
	if panicked := guarded("Start", func() { stop, err = g.Source.Start(sink) }); panicked != nil {
		err = panicked
	}
	if stop == nil {
		stop = func() {}
	}
	if err == nil {
		synced = g.askSynced()
	}
	return stop, synced, author.Sound(err)
}

// askSynced returns the source's channel Synced, nil after a failure.
func (g *Supervised) askSynced() (synced <-chan struct{}) {
	err := guarded("Synced", func() { synced = g.Source.Synced() })
	if err == nil && synced == nil {
		err = errors.New("its channel of being synced is nil")
	}
	g.fails(err)
	return synced
}

// stay waits until the started source is synced.
func (g *Supervised) stay(ctx context.Context, synced <-chan struct{}) {
	if synced == nil {
		g.hasBegun()
		return
	}
	select {
	case <-synced: // before begun is closed, if it is synced already
		close(g.Synced)
		g.hasBegun()
		return
	default:
	}
	g.hasBegun()
	select {
	case <-synced:
		close(g.Synced)
	case <-ctx.Done():
	}
}

// attempts sets the number of the attempt in progress.
func (g *Supervised) attempts(attempt int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.starting = attempt
}

// isLate reports an attempt to start that takes too long, if it is still in progress.
func (g *Supervised) isLate(attempt int) {
	g.mu.Lock()
	if g.starting != attempt {
		g.mu.Unlock()
		return
	}
	g.failure = fmt.Errorf("start, attempt %d: it has not returned after %v", attempt, startLimit)
	g.mu.Unlock()
	g.logger.Info("source takes long to start", "attempt", attempt)
	g.hasBegun()
}

// hasBegun closes begun.
func (g *Supervised) hasBegun() { g.once.Do(func() { close(g.begun) }) }

// fails records why the source has not started, or, with nil, that it has.
func (g *Supervised) fails(err error) {
	g.mu.Lock()
	before := g.failure
	g.failure = err
	g.mu.Unlock()
	switch {
	case err != nil:
		g.logger.Error(err, "source fails", "stack", stackOf(err))
	case before != nil:
		g.logger.Info("source has started")
	}
}

// stackOf returns the stack of a panic.
func stackOf(err error) string {
	var p *scheduler.PanicError
	if errors.As(err, &p) {
		return string(p.Stack)
	}
	return ""
}

// closableSink is the sink of a source until the source is stopped, or its start has failed.
type closableSink struct {
	name   string // of the source
	sink   eventsource.Sink
	closed atomic.Bool
}

// Offer passes an offer on. It adds a cause if there is none.
func (d *closableSink) Offer(primary trc.Key, offer eventsource.Offer) {
	if d.closed.Load() {
		return
	}
	if object.IsNil(offer.Cause) {
		offer.Cause = timeline.External{Source: d.name}
	}
	d.sink.Offer(primary, offer)
}
