package scheduler

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/evenkeel/evenkeel/retry"
	"github.com/evenkeel/evenkeel/timeline"
)

// Lane orders keys that are due: live keys overtake bulk ones, which still get their turn.
type Lane uint8

const (
	// LiveLane is for changes that just happened.
	LiveLane Lane = iota
	// BulkLane is for the initial list and resyncs.
	BulkLane
	laneCount
)

// Event makes a key due.
type Event struct {
	// Cause is why, for the record and for [Options.Decide].
	Cause timeline.Cause
	// Lane defaults to LiveLane.
	Lane Lane
	// Renews is set by a new generation or a deletion of the resource itself: the key runs at once,
	// whatever its back-off, and its attempts are reset.
	Renews bool
}

// Run describes a run to the run function.
type Run struct {
	// Causes are why it runs, in the order of their arrival.
	Causes []timeline.Cause
	// Waited is the time since the first of them arrived.
	Waited time.Duration
	// Gate is what held the key back last.
	Gate timeline.Gate
	// Attempt is the number of retries granted since the last success, 0 for none.
	Attempt int
	// LastAttempt is true if the policy grants no retry should this run fail, and none is due already. A policy whose
	// retries end with the time tells that only when they have ended: see [Scheduler.Retries].
	LastAttempt bool
	// BackOffLeft is the time from the start of the run to the retry that it came before, which an event did; 0
	// if none is waited for.
	BackOffLeft time.Duration
}

// Result is what a run leaves.
type Result struct {
	// Err is the failure, nil for success. [retry.Policy.Judge] says what follows it: a retry by the policy;
	// a run soon (at once the first time, after up to 1 s when that goes on, in any case not before the
	// verdict's time), which is no attempt; or none, until an event or the max interval brings a run. A time
	// before which no run is to be holds back everything but a renewal, which passes once; several in a row
	// are spaced by pauses of 100 ms to 10 s.
	Err error
	// RescheduleAfter asks for a run at the latest after that time; 0 asks for none. Less than 10 ms is at once.
	RescheduleAfter time.Duration
	// RescheduleNow asks for a further run at once. Of several such runs in a row, with nothing else between them,
	// the first four are at once; before further ones there are pauses of 10 ms, doubling up to 1 s.
	RescheduleNow bool
	// Rest, after a success, is how long other events wait, as after a run that has itself made its key due: they
	// are merged into one run at its end. A run at once waits for it too; renewals, requested times and the max
	// interval do not. It brings no run.
	Rest time.Duration
	// Superseded says that the run came to nothing because the world had changed meanwhile: a further
	// one follows, at once the first time and after up to 1 s when that goes on, which no event shortens but
	// one that renews. As it was neither success
	// nor failure, attempts and back-off stay as they are.
	Superseded bool
	// Gone says that the resource no longer exists: the key's state is dropped.
	Gone bool
	// Decided, if set, is called once the causes that arrived during the run have been decided, and what follows it.
	Decided func()
	// Requests are the write requests of the run, for the record.
	Requests []timeline.Request
	// Nodes, ReadsAhead, Excused and ID are for the record as well.
	Nodes      []timeline.Node
	ReadsAhead int
	Excused    bool
	ID         string
}

// Func is the function that is run for a due key. It is never called twice at a time for one key.
// A panic counts as a failure of that key alone.
type Func[K comparable] func(ctx context.Context, key K, run Run) Result

// Defaults of a zero [Options].
const (
	DefaultMaxInterval = 10 * time.Hour
	DefaultGrace       = 10 * time.Second
	// cancelGrace bounds how long Run waits for runs whose context it has cancelled.
	cancelGrace = 10 * time.Second
)

// NoMaxInterval, given as [Options.MaxInterval], turns the fail-safe runs off.
const NoMaxInterval = -1

// Options configure a [Scheduler]; the zero value is the documented default.
type Options[K comparable] struct {
	// Concurrency bounds the runs at a time. Default max(8, 2×GOMAXPROCS). Too low makes slow runs
	// delay others; too high presses on the API server.
	Concurrency int
	// Retry spaces failures. Default: the zero Policy.
	Retry retry.Policy
	// MaxInterval is the longest a key goes without a run, shortened by up to 10 % at random.
	// Default 10 h; NoMaxInterval for none.
	MaxInterval time.Duration
	// RateLimit bounds the runs of each key by itself. Default: no bound.
	RateLimit RateLimit
	// Grace is how long running functions may go on after the context of Run ended, before theirs is
	// cancelled. Default 10 s; negative for none.
	Grace time.Duration
	// Decide, if set, reports whether a cause needs a run. It is asked when the cause arrives, and again
	// at the end of the run if the key was running then, as that run may explain it; in between, too, where
	// there are many. What it once called needless must stay so. It must be pure. If it panics, the cause needs
	// a run; see [Scheduler.Flaw].
	Decide func(key K, cause timeline.Cause) bool
	// Record, if set, is told of every run after it ended and before the key has another one. If it panics, the
	// record is lost; see [Scheduler.Flaw].
	Record func(key K, record timeline.Record)
	// RecordFailures says that Record is told of runs that failed, and of no others.
	RecordFailures bool
}

// RateLimit allows each key a number of runs per period. The zero value is no limit.
//
// A period begins with the first run of the key after the last one. In it, a key that has had its runs waits
// until its end, whatever makes it due: a retry, a timer and an event that renews it, too (which ends the back-off
// all the same), as the limit protects what the runs use. What waits runs once then. A resource that goes
// takes its period with it.
type RateLimit struct {
	// Runs is how many begin in a period.
	Runs int
	// Period is its length.
	Period time.Duration
}

