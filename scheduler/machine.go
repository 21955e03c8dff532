package scheduler

import (
	"math/rand/v2"
	"time"

	"github.com/evenkeel/evenkeel/retry"
	"github.com/evenkeel/evenkeel/timeline"
)

// machine is the pure core. Every method takes the time and returns or records what follows.
type machine[K comparable] struct {
	policy      retry.Policy
	maxInterval time.Duration
	limit       RateLimit
	workers     int
	undecided   int                               // how many causes a running key keeps
	jitter      func(time.Duration) time.Duration // applied to the max interval

	keys   map[K]*keyState[K]
	lanes  lanes[K]
	timers timerHeap[K]
	spare  []*batch
	// failing are the keys whose last run failed: neither succeeded nor forgotten since.
	failing map[K]struct{}
	busy    int    // the number of runs in flight
	queued  uint64 // how often a key was queued
	retries uint64 // the number of retries that were granted
	paused  bool   // no run starts; all else continues
	pauses  uint16 // the number of pauses so far
}

func newMachine[K comparable](o Options[K]) *machine[K] {
	m := &machine[K]{
		policy: o.Retry, maxInterval: o.MaxInterval, limit: o.RateLimit, workers: o.Concurrency, jitter: jittered,
		undecided: maxCauses, keys: map[K]*keyState[K]{}, failing: map[K]struct{}{},
	}
	if o.Decide != nil {
		m.undecided = maxUndecided
	}
	return m
}

func (m *machine[K]) state(key K) *keyState[K] {
	s := m.keys[key]
	if s == nil {
		s = &keyState[K]{key: key, index: -1}
		m.keys[key] = s
	}
	return s
}

const (
	// shortestPause and longestPause limit the pauses between runs that events start before the retry.
	shortestPause = 100 * time.Millisecond
	longestPause  = 10 * time.Second
)

// pauseAfter returns the pause after so many needless runs in a row. It doubles from one to the
// next.
func pauseAfter(runs uint8) time.Duration {
	if runs == 0 {
		return 0
	}
	return min(longestPause, shortestPause<<min(runs-1, 7))
}

// maxSpare is how many empty batches are kept for reuse.
const maxSpare = 1024

// arrive adds a cause to the waiting ones.
func (m *machine[K]) arrive(now instant, s *keyState[K], c timeline.Cause, renews bool) {
	if s.pending == nil {
		m.load(s, batch{since: now})
	}
	limit := maxCauses
	if s.phase == running {
		limit = m.undecided
	}
	s.pending.add(c, renews, limit)
}

// load makes b the waiting causes of a key.
func (m *machine[K]) load(s *keyState[K], b batch) {
	if last := len(m.spare) - 1; last >= 0 {
		s.pending, m.spare = m.spare[last], m.spare[:last]
	} else {
		s.pending = new(batch)
	}
	*s.pending = b
}

// unload removes and returns the waiting causes.
func (m *machine[K]) unload(s *keyState[K]) batch {
	if s.pending == nil {
		return batch{}
	}
	b := *s.pending
	*s.pending = batch{}
	if len(m.spare) < maxSpare {
		m.spare = append(m.spare, s.pending)
	}
	s.pending = nil
	return b
}

// offer applies an event. If the key runs, the cause is only collected. It then returns the key if
// the collected causes should be reviewed.
func (m *machine[K]) offer(now instant, key K, e Event) (review *keyState[K]) {
	s := m.state(key)
	m.arrive(now, s, e.Cause, e.Renews)
	switch s.phase {
	case running, ending:
	case queued:
		if e.Renews {
			m.renew(now, s)
		}
		m.lanes.promote(s, e.Lane)
	case idle:
		m.wake(now, s, e.Lane)
	}
	if s.phase == running && m.undecided > maxCauses && s.pending.reviews() {
		return s
	}
	return nil
}

// reviewed removes the causes of a running key that were found to be needless, and returns how many
// those were.
func (m *machine[K]) reviewed(s *keyState[K], asked []timeline.Cause, needless bits) (removed int) {
	if s.phase != running || s.pending == nil { // the decision at the end of its run is final
		return 0
	}
	before := len(s.pending.causes)
	s.pending.reviewed(asked, needless)
	removed = before - len(s.pending.causes)
	if s.pending.empty() {
		m.unload(s)
	}
	return removed
}

// renew ends the back-off, because the desired state is another than the one that failed. It also
// bypasses a refusal, which may have been about anything; several bypasses in a row are spaced by
// pauses.
func (m *machine[K]) renew(now instant, s *keyState[K]) {
	if until := s.slots[refusalSlot]; until != 0 {
		s.bypassing = true
		if until = min(until, s.settled.after(pauseAfter(s.bypasses))); until <= now {
			until = 0
		}
		s.slots[refusalSlot] = until
	}
	s.retry.Reset()
	s.earlyRuns = 0
	s.clear(retrySlot, repeatSlot, eventsSlot)
	m.timers.retime(s)
}

