package source

import (
	"context"
	"errors"
	"fmt"
	"math"
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

// startAgain is how long after a failure a source of the author's is started again.
var startAgain = wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.1, Steps: 10, Cap: time.Minute}

// How long a source of the author's may take to begin and to end before the others go on without it.
const (
	startLimit = 10 * time.Second
	stopLimit  = 15 * time.Second
)

// Supervised is a source that the author brought. Whatever it does, be it a panic, an error or nothing at all, is a failure of
// this source: it is logged and shown by [framework.Operator.Ready], and the others go on.
//
// One goroutine calls Start, until that succeeds, and stop.
type Supervised struct {
	Source  eventsource.Source
	Watcher eventsource.PrimaryWatcher // nil if the source is none
	Name    string                     // as it was at registration
	logger  logr.Logger
	Synced  chan struct{} // closed once the source has started and is synced
	begun   chan struct{} // closed once the first Start has returned, or taken too long
	once    sync.Once     // guards closing begun
	Ended   chan struct{} // closed once it has stopped

	Primaries atomic.Pointer[trc.Subscription] // of one that was added and is told of them

	// Those of its methods that are called again and again.
	changed, asksErr, AsksHealth *author.Callback

	mu          sync.Mutex // guards below; a leaf
	starting    int        // which attempt is under way; 0 if none is
	failure     error      // why it has not started
	undelivered map[trc.Key]error
	isBehind    bool                  // PrimaryChanged hangs, and is told of what was missed when it returns
	missed      map[trc.Key]oldAndNew // while it is behind
}

// oldAndNew is a change of a primary.
type oldAndNew struct{ old, new trc.Object }

// AskTime is how long a source may take to say how it does: probes wait for that.
const AskTime = 500 * time.Millisecond

// Supervise asks a source for its name, which may be refused.
func Supervise(source eventsource.Source, of string, logger logr.Logger, calls, probes *author.Callbacks) (g *Supervised, err error) {
	g = &Supervised{
		Source: source, Synced: make(chan struct{}), begun: make(chan struct{}), Ended: make(chan struct{}), undelivered: map[trc.Key]error{},
	}
	if g.Name, err = NameOf(source); err != nil {
		return nil, err
	}
	if err := CheckAbilities(source, sourceAbilities()); err != nil {
		return nil, err
	}
	g.Watcher, _ = source.(eventsource.PrimaryWatcher)
	g.logger = logger.WithValues("controller", of, "source", g.Name)
	whose := fmt.Sprintf(" of source %q of controller %q", g.Name, of)
	g.changed = calls.New("PrimaryChanged" + whose)
	g.asksErr, g.AsksHealth = probes.New("Err"+whose), probes.New("Health"+whose)
	return g, nil
}

// NameOf asks a source for its name.
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

// guarded calls a method of a source, for as long as that takes, and turns a panic, or the end of its goroutine, into an
// error.
func guarded(method string, call func()) error {
	if failure := author.Apart(math.MaxInt64, call); failure != nil {
		return fmt.Errorf("%s: %w", method, safely.Error(failure))
	}
	return nil
}

