package scheduler

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/evenkeel/evenkeel/retry"
	"github.com/evenkeel/evenkeel/timeline"
)

// Lane is the priority of due keys. Live keys overtake bulk keys, which still get their turn.
type Lane uint8

const (
	// LiveLane is for changes that have just happened.
	LiveLane Lane = iota
	// BulkLane is for the initial list and resyncs.
	BulkLane
	laneCount
)

// Event makes a key due.
type Event struct {
	// Cause says why, for the record and for [Options.Decide].
	Cause timeline.Cause
	// Lane is the lane to queue the key in. Default: LiveLane.
	Lane Lane
	// Renews is set for a new generation or a deletion of the resource itself. The key then runs at
	// once, whatever its back-off, and its attempts are reset.
	Renews bool
}

// Run describes a run to the run function.
type Run struct {
	// Causes are the reasons for the run, in the order of their arrival.
	Causes []timeline.Cause
	// Waited is the time since the first cause arrived.
	Waited time.Duration
	// Queued is the last part of Waited, in which the key was due and only other keys, or a pause,
	// held it back.
	Queued time.Duration
	// Gate is what last held the key back.
	Gate timeline.Gate
	// Attempt is the number of retries granted since the last success; 0 for a run that is no retry.
	Attempt int
	// LastAttempt is set if no retry follows a failure of this run: the policy grants none, and none
	// is already due. A policy that limits retries by time sets it only after that time: see
	// [Scheduler.Retries].
	LastAttempt bool
	// BackOffLeft is the time from the start of the run to the waiting retry, if an event started the
	// run before that; 0 if no retry is waiting.
	BackOffLeft time.Duration
}

// Result is the result of a run.
type Result struct {
	// Err is the failure, nil for success. [retry.Policy.Judge] decides what follows: a retry by the
	// policy; a run soon, which is no attempt; or no run until an event or the max interval starts
	// one. A run soon starts at once the first time and after up to 1 s if that continues, but never
	// before the verdict's time. The verdict's time holds back everything except a renewal, which
	// passes once; several renewals in a row are spaced by pauses of 100 ms to 10 s.
	Err error
	// RescheduleAfter requests a run after that time at the latest; 0 requests none. Less than 10 ms
	// counts as at once.
	RescheduleAfter time.Duration
	// RescheduleNow requests another run at once. If several such runs follow each other with no other
	// cause in between, the first four start at once; before further ones there are pauses of 10 ms,
	// doubling up to 1 s.
	RescheduleNow bool
	// Rest, after a success, is how long other events wait, as after a run that has itself made its
	// key due. They are merged into one run at its end. A run at once waits for it too; renewals,
	// requested times and the max interval do not. It does not start a run.
	Rest time.Duration
	// Superseded says that the run had no effect because the world changed meanwhile. Another run
	// follows: at once the first time, and after up to 1 s if that continues. Only an event that
	// renews shortens this pause. The run counts as neither success nor failure: attempts and back-off
	// stay as they are.
	Superseded bool
	// Gone says that the resource no longer exists. The key's state is dropped.
	Gone bool
	// Dropped drops the key's state as Gone does, though the resource exists.
	Dropped bool
	// Unrecorded says that the run has done nothing worth a record.
	Unrecorded bool
	// Decided, if set, is called once it is decided which causes that arrived during the run need
	// another one, and what follows the run.
	Decided func()
	// Requests are the write requests of the run, for the record.
	Requests []timeline.Request
	// Fights, Loop, Nodes, ReadsAhead, Excused and ID are for the record too.
	Fights     []timeline.Fight
	Loop       *timeline.Chain
	Nodes      []timeline.Node
	ReadsAhead int
	Excused    bool
	ID         string
}

// Func is called for a due key, never twice at a time for one key. A panic counts as a failure of
// that key alone.
type Func[K comparable] func(ctx context.Context, key K, run Run) Result

// Defaults of a zero [Options].
const (
	DefaultMaxInterval = 10 * time.Hour
	DefaultGrace       = 10 * time.Second
	// cancelGrace is how long Run waits for runs whose context it has cancelled.
	cancelGrace = 10 * time.Second
)

// NoMaxInterval, as [Options.MaxInterval], turns the fail-safe runs off.
const NoMaxInterval = -1

// Options configures a [Scheduler]. The zero value is the documented default.
type Options[K comparable] struct {
	// Concurrency is the number of runs at a time. Default: max(8, 2×GOMAXPROCS). If it is too low,
	// slow runs delay others. If it is too high, it loads the API server.
	Concurrency int
	// Retry is the policy for failures. Default: the zero Policy.
	Retry retry.Policy
	// MaxInterval is the longest time that a key goes without a run, shortened by up to 10 % at
	// random. Default: 10 h; NoMaxInterval for none.
	MaxInterval time.Duration
	// RateLimit limits the runs of each key. Default: no limit.
	RateLimit RateLimit
	// Grace is how long runs may continue after the context of Run has ended, before their own context
	// is cancelled. Default: 10 s; negative for none.
	Grace time.Duration
	// Decide, if set, reports whether a cause needs a run. It is called when the cause arrives. If the
	// key was running then, it is called again at the end of the run, because the run may explain the
	// cause, and in between if there are many causes. Once it has called a cause needless, that must
	// not change. It must be pure. If it panics, the cause needs a run; see [Scheduler.Flaw].
	Decide func(key K, cause timeline.Cause) bool
	// Record, if set, is called for every run after it has ended and before the key has another one.
	// If it panics, the record is lost; see [Scheduler.Flaw].
	Record func(key K, record timeline.Record)
	// RecordFailures limits Record to runs that failed.
	RecordFailures bool
}