func (l RateLimit) validate() error {
	if l == (RateLimit{}) || (l.Runs > 0 && l.Period > 0) {
		return nil
	}
	return fmt.Errorf("scheduler: RateLimit %d runs per %v: both must be positive, or both 0 for no limit", l.Runs, l.Period)
}

// Scheduler runs a function for keys that are due. Create it with [New].
type Scheduler[K comparable] struct {
	run     Func[K]
	options Options[K]

	zero time.Time // what instants count from

	mu      sync.Mutex // guards everything below; a leaf
	work    sync.Cond  // signalled when a key may be due or the scheduler stops
	resting int        // the workers that wait for work
	waking  bool       // one of them has been signalled and has not come yet
	core    *machine[K]
	timer   *time.Timer
	armed   instant // what the timer is set to, zero if it is not
	started bool
	stopped bool
	begun   uint64                  // the number of runs that have begun
	ended   uint64                  // the number of runs that have ended
	active  map[*keyState[K]]uint64 // the runs in flight: which of those begun
	term    *term                   // from the start until a pause, and from each resumption
	waiting []*pause                // calls of Pause that wait for runs to end
	runs    context.Context         // ends all runs; from the start of Run
	flaw    error                   // the first failure of a function of the options
}

// New returns a scheduler for run, or an error naming every option that makes no sense. It accepts
// events at once and runs nothing before [Scheduler.Run].
func New[K comparable](run Func[K], options Options[K]) (*Scheduler[K], error) {
	var errs []error
	if run == nil {
		errs = append(errs, errors.New("scheduler: no run function"))
	}
	if options.Concurrency < 0 {
		errs = append(errs, fmt.Errorf("scheduler: Concurrency %d: must not be negative", options.Concurrency))
	}
	if options.MaxInterval < NoMaxInterval {
		errs = append(errs, fmt.Errorf("scheduler: MaxInterval %v: must be positive, 0 for the default, or NoMaxInterval", options.MaxInterval))
	}
	errs = append(errs, options.RateLimit.validate(), options.Retry.Validate())
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	options.setDefaults()
	s := &Scheduler[K]{
		run: run, options: options, zero: time.Now().Add(-1), core: newMachine(options), active: map[*keyState[K]]uint64{},
	}
	s.work.L = &s.mu
	return s, nil
}

func (o *Options[K]) setDefaults() {
	if o.Concurrency == 0 {
		o.Concurrency = max(8, 2*runtime.GOMAXPROCS(0))
	}
	if o.MaxInterval == 0 {
		o.MaxInterval = DefaultMaxInterval
	}
	if o.Grace == 0 {
		o.Grace = DefaultGrace
	}
}

func (s *Scheduler[K]) now() instant { return instant(time.Since(s.zero)) }

// Offer makes key due because of e. Events offered before [Scheduler.Run] run after its start;
// events offered after its end are dropped.
func (s *Scheduler[K]) Offer(key K, e Event) {
	if !s.decideAndLock(key, e.Cause) {
		return
	}
	defer s.mu.Unlock()
	if s.stopped {
		return
	}
	if running := s.core.offer(s.now(), key, e); running != nil {
		s.reviewLocked(running)
	}
	s.armLocked()
	s.callLocked()
}

// reviewLocked asks again about the causes of a running key, so that those which its run has explained
// since they arrived are not among those that are counted only. It lets go of the lock to ask.
func (s *Scheduler[K]) reviewLocked(state *keyState[K]) {
	asked, needless := state.pending.causes, bits{}
	func() {
		s.mu.Unlock()
		defer s.mu.Lock() // whatever Decide does
		for i, cause := range asked {
			if !s.needs(state.key, cause) {
				needless.set(i)
			}
		}
	}()
	s.core.reviewed(state, asked, needless)
}

// decideAndLock asks whether a cause needs a run, and returns with the lock if it does. A run that ended
// between the answer and the lock may have explained the cause: it is asked anew then.
func (s *Scheduler[K]) decideAndLock(key K, cause timeline.Cause) bool {
	s.mu.Lock()
	for s.options.Decide != nil {
		ended := s.ended
		s.mu.Unlock()
		if !s.needs(key, cause) {
			return false
		}
		s.mu.Lock()
		if s.ended == ended {
			break
		}
	}
	return true
}

// Forget drops what is known of a key whose resource is gone. A run in flight ends undisturbed;
// nothing of its retries and timers survives. Events offered afterwards start afresh.
func (s *Scheduler[K]) Forget(key K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.core.forget(key)
	s.armLocked()
}

// Imminent reports whether a further run of key is already certain to follow the present one, because of what
// has happened since that began. Causes that [Options.Decide] calls needless bring none.
func (s *Scheduler[K]) Imminent(key K) bool {
	s.mu.Lock()
	state := s.core.keys[key]
	if state == nil || state.pending == nil {
		s.mu.Unlock()
		return false
	}
	causes, more := slices.Clone(state.pending.causes), state.pending.more > 0
	s.mu.Unlock()
	if more || s.options.Decide == nil {
		return true // those that were only counted cannot be asked about
	}
	// What was due when it arrived may have been explained since, as an echo by the answer that came after it.
	return slices.ContainsFunc(causes, func(c timeline.Cause) bool { return s.needs(key, c) })
}

// Retries reports whether a retry of key by the policy is to come. While [Result.Decided] is called, that is what
// follows the run.
func (s *Scheduler[K]) Retries(key K) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.core.keys[key]
	return state != nil && state.isSet(retrySlot)
}

// Len returns the number of keys that the scheduler keeps state for: queued, running, backing off
// or waiting for a timer.
func (s *Scheduler[K]) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.core.keys)
}
