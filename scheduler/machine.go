package scheduler

import (
	"container/heap"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/evenkeel/evenkeel/retry"
	"github.com/evenkeel/evenkeel/timeline"
)

// maxCauses bounds the causes kept one by one per key; further ones are counted.
const maxCauses = 64

// bulkTurn is how many live keys may be taken before one of the bulk lane gets its turn, so that a
// busy live lane cannot starve the initial list.
const bulkTurn = 8

type phase uint8

const (
	idle phase = iota
	queued
	running
)

// keyState is what the machine remembers of a key. Invariants:
//   - at most one of idle, queued, running; a queued key stands in exactly one lane once;
//   - causes is non-empty while queued, and holds what arrived since the start while running;
//   - retryAt is set exactly while the key backs off;
//   - at is the earliest of the slots, and the key is in the timer heap iff it is non-zero.
type keyState[K comparable] struct {
	key    K
	phase  phase
	lane   Lane
	forgot int  // how often the resource went away during the run
	vain   int  // runs in a row that were superseded
	early  bool // the back-off window's one early run is used up

	causes   []arrival
	overflow int
	since    time.Time // when the first of causes arrived

	retry retry.State
	// One slot per reason to wake up; zero means none.
	retryAt, calmAt, rescheduleAt, intervalAt time.Time
	calm, rescheduleAfter, interval           time.Duration

	at    time.Time // heap key
	index int       // heap position, -1 outside

	previous, next *keyState[K] // in the lane, while queued
}

// arrival is a cause that waits, with what its event said of the back-off.
type arrival struct {
	timeline.Cause
	renews bool
}

// machine is the pure core: every method takes the time and returns or records what follows from it.
type machine[K comparable] struct {
	policy      retry.Policy
	maxInterval time.Duration
	keys        map[K]*keyState[K]
	lanes       [laneCount]queue[K]
	liveTaken   int
	timers      timerHeap[K]
	paused      bool // nothing is taken; all else goes on
}

func newMachine[K comparable](policy retry.Policy, maxInterval time.Duration) *machine[K] {
	return &machine[K]{policy: policy, maxInterval: maxInterval, keys: map[K]*keyState[K]{}}
}

func (m *machine[K]) state(key K) *keyState[K] {
	s := m.keys[key]
	if s == nil {
		s = &keyState[K]{key: key, index: -1}
		m.keys[key] = s
	}
	return s
}

// offer takes in an event. While the key runs it is only collected.
func (m *machine[K]) offer(now time.Time, key K, e Event) {
	s := m.state(key)
	s.add(now, arrival{e.Cause, e.Renews})
	switch s.phase {
	case running:
	case queued:
		if e.Renews {
			m.renew(s)
		}
		m.promote(s, e.Lane)
	case idle:
		m.wake(s, e.Lane)
	}
}

// renew ends the back-off: what is wanted is not what failed.
func (m *machine[K]) renew(s *keyState[K]) {
	s.retry.Reset()
	s.retryAt, s.calmAt, s.early = time.Time{}, time.Time{}, false
	m.retime(s)
}

// wake decides whether an idle key with fresh causes is queued now or waits for its back-off.
func (m *machine[K]) wake(s *keyState[K], lane Lane) {
	switch {
	case s.renewed():
		m.renew(s)
	case !s.calmAt.IsZero():
		return // it is changed all the time: the causes wait for the pause to end
	case s.retryAt.IsZero():
	case s.early:
		return // the causes wait for the retry
	default:
		s.early = true
	}
	m.enqueue(s, lane)
}

func (m *machine[K]) enqueue(s *keyState[K], lane Lane) {
	s.phase, s.lane = queued, lane
	m.lanes[lane].push(s)
}

// promote moves a queued key from the bulk lane to the live one when a live event arrives.
func (m *machine[K]) promote(s *keyState[K], lane Lane) {
	if s.lane == BulkLane && lane == LiveLane {
		m.unqueue(s)
		m.enqueue(s, LiveLane)
	}
}

func (m *machine[K]) unqueue(s *keyState[K]) {
	m.lanes[s.lane].remove(s)
	s.phase = idle
}