// Err is what is wrong with the source, be it what it says itself.
func (g *Supervised) Err() error {
	g.mu.Lock()
	failure, untold := g.failure, len(g.undelivered)
	for key, err := range g.undelivered {
		if failure == nil {
			failure = fmt.Errorf("it could not be told of %d primaries, one of them %s: %w", untold, key, err)
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

// PrimaryChanged passes on a change of a primary, if the source is to be told. One that it panics about counts as untold until the
// next change of it. While it hangs, what it is to be told of waits.
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

func (g *Supervised) delivered(failure *author.Failure, old, new trc.Object) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if failure != nil && new != nil {
		g.undelivered[trc.KeyOf(new)] = fmt.Errorf("PrimaryChanged: %w", safely.Error(failure))
	} else {
		delete(g.undelivered, keyOfEither(old, new)) // nothing is kept of what is gone
	}
}

func keyOfEither(old, new trc.Object) trc.Key {
	if new != nil {
		return trc.KeyOf(new)
	}
	return trc.KeyOf(old)
}

// Later has f called in the order of what an added source is told of; not at all if that is nothing.
func (g *Supervised) Later(f func()) (deliver func()) {
	if subscription := g.Primaries.Load(); subscription != nil {
		return subscription.Later(f)
	}
	return func() {}
}

// postpones keeps a change while the source is behind: of each primary the first old state and the last new one.
func (g *Supervised) postpones(old, new trc.Object) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isBehind {
		g.postponeLocked(old, new)
	}
	return g.isBehind
}

func (g *Supervised) postponeLocked(old, new trc.Object) {
	key := keyOfEither(old, new)
	if before, known := g.missed[key]; known {
		old = before.old
	}
	if old == nil && new == nil {
		delete(g.missed, key) // it came and went
		return
	}
	g.missed[key] = oldAndNew{old, new}
}

// fallsBehind has the source told of what it misses once PrimaryChanged returns. A call that was not made is missed,
// too.
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

// catchUp tells the source of what it has missed, until there is nothing left, or it hangs again.
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

// Start starts the source, again and again if need be. It returns once the source has begun or failed to, or has taken too
// long, or ctx has ended: then the source goes on by itself. stop waits for the end of the source, but not for ever.
func (g *Supervised) Start(ctx context.Context, sink eventsource.Sink) (stop func()) {
	living, cancel := context.WithCancel(context.Background())
	go func() {
		defer close(g.Ended)
		g.live(living, sink)
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
			g.logger.Info("the source does not end, and is left behind", "after", stopLimit.String())
		}
	}
}

// live is the life of the source, until ctx ends.
func (g *Supervised) live(ctx context.Context, sink eventsource.Sink) {
	defer g.hasBegun()
	again := startAgain
	for attempt := 1; ctx.Err() == nil; attempt++ {
		door := &closableSink{name: g.Name, sink: sink}
		stop, synced, err := g.begin(attempt, door)
		if err == nil {
			g.stay(ctx, synced)
			<-ctx.Done()
			door.closed.Store(true)
			if err := guarded("stop", stop); err != nil {
				g.logger.Error(err, "source panicked", "stack", stackOf(err))
			}
			return
		}
		door.closed.Store(true)
		g.fails(fmt.Errorf("start, attempt %d: %w", attempt, err))
		g.hasBegun()
		select {
		case <-time.After(again.Step()):
		case <-ctx.Done():
		}
	}
}

// begin starts the source once, and asks it what says that it is synced: nil if that failed, which has been noted.
func (g *Supervised) begin(attempt int, door *closableSink) (stop func(), synced <-chan struct{}, err error) {
	g.attempts(attempt)
	defer g.attempts(0)
	late := time.AfterFunc(startLimit, func() { g.isLate(attempt) })
	defer late.Stop()
	if panicked := guarded("Start", func() { stop, err = g.Source.Start(door) }); panicked != nil {
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

func (g *Supervised) askSynced() (synced <-chan struct{}) {
	err := guarded("Synced", func() { synced = g.Source.Synced() })
	if err == nil && synced == nil {
		err = errors.New("its channel of being synced is nil")
	}
	g.fails(err)
	return synced
}

// stay waits until the source, which has started, is synced.
func (g *Supervised) stay(ctx context.Context, synced <-chan struct{}) {
	if synced == nil {
		g.hasBegun()
		return
	}
	select {
	case <-synced: // at once, if it is
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

func (g *Supervised) attempts(attempt int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.starting = attempt
}

// isLate says that an attempt to start takes too long, if it still is under way.
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

func (g *Supervised) hasBegun() { g.once.Do(func() { close(g.begun) }) }

// fails notes why the source is not started, or that it is.
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

func stackOf(err error) string {
	var p *scheduler.PanicError
	if errors.As(err, &p) {
		return string(p.Stack)
	}
	return ""
}

// closableSink is where a source offers until it is stopped, or its start has failed.
type closableSink struct {
	name   string // of the source
	sink   eventsource.Sink
	closed atomic.Bool
}

// Offer passes an offer on. One without a cause gets one.
func (d *closableSink) Offer(primary trc.Key, offer eventsource.Offer) {
	if d.closed.Load() {
		return
	}
	if object.IsNil(offer.Cause) {
		offer.Cause = timeline.External{Source: d.name}
	}
	d.sink.Offer(primary, offer)
}
