package scheduler

import (
	"math/rand/v2"
	"time"

	"github.com/evenkeel/evenkeel/retry"
	"github.com/evenkeel/evenkeel/timeline"
)

// bulkTurn is how many live keys may be taken before one of the bulk lane gets its turn, so that a
// busy live lane cannot starve the initial list.
const bulkTurn = 8

// machine is the pure core: every method takes the time and returns or records what follows from it.
type machine[K comparable] struct {
	policy      retry.Policy
	maxInterval time.Duration
	limit       RateLimit
	workers     int
	undecided   int                               // most causes that are kept while a key runs
	jitter      func(time.Duration) time.Duration // of the max interval

	keys      map[K]*keyState[K]
	lanes     [laneCount]queue[K]
	liveTaken int
	timers    timerHeap[K]
	spare     []*batch
	due       int    // the queued keys
	busy      int    // the runs in flight
	paused    bool   // nothing is taken; all else goes on
	pauses    uint16 // how many there were
}

func newMachine[K comparable](o Options[K]) *machine[K] {
	m := &machine[K]{
		policy: o.Retry, maxInterval: o.MaxInterval, limit: o.RateLimit, workers: o.Concurrency, jitter: jittered,
		undecided: maxCauses, keys: map[K]*keyState[K]{},
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
	// shortestPause and longestPause bound the pauses between runs that events bring before the retry.
	shortestPause = 100 * time.Millisecond
	longestPause  = 10 * time.Second
)

// pauseAfter is the pause after so many runs that should not have been: it doubles from one to the next.
func pauseAfter(runs uint8) time.Duration {
	if runs == 0 {
		return 0
	}
	return min(longestPause, shortestPause<<min(runs-1, 7))
}

// maxSpare bounds the batches kept for the next key that becomes due.
const maxSpare = 1024

// arrive takes in a cause.
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

// load lets a batch wait.
func (m *machine[K]) load(s *keyState[K], b batch) {
	if last := len(m.spare) - 1; last >= 0 {
		s.pending, m.spare = m.spare[last], m.spare[:last]
	} else {
		s.pending = new(batch)
	}
	*s.pending = b
}

// unload hands over what waits.
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

// offer takes in an event. While the key runs it is only collected; then it returns the key if what was
// collected is to be asked about again.
func (m *machine[K]) offer(now instant, key K, e Event) (review *keyState[K]) {
	s := m.state(key)
	m.arrive(now, s, e.Cause, e.Renews)
	switch s.phase {
	case running, ending:
	case queued:
		if e.Renews {
			m.renew(now, s)
		}
		m.promote(s, e.Lane)
	case idle:
		m.wake(now, s, e.Lane)
	}
	if s.phase == running && m.undecided > maxCauses && s.pending.reviews() {
		return s
	}
	return nil
}

// reviewed takes in which of the causes of a key that was running were found to be needless.
func (m *machine[K]) reviewed(s *keyState[K], asked []timeline.Cause, needless bits) {
	if s.phase != running || s.pending == nil { // what the end of its run called needed stays so
		return
	}
	if s.pending.reviewed(asked, needless); s.pending.empty() {
		m.unload(s)
	}
}

// renew ends the back-off: what is wanted is not what failed. It passes the time of a refusal, too, which may have
// been about anything; further ones in a row are spaced.
func (m *machine[K]) renew(now instant, s *keyState[K]) {
	if until := s.slots[holdSlot]; until != 0 {
		s.passes = true
		if until = min(until, s.settled.after(pauseAfter(s.passed))); until <= now {
			until = 0
		}
		s.slots[holdSlot] = until
	}
	s.retry.Reset()
	s.early = 0
	s.clear(retrySlot, calmSlot, pauseSlot)
	m.retime(s)
}

// wake decides whether an idle key with fresh causes is queued now or waits for a slot.
func (m *machine[K]) wake(now instant, s *keyState[K], lane Lane) {
	if s.renewed() {
		m.renew(now, s)
	}
	if gate := m.closed(s); gate != timeline.Open {
		s.gate = gate
		return
	}
	m.enqueue(s, lane)
}

// closed is the gate that holds a key back, Open if none does.
func (m *machine[K]) closed(s *keyState[K]) timeline.Gate {
	switch {
	case s.isSet(holdSlot):
		return timeline.Refusal
	case m.limited(s):
		return timeline.RateLimit
	case s.isSet(calmSlot):
		return timeline.Storm
	case s.isSet(pauseSlot) && s.rests != timeline.Open:
		return s.rests
	case s.isSet(pauseSlot) && s.isSet(retrySlot):
		return timeline.BackOff
	}
	return timeline.Open
}

// limited reports whether the key has used up the runs of its period.
func (m *machine[K]) limited(s *keyState[K]) bool {
	return s.isSet(limitSlot) && int(s.used) >= m.limit.Runs
}

func (m *machine[K]) enqueue(s *keyState[K], lane Lane) {
	switch {
	case m.paused:
		s.gate = timeline.Pause
	case s.gate == timeline.Open && m.busy+m.due >= m.workers:
		s.gate = timeline.Workers
	}
	s.phase, s.lane, s.pauses = queued, lane, m.pauses
	m.lanes[lane].push(s)
	m.due++
}

// promote moves a queued key from the bulk lane to the live one when a live event arrives.
func (m *machine[K]) promote(s *keyState[K], lane Lane) {
	if s.lane == BulkLane && lane == LiveLane {
		m.lanes[BulkLane].remove(s)
		s.lane = LiveLane
		m.lanes[LiveLane].push(s)
	}
}

// pause begins a pause: nothing is taken until it ends.
func (m *machine[K]) pause() {
	m.paused = true
	m.pauses++
}

// take starts the next due key, if there is one.
func (m *machine[K]) take(now instant) (*keyState[K], Run, bool) {
	if m.paused {
		return nil, Run{}, false
	}
	lane := LiveLane
	if m.lanes[LiveLane].first == nil || (m.liveTaken >= bulkTurn && m.lanes[BulkLane].first != nil) {
		lane = BulkLane
	}
	s := m.lanes[lane].first
	if s == nil {
		return nil, Run{}, false
	}
	if lane == LiveLane {
		m.liveTaken++
	} else {
		m.liveTaken = 0
	}
	m.lanes[lane].remove(s)
	return s, m.begin(now, s), true
}

func (m *machine[K]) begin(now instant, s *keyState[K]) Run {
	m.due--
	m.busy++
	s.phase, s.forgot = running, 0
	if s.passed = min(s.passed+1, 100); !s.passes {
		s.passed = 0
	}
	s.passes = false
	if m.limit.Runs > 0 {
		if !s.isSet(limitSlot) {
			s.slots[limitSlot], s.used = now.after(m.limit.Period), 0
			m.retime(s)
		}
		s.used++
	}
	b := m.unload(s)
	if s.isSet(turnSlot) {
		s.clear(turnSlot)
		m.retime(s)
	}
	if !b.isAsked() {
		s.turns = 0
	}
	run := Run{Causes: b.told(), Waited: now.since(b.since), Gate: s.gate, Attempt: s.retry.Attempt()}
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

// end is what the machine is told of the end of a run.
type end struct {
	Result
	verdict retry.Verdict
	kept    batch // of the causes that arrived meanwhile, those that were found to need a run
	run     Run
	began   instant
	cutOff  bool // by a pause
}

// finish decides what follows the run of s, and returns the time until the next run that is certain, 0 if none is
// or it is now. Until its release the key counts as running still.
func (m *machine[K]) finish(now instant, s *keyState[K], e end) time.Duration {
	s.phase = ending
	m.putBefore(s, e.kept)
	switch {
	case e.Gone || s.forgot > 0:
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

// release lets a key go whose run was finished.
func (m *machine[K]) release(now instant, s *keyState[K]) {
	m.busy--
	s.phase = idle
	if s.pending != nil {
		m.wake(now, s, LiveLane)
	}
	m.tidy(s)
}

// putBefore lets causes wait before those that wait already.
func (m *machine[K]) putBefore(s *keyState[K], earlier batch) {
	if !earlier.empty() {
		earlier.join(m.unload(s))
		m.load(s, earlier)
	}
}

// tidy forgets a key of which there is nothing to remember.
func (m *machine[K]) tidy(s *keyState[K]) {
	if s.empty() {
		delete(m.keys, s.key)
	}
}

// restore makes it as if a run that a pause cut off had never begun: its causes stand before those that
// arrived since, attempts, back-off and rate limit are as they were, and an early run is still to be had. Only
// what the run asked for in time is kept.
func (m *machine[K]) restore(now instant, s *keyState[K], e end) {
	again := batch{since: e.began.after(-e.run.Waited)}
	for _, c := range e.run.Causes {
		again.add(c, false, maxCauses) // if it renewed, that was done
	}
	m.putBefore(s, again)
	s.gate = timeline.Pause
	if s.isSet(limitSlot) {
		s.used--
	}
	m.reschedule(now, s, e.RescheduleAfter)
	m.retime(s)
}

// settle applies the result of a run of a resource that is still there.
func (m *machine[K]) settle(now instant, s *keyState[K], e end) {
	s.settled = now
	turn := m.turn(s, e)
	if m.maxInterval > 0 {
		s.slots[intervalSlot] = now.after(m.jitter(m.maxInterval))
	}
	switch {
	case e.Err != nil:
		m.fail(now, s, e.verdict)
	case e.Superseded:
		m.repeat(now, s, 0)
	default:
		s.retry.Reset()
		s.clear(retrySlot, pauseSlot)
		s.early, s.vain = 0, 0
		if e.Rest > 0 {
			s.slots[pauseSlot], s.rests = now.after(e.Rest), timeline.Loop
		}
	}
	if after := e.RescheduleAfter; after >= AtOnce {
		m.reschedule(now, s, after)
	} else if after > 0 {
		m.reschedule(now, s, max(after, turn))
	}
	switch {
	case !e.RescheduleNow:
	case turn == 0:
		m.arrive(now, s, timeline.Timer{}, false)
	default:
		s.slots[turnSlot] = now.after(turn)
	}
	m.retime(s)
}

// turn counts the runs in a row that ask for a further one at once, and returns the pause before that.
func (m *machine[K]) turn(s *keyState[K], e end) time.Duration {
	if !e.RescheduleNow && (e.RescheduleAfter <= 0 || e.RescheduleAfter >= AtOnce) {
		s.turns = 0
		return 0
	}
	pause := Slowed(int(s.turns))
	s.turns = min(s.turns+1, 100)
	return pause
}

// fail schedules what follows a failure.
func (m *machine[K]) fail(now instant, s *keyState[K], v retry.Verdict) {
	switch v.Class {
	case retry.Soon:
		m.repeat(now, s, v.NotBefore)
	case retry.NotAgain:
		s.clear(retrySlot)
		s.vain = 0
		m.exhaust(now, s)
		return
	default:
		s.vain = 0
		m.backOff(now, s, v.NotBefore)
	}
	if v.NotBefore > 0 {
		s.slots[holdSlot] = now.after(v.NotBefore)
	}
}

// repeat brings a key back whose run came to nothing: at once the first time, as the world has changed; then
// after 10 ms, doubling up to 1 s, as something may be changing it all the time. That the change is an event,
// too, does not shorten the pause: or each of our requests would follow on one of theirs.
func (m *machine[K]) repeat(now instant, s *keyState[K], notBefore time.Duration) {
	pause := notBefore
	if s.vain > 0 {
		pause = max(notBefore, min(time.Second, 10*time.Millisecond<<min(s.vain-1, 7)))
	}
	s.vain = min(s.vain+1, 100)
	if pause == 0 {
		m.arrive(now, s, timeline.Timer{}, false)
		return
	}
	s.slots[calmSlot] = now.after(pause)
}

// backOff schedules the retry of a failed run. A window that is still open means that the run was
// an early one: it consumed no attempt and leaves the window as it is. The next early one comes after a pause
// that is short whatever the back-off: what fails for one reason may have been healed of another.
func (m *machine[K]) backOff(now instant, s *keyState[K], notBefore time.Duration) {
	if s.isSet(retrySlot) {
		s.early = min(s.early+1, 100)
		s.slots[pauseSlot], s.rests = now.after(pauseAfter(s.early)), timeline.Open
		return
	}
	delay, again := m.policy.Next(&s.retry)
	if !again {
		m.exhaust(now, s)
		return
	}
	s.slots[retrySlot] = now.after(max(delay, notBefore))
}

// exhaust follows a failure after which there is no retry. Whatever comes up within the policy's window brings
// one run, at its end.
func (m *machine[K]) exhaust(now instant, s *keyState[K]) {
	s.early = 0
	s.slots[pauseSlot], s.rests = now.after(m.policy.Window()), timeline.BackOff
}

func (m *machine[K]) reschedule(now instant, s *keyState[K], after time.Duration) {
	if after > 0 {
		s.rescheduleAfter = after
		s.slots[rescheduleSlot] = now.after(after)
	}
}

// forget drops a key whose resource is gone: what waits is dropped, what runs is drained when it
// ends. Events offered afterwards belong to a new incarnation.
func (m *machine[K]) forget(key K) {
	s := m.keys[key]
	if s == nil {
		return
	}
	m.unload(s)
	if s.phase == running {
		s.forgot++
		return
	}
	if s.phase == queued {
		m.lanes[s.lane].remove(s)
		m.due--
		s.phase = idle
	}
	m.drain(s)
	m.tidy(s)
}

// drain clears everything a past incarnation left: attempts and timers.
func (m *machine[K]) drain(s *keyState[K]) {
	s.retry.Reset()
	s.forgot, s.vain, s.early, s.turns, s.gate = 0, 0, 0, 0, timeline.Open
	s.passed, s.passes = 0, false
	s.slots = [slotCount]instant{}
	m.retime(s)
}

// jittered shortens d by up to 10 %, so that keys created together do not all come back together
// and none comes later than promised.
func jittered(d time.Duration) time.Duration {
	return d - time.Duration(rand.Int64N(int64(d)/10+1))
}