// take starts the next due key, if there is one.
func (m *machine[K]) take(now time.Time) (*keyState[K], Run, bool) {
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
	s.phase, s.forgot = running, 0
	run := Run{Causes: s.collected(), Waited: now.Sub(s.since), Attempt: s.retry.Attempt()}
	run.LastAttempt = m.policy.LastAttempt(&s.retry)
	return s, run, true
}

// finish ends the run of s. Undecided causes were taken by the caller before; kept are those that
// remain of them.
func (m *machine[K]) finish(now time.Time, s *keyState[K], r Result, kept []arrival) time.Duration {
	s.phase = idle
	since := s.since
	for _, c := range kept {
		s.add(since, c)
	}
	switch {
	case r.Gone || s.forgot > 0:
		m.drain(s)
	case r.cutOff != nil:
		m.restore(now, s, r)
	default:
		m.settle(now, s, r)
	}
	if len(s.causes) > 0 {
		m.wake(s, LiveLane)
	}
	if s.phase == idle && s.at.IsZero() && len(s.causes) == 0 {
		delete(m.keys, s.key)
	}
	return s.wait(now)
}

// restore makes it as if a run that a pause cut off had never begun: its causes stand before those that
// arrived since, attempts and back-off are as they were, and an early run is still to be had. Only what the
// run asked for in time is kept.
func (m *machine[K]) restore(now time.Time, s *keyState[K], r Result) {
	later := s.collect()
	since := now.Add(-r.elapsed - r.cutOff.Waited)
	for _, c := range r.cutOff.Causes {
		s.add(since, arrival{Cause: c})
	}
	for _, c := range later {
		s.add(since, c)
	}
	s.early = false
	m.reschedule(now, s, r.RescheduleAfter)
	m.retime(s)
}

// settle applies the result of a run of a resource that is still there.
func (m *machine[K]) settle(now time.Time, s *keyState[K], r Result) {
	s.intervalAt = time.Time{}
	if m.maxInterval > 0 {
		s.interval = jittered(m.maxInterval)
		s.intervalAt = now.Add(s.interval)
	}
	switch {
	case r.Err != nil && r.Final:
		s.retryAt, s.early = time.Time{}, false
	case r.Err != nil:
		m.backOff(now, s)
	case r.Superseded:
		m.repeat(now, s)
	default:
		s.retry.Reset()
		s.retryAt, s.early = time.Time{}, false
	}
	if !r.Superseded {
		s.vain = 0
	}
	m.reschedule(now, s, r.RescheduleAfter)
	if r.RescheduleNow {
		s.add(now, arrival{Cause: timeline.Timer{}})
	}
	m.retime(s)
}

func (m *machine[K]) reschedule(now time.Time, s *keyState[K], after time.Duration) {
	if after > 0 {
		s.rescheduleAfter = after
		s.rescheduleAt = now.Add(after)
	}
}

// repeat brings a superseded key back: at once the first time, as the world has changed; then after
// 10 ms, doubling up to 1 s, as something may be changing it all the time. That the change is an event, too,
// does not shorten the pause: or each of our requests would follow on one of theirs.
func (m *machine[K]) repeat(now time.Time, s *keyState[K]) {
	if s.vain == 0 {
		s.add(now, arrival{Cause: timeline.Timer{}})
	} else {
		s.calm = min(time.Second, 10*time.Millisecond<<min(s.vain-1, 7))
		s.calmAt = now.Add(s.calm)
	}
	s.vain++
}

// backOff schedules the retry of a failed run. A window that is still open means that the run was
// an early one: it consumed no attempt and leaves the window as it is.
func (m *machine[K]) backOff(now time.Time, s *keyState[K]) {
	if !s.retryAt.IsZero() {
		return
	}
	s.early = false
	if delay, again := m.policy.Next(&s.retry); again {
		s.retryAt = now.Add(delay)
	}
}

// forget drops a key whose resource is gone: what waits is dropped, what runs is drained when it
// ends. Events offered afterwards belong to a new incarnation.
func (m *machine[K]) forget(key K) {
	s := m.keys[key]
	if s == nil {
		return
	}
	s.causes, s.overflow = nil, 0
	switch s.phase {
	case running:
		s.forgot++
	case queued:
		m.unqueue(s)
		fallthrough
	case idle:
		m.drain(s)
		delete(m.keys, key)
	}
}

