package framework

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
	"github.com/evenkeel/evenkeel/scheduler"
	"github.com/evenkeel/evenkeel/trc"
)

// startAgain is how long after a failure a source of the author's is started again.
var startAgain = wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.1, Steps: 10, Cap: time.Minute}

// How long a source of the author's may take to begin and to end before the others go on without it.
const (
	startPatience = 10 * time.Second
	stopPatience  = 15 * time.Second
)

// guest is a source that the author brought. Whatever it does, be it a panic, an error or nothing at all, is a failure of
// this source: it is logged and shown by [Operator.Ready], and the others go on.
//
// One goroutine calls Start, until that succeeds, and stop.
type guest struct {
	source  eventsource.Source
	watcher eventsource.PrimaryWatcher // nil if the source is none
	name    string                     // as it was at registration
	logger  logr.Logger
	synced  chan struct{} // closed once the source has started and is synced
	begun   chan struct{} // closed once the first Start has returned, or taken too long
	once    sync.Once     // guards closing begun
	ended   chan struct{} // closed once it has stopped

	mu       sync.Mutex // guards below; a leaf
	starting int        // which attempt is under way; 0 if none is
	failure  error      // why it has not started
	untold   map[trc.Key]error
}

// newGuest asks a source for its name, which may be refused.
func newGuest(source eventsource.Source, logger logr.Logger) (g *guest, err error) {
	g = &guest{
		source: source, synced: make(chan struct{}), begun: make(chan struct{}), ended: make(chan struct{}), untold: map[trc.Key]error{},
	}
	if err := guarded("Name", func() { g.name = source.Name() }); err != nil {
		return nil, err
	}
	if g.name == "" {
		return nil, errors.New("its name is empty")
	}
	if err := checkAbilities(source, sourceAbilities()); err != nil {
		return nil, err
	}
	g.watcher, _ = source.(eventsource.PrimaryWatcher)
	g.logger = logger.WithValues("source", g.name)
	return g, nil
}

// guarded calls a method of a source, and turns a panic into an error.
func guarded(method string, call func()) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("%s: %w", method, scheduler.NewPanicError(value))
		}
	}()
	call()
	return nil
}

// err is what is wrong with the source, be it what it says itself.
func (g *guest) err() error {
	g.mu.Lock()
	failure, untold := g.failure, len(g.untold)
	for key, err := range g.untold {
		if failure == nil {
			failure = fmt.Errorf("it could not be told of %d primaries, one of them %s: %w", untold, key, err)
		}
	}
	g.mu.Unlock()
	if failure != nil {
		return failure
	}
	if panicked := guarded("Err", func() { failure = g.source.Err() }); panicked != nil {
		return panicked
	}
	return failure
}

// tell passes on a change of a primary, if the source is to be told. One that it panics about counts as untold until the
// next change of it.
func (g *guest) tell(old, new trc.Object) {
	if g.watcher == nil {
		return
	}
	about := new
	if about == nil {
		about = old
	}
	err := guarded("PrimaryChanged", func() { g.watcher.PrimaryChanged(old, new) })
	if err != nil {
		g.logger.Error(err, "source panicked", "objectNamespace", about.GetNamespace(), "objectName", about.GetName(), "stack", stackOf(err))
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil && new != nil {
		g.untold[trc.KeyOf(about)] = err
	} else {
		delete(g.untold, trc.KeyOf(about)) // nothing is kept of what is gone
	}
}

// start starts the source, again and again if need be. It returns once the source has begun or failed to, or has taken too
// long, or ctx has ended: then the source goes on by itself. stop waits for the end of the source, but not for ever.
func (g *guest) start(ctx context.Context, sink eventsource.Sink) (stop func()) {
	living, cancel := context.WithCancel(context.Background())
	go func() {
		defer close(g.ended)
		g.live(living, sink)
	}()
	select {
	case <-g.begun:
	case <-ctx.Done():
	}
	return func() {
		cancel()
		select {
		case <-g.ended:
		case <-time.After(stopPatience):
			g.logger.Info("the source does not end, and is left behind", "after", stopPatience.String())
		}
	}
}

// live is the life of the source, until ctx ends.
func (g *guest) live(ctx context.Context, sink eventsource.Sink) {
	defer g.hasBegun()
	again := startAgain
	for attempt := 1; ctx.Err() == nil; attempt++ {
		door := &door{sink: sink}
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
func (g *guest) begin(attempt int, door *door) (stop func(), synced <-chan struct{}, err error) {
	g.attempts(attempt)
	defer g.attempts(0)
	late := time.AfterFunc(startPatience, func() { g.isLate(attempt) })
	defer late.Stop()
	if panicked := guarded("Start", func() { stop, err = g.source.Start(door) }); panicked != nil {
		err = panicked
	}
	if stop == nil {
		stop = func() {}
	}
	if err == nil {
		synced = g.askSynced()
	}
	return stop, synced, err
}

func (g *guest) askSynced() (synced <-chan struct{}) {
	err := guarded("Synced", func() { synced = g.source.Synced() })
	if err == nil && synced == nil {
		err = errors.New("its channel of being synced is nil")
	}
	g.fails(err)
	return synced
}

// stay waits until the source, which has started, is synced.
func (g *guest) stay(ctx context.Context, synced <-chan struct{}) {
	if synced == nil {
		g.hasBegun()
		return
	}
	select {
	case <-synced: // at once, if it is
		close(g.synced)
		g.hasBegun()
		return
	default:
	}
	g.hasBegun()
	select {
	case <-synced:
		close(g.synced)
	case <-ctx.Done():
	}
}

func (g *guest) attempts(attempt int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.starting = attempt
}

// isLate says that an attempt to start takes too long, if it still is under way.
func (g *guest) isLate(attempt int) {
	g.mu.Lock()
	if g.starting != attempt {
		g.mu.Unlock()
		return
	}
	g.failure = fmt.Errorf("start, attempt %d: it has not returned after %v", attempt, startPatience)
	g.mu.Unlock()
	g.logger.Info("source takes long to start", "attempt", attempt)
	g.hasBegun()
}

func (g *guest) hasBegun() { g.once.Do(func() { close(g.begun) }) }

// fails notes why the source is not started, or that it is.
func (g *guest) fails(err error) {
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

// door is where a source offers until it is stopped, or its start has failed.
type door struct {
	sink   eventsource.Sink
	closed atomic.Bool
}

// Offer passes an offer on.
func (d *door) Offer(primary trc.Key, offer eventsource.Offer) {
	if !d.closed.Load() {
		d.sink.Offer(primary, offer)
	}
}