// wake decides whether an idle key with new causes is queued now or waits for a slot.
func (m *machine[K]) wake(now instant, s *keyState[K], lane Lane) {
	if s.renewed() {
		m.renew(now, s)
	}
	if gate := m.gateOf(s); gate != timeline.Open {
		s.gate = gate
		return
	}
	m.enqueue(now, s, lane)
}

// gateOf returns the gate that holds a key back, or Open.
func (m *machine[K]) gateOf(s *keyState[K]) timeline.Gate {
	switch {
	case s.isSet(refusalSlot):
		return timeline.Refusal
	case m.limited(s):
		return timeline.RateLimit
	case s.isSet(repeatSlot):
		return timeline.Storm
	case s.isSet(eventsSlot) && s.eventsGate != timeline.Open:
		return s.eventsGate
	case s.isSet(eventsSlot) && s.isSet(retrySlot):
		return timeline.BackOff
	}
	return timeline.Open
}

// limited reports whether the key has used all runs of its rate limit period.
func (m *machine[K]) limited(s *keyState[K]) bool {
	return s.isSet(limitSlot) && int(s.used) >= m.limit.Runs
}

func (m *machine[K]) enqueue(now instant, s *keyState[K], lane Lane) {
	switch {
	case m.paused:
		s.gate = timeline.Pause
	case s.gate == timeline.Open && m.busy+m.lanes.due >= m.workers:
		s.gate = timeline.Workers
	}
	m.queued++
	s.phase, s.pauses, s.due = queued, m.pauses, now
	m.lanes.push(s, lane)
}

// pause begins a pause: no run starts until it ends.
func (m *machine[K]) pause() {
	m.paused = true
	m.pauses++
}

// take starts the run of the next due key, if there is one.
func (m *machine[K]) take(now instant) (*keyState[K], Run, bool) {
	if m.paused {
		return nil, Run{}, false
	}
	s := m.lanes.take()
	if s == nil {
		return nil, Run{}, false
	}
	return s, m.begin(now, s), true
}

func (m *machine[K]) begin(now instant, s *keyState[K]) Run {
	m.busy++
	s.phase, s.forgotten = running, 0
	if s.bypasses = min(s.bypasses+1, 100); !s.bypassing {
		s.bypasses = 0
	}
	s.bypassing = false
	if m.limit.Runs > 0 {
		if !s.isSet(limitSlot) {
			s.slots[limitSlot], s.used = now.after(m.limit.Period), 0
			m.timers.retime(s)
		}
		s.used++
	}
	b := m.unload(s)
	if s.isSet(againSlot) {
		s.clear(againSlot)
		m.timers.retime(s)
	}
	if !b.isAsked() {
		s.immediate = 0
	}
	run := Run{Causes: b.all(), Waited: now.since(b.since), Queued: now.since(s.due), Gate: s.gate, Attempt: s.retry.Attempt()}
	run.LastAttempt = !s.isSet(retrySlot) && m.policy.LastAttempt(&s.retry)
	if s.isSet(retrySlot) {
		run.BackOffLeft = max(0, s.slots[retrySlot].since(now))
	}
	if s.pauses != m.pauses {
		run.Gate = timeline.Pause
	}
	s.gate = timeline.Open
	return run
}

// end describes the end of a run.
type end struct {
	Result
	verdict retry.Verdict
	kept    batch // the causes that arrived during the run and need another one
	run     Run
	began   instant
	cutOff  bool // by a pause
}

// finish decides what follows the run of s. It returns the time until the next run that is certain,
// or 0 if there is none or it is now. Until its release the key still counts as running.
func (m *machine[K]) finish(now instant, s *keyState[K], e end) time.Duration {
	s.phase = ending
	m.putBefore(s, e.kept)
	switch {
	case e.Gone || e.Dropped || s.forgotten > 0:
		m.drain(s)
	case e.cutOff:
		m.restore(now, s, e)
	default:
		m.settle(now, s, e)
	}
	if s.renewed() {
		m.renew(now, s)
	}
	return m.next(now, s)
}

// release makes a key idle whose run was finished.
func (m *machine[K]) release(now instant, s *keyState[K]) {
	m.busy--
	s.phase = idle
	if s.pending != nil {
		m.wake(now, s, LiveLane)
	}
	m.tidy(s)
}

// putBefore inserts causes before the waiting ones.
func (m *machine[K]) putBefore(s *keyState[K], earlier batch) {
	if !earlier.empty() {
		earlier.join(m.unload(s))
		m.load(s, earlier)
	}
}

// tidy removes a key that has no state.
func (m *machine[K]) tidy(s *keyState[K]) {
	if s.empty() {
		delete(m.keys, s.key)
	}
}

// restore undoes the start of a run that a pause cut off. Its causes come before those that arrived
// since. Attempts, back-off and rate limit are as before, and an early run is still available. Only
// the time that the run asked for is kept.
func (m *machine[K]) restore(now instant, s *keyState[K], e end) {
	again := batch{since: e.began.after(-e.run.Waited)}
	for _, c := range e.run.Causes {
		again.add(c, false, maxCauses) // renewals were applied before
	}
	m.putBefore(s, again)
	s.gate = timeline.Pause
	if s.isSet(limitSlot) {
		s.used--
	}
	s.reschedule(now, e.RescheduleAfter)
	m.timers.retime(s)
}