// drain clears everything a past incarnation left: attempts and timers.
func (m *machine[K]) drain(s *keyState[K]) {
	s.retry.Reset()
	s.forgot, s.vain, s.early = 0, 0, false
	s.retryAt, s.calmAt, s.rescheduleAt, s.intervalAt = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	m.retime(s)
}

// fire queues every key whose earliest slot has come.
func (m *machine[K]) fire(now time.Time) {
	for len(m.timers) > 0 && !m.timers[0].at.After(now) {
		s := m.timers[0]
		due := func(at *time.Time) bool {
			if at.IsZero() || at.After(now) {
				return false
			}
			*at = time.Time{}
			return true
		}
		if due(&s.retryAt) {
			s.early = false
			// A run in flight when its window ends is the retry: it started no earlier than it had to.
			if s.phase != running {
				s.add(now, arrival{Cause: timeline.Retry{Attempt: s.retry.Attempt()}})
			}
		}
		if due(&s.calmAt) {
			s.add(now, arrival{Cause: timeline.Timer{After: s.calm}})
		}
		if due(&s.rescheduleAt) {
			s.add(now, arrival{Cause: timeline.Timer{After: s.rescheduleAfter}})
		}
		if due(&s.intervalAt) {
			s.add(now, arrival{Cause: timeline.MaxInterval{Interval: s.interval}})
		}
		m.retime(s)
		if s.phase == idle {
			m.wake(s, LiveLane)
		}
	}
}

// wakeAt is the time of the earliest timer, or false if there is none.
func (m *machine[K]) wakeAt() (time.Time, bool) {
	if len(m.timers) == 0 {
		return time.Time{}, false
	}
	return m.timers[0].at, true
}

// retime brings the heap in line with the slots of s.
func (m *machine[K]) retime(s *keyState[K]) {
	s.at = earliest(s.retryAt, s.calmAt, s.rescheduleAt, s.intervalAt)
	switch {
	case s.at.IsZero() && s.index >= 0:
		heap.Remove(&m.timers, s.index)
	case s.at.IsZero():
	case s.index >= 0:
		heap.Fix(&m.timers, s.index)
	default:
		heap.Push(&m.timers, s)
	}
}

func (s *keyState[K]) add(now time.Time, c arrival) {
	if len(s.causes) == 0 {
		s.since = now
	}
	if len(s.causes) >= maxCauses {
		if many, ok := c.Cause.(timeline.Overflow); ok { // survived the decision
			s.overflow += many.Count
		} else {
			s.overflow++
		}
		last := &s.causes[maxCauses-1]
		last.renews = last.renews || c.renews
		return
	}
	s.causes = append(s.causes, c)
}

// renewed reports whether one of the causes that wait renews the key.
func (s *keyState[K]) renewed() bool {
	return slices.ContainsFunc(s.causes, func(c arrival) bool { return c.renews })
}

// collect hands over the causes gathered so far.
func (s *keyState[K]) collect() []arrival {
	causes := s.causes
	if s.overflow > 0 {
		causes = append(causes, arrival{Cause: timeline.Overflow{Count: s.overflow}})
	}
	s.causes, s.overflow = nil, 0
	return causes
}

// collected is collect for the record.
func (s *keyState[K]) collected() []timeline.Cause {
	collected := s.collect()
	causes := make([]timeline.Cause, len(collected))
	for i, c := range collected {
		causes[i] = c.Cause
	}
	return causes
}

// wait is the time until the key's earliest timer, 0 if it has none.
func (s *keyState[K]) wait(now time.Time) time.Duration {
	if s.at.IsZero() {
		return 0
	}
	return max(0, s.at.Sub(now))
}

// jittered shortens d by up to 10 %, so that keys created together do not all come back together
// and none comes later than promised.
func jittered(d time.Duration) time.Duration {
	return d - time.Duration(rand.Int64N(int64(d)/10+1))
}

func earliest(times ...time.Time) time.Time {
	var first time.Time
	for _, t := range times {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}