// RateLimit allows each key a number of runs per period. The zero value is no limit.
//
// A period begins with the first run of the key after the end of the last period. A key that has
// had its runs waits until the end of the period, whatever makes it due: a retry, a timer, or even
// an event that renews it, because the limit protects what the runs use. Such an event still ends
// the back-off. Waiting events are merged into one run. If the resource goes, its period ends.
type RateLimit struct {
	// Runs is how many runs begin in a period.
	Runs int
	// Period is the length of a period.
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
	options guardedOptions[K]

	zero time.Time // the origin of all instants

	needless atomic.Uint64 // the events that Decide called needless

	mu      sync.Mutex // guards the fields below; a leaf
	work    sync.Cond  // signalled when a key may be due or the scheduler stops
	resting int        // the number of workers that wait for work
	waking  bool       // one of them has been signalled and has not woken yet
	core    *machine[K]
	timer   *time.Timer
	armed   instant // the time that the timer is set to; zero if it is not set
	started bool
	stopped bool
	begun   uint64                  // the number of runs that have begun
	ended   uint64                  // the number of runs that have ended
	active  map[*keyState[K]]flight // the runs in flight
	scope   *runScope               // from the start until a pause, and from each resumption
	waiting []*pause                // the calls of Pause that wait for runs to end
	runs    context.Context         // the parent of all runs' contexts; set by Run
}

// New returns a scheduler for run, or an error that names every invalid option. The scheduler
// accepts events at once and runs nothing before [Scheduler.Run].
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
		run: run, options: guardedOptions[K]{Options: options}, zero: time.Now().Add(-1), core: newMachine(options), active: map[*keyState[K]]flight{},
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

// Offer makes key due because of e. Events offered before [Scheduler.Run] run after its start.
// Events offered after its end are dropped.
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

// reviewLocked decides again about the causes of a running key, so that causes which its run has
// explained meanwhile do not use up the room. It releases the lock while it calls Decide.
func (s *Scheduler[K]) reviewLocked(state *keyState[K]) {
	asked, needless := state.pending.causes, bits{}
	func() {
		s.mu.Unlock()
		defer s.mu.Lock() // even if Decide panics
		for i, cause := range asked {
			if !s.options.needs(state.key, cause) {
				needless.set(i)
			}
		}
	}()
	s.needless.Add(uint64(s.core.reviewed(state, asked, needless)))
}

// decideAndLock reports whether a cause needs a run, and if so returns with the lock held. A run
// that ended between the decision and the lock may have explained the cause, so it decides again
// then.
func (s *Scheduler[K]) decideAndLock(key K, cause timeline.Cause) bool {
	s.mu.Lock()
	for s.options.Decide != nil {
		ended := s.ended
		s.mu.Unlock()
		if !s.options.needs(key, cause) {
			s.needless.Add(1)
			return false
		}
		s.mu.Lock()
		if s.ended == ended {
			break
		}
	}
	return true
}

// Forget drops the state of a key whose resource is gone. A run in flight ends undisturbed; its
// retries and timers are dropped. Events offered afterwards start with a fresh state.
func (s *Scheduler[K]) Forget(key K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.core.forget(key)
	s.armLocked()
}

// Imminent reports whether another run of key is already certain to follow the present one, because
// of events since that began. Causes that [Options.Decide] calls needless do not count.
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
		return true // counted causes cannot be decided again
	}
	// A cause that needed a run when it arrived may have been explained since, as a watch event by the
	// answer that came after it.
	return slices.ContainsFunc(causes, func(c timeline.Cause) bool { return s.options.needs(key, c) })
}

// Retries reports whether a retry of key by the policy is waiting. While [Result.Decided] is
// called, that is the retry which follows the run.
func (s *Scheduler[K]) Retries(key K) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.core.keys[key]
	return state != nil && state.isSet(retrySlot)
}

// flight is a run in flight.
type flight struct {
	number uint64 // of all runs
	began  instant
}

// Due returns the keys that are queued, in no order.
func (s *Scheduler[K]) Due() (due []K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, state := range s.core.keys {
		if state.phase == queued {
			due = append(due, key)
		}
	}
	return due
}

// Len returns the number of keys that have state: queued, running, backing off or waiting for a
// timer.
func (s *Scheduler[K]) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.core.keys)
}