// settle applies the result of a run of a resource that still exists.
func (m *machine[K]) settle(now instant, s *keyState[K], e end) {
	s.settled = now
	pause := s.immediatePause(e)
	if m.maxInterval > 0 {
		s.slots[intervalSlot] = now.after(m.jitter(m.maxInterval))
	}
	switch {
	case e.Err != nil:
		m.failing[s.key] = struct{}{}
		m.fail(now, s, e.verdict)
	case e.Superseded:
		m.repeat(now, s, 0)
	default:
		delete(m.failing, s.key)
		s.retry.Reset()
		s.clear(retrySlot, eventsSlot)
		s.earlyRuns, s.repeats = 0, 0
		if e.Rest > 0 {
			s.slots[eventsSlot], s.eventsGate = now.after(e.Rest), timeline.Loop
		}
	}
	if after := e.RescheduleAfter; after >= AtOnce {
		s.reschedule(now, after)
	} else if after > 0 {
		s.reschedule(now, max(after, pause))
	}
	switch {
	case !e.RescheduleNow:
	case pause == 0:
		m.arrive(now, s, timeline.Timer{}, false)
	default:
		s.slots[againSlot] = now.after(pause)
	}
	m.timers.retime(s)
}

// fail schedules what follows a failure.
func (m *machine[K]) fail(now instant, s *keyState[K], v retry.Verdict) {
	switch v.Class {
	case retry.Soon:
		m.repeat(now, s, v.NotBefore)
	case retry.NotAgain:
		s.clear(retrySlot)
		s.repeats = 0
		m.exhaust(now, s)
		return
	default:
		s.repeats = 0
		m.backOff(now, s, v.NotBefore)
	}
	if v.NotBefore > 0 {
		s.slots[refusalSlot] = now.after(v.NotBefore)
	}
}

// repeat schedules another run after one that was superseded or refused: at once the first time,
// because the world has changed. Later it waits 10 ms, doubling up to 1 s, because something may be
// changing the resource all the time. The events of these changes do not shorten the pause:
// otherwise each of our requests would follow one of theirs.
func (m *machine[K]) repeat(now instant, s *keyState[K], notBefore time.Duration) {
	pause := notBefore
	if s.repeats > 0 {
		pause = max(notBefore, min(time.Second, 10*time.Millisecond<<min(s.repeats-1, 7)))
	}
	s.repeats = min(s.repeats+1, 100)
	if pause == 0 {
		m.arrive(now, s, timeline.Timer{}, false)
		return
	}
	s.slots[repeatSlot] = now.after(pause)
}

// backOff schedules the retry of a failed run. If a retry is already waiting, the run was an early
// one: it consumed no attempt and leaves the retry as it is. The next early run comes after a pause
// that is short whatever the back-off, because what failed for one reason may have been repaired
// for another.
func (m *machine[K]) backOff(now instant, s *keyState[K], notBefore time.Duration) {
	if s.isSet(retrySlot) {
		s.earlyRuns = min(s.earlyRuns+1, 100)
		s.slots[eventsSlot], s.eventsGate = now.after(pauseAfter(s.earlyRuns)), timeline.Open
		return
	}
	delay, again := m.policy.Next(&s.retry)
	if !again {
		m.exhaust(now, s)
		return
	}
	m.retries++
	s.slots[retrySlot] = now.after(max(delay, notBefore))
}

// exhaust follows a failure without a retry. Events within the policy's window start one run, at
// its end.
func (m *machine[K]) exhaust(now instant, s *keyState[K]) {
	s.earlyRuns = 0
	s.slots[eventsSlot], s.eventsGate = now.after(m.policy.Window()), timeline.BackOff
}

// forget removes a key whose resource is gone. Waiting causes are dropped, and a run in flight is
// drained when it ends. Events offered afterwards belong to a new incarnation.
func (m *machine[K]) forget(key K) {
	delete(m.failing, key)
	s := m.keys[key]
	if s == nil {
		return
	}
	m.unload(s)
	if s.phase == running {
		s.forgotten++
		return
	}
	if s.phase == queued {
		m.lanes.remove(s)
		s.phase = idle
	}
	m.drain(s)
	m.tidy(s)
}

// drain clears what a past incarnation left: attempts and timers.
func (m *machine[K]) drain(s *keyState[K]) {
	delete(m.failing, s.key)
	s.retry.Reset()
	s.forgotten, s.repeats, s.earlyRuns, s.immediate, s.gate = 0, 0, 0, 0, timeline.Open
	s.bypasses, s.bypassing = 0, false
	s.slots = [slotCount]instant{}
	m.timers.retime(s)
}

// jittered shortens d by up to 10 %, so that keys created together do not all become due together,
// and none becomes due later than promised.
func jittered(d time.Duration) time.Duration {
	return d - time.Duration(rand.Int64N(int64(d)/10+1))
}
