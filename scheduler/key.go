package scheduler

import (
	"math"
	"slices"
	"time"

	"github.com/evenkeel/evenkeel/retry"
	"github.com/evenkeel/evenkeel/timeline"
)

const (
	// maxCauses is how many causes of a run are kept one by one; further ones are counted.
	maxCauses = 64
	// maxUndecided is how many causes are kept one by one while the key runs, because the run may
	// explain them when it ends. It is enough for some thousand writes whose watch events arrive
	// before their answers. Further causes are counted, and make the key due.
	maxUndecided = 1 << 14
)

// instant is a time in nanoseconds of the monotonic clock since shortly before the scheduler was
// made. Zero means none. It takes a third of a time.Time, and each key has many.
type instant int64

// after returns the time d later, or the last representable one.
func (i instant) after(d time.Duration) instant {
	if later := i + instant(d); later >= i || d < 0 {
		return later
	}
	return math.MaxInt64
}

func (i instant) since(earlier instant) time.Duration { return time.Duration(i - earlier) }

type phase uint8

const (
	idle phase = iota
	queued
	running
	ending // the run has ended and what follows is decided, but Record may still be running
)

// slot is a time that a key waits for. Each purpose has its own slot, so that none overwrites
// another.
type slot uint8

const (
	// These slots start a run when they come.
	retrySlot      slot = iota // the retry; set exactly while the key backs off
	repeatSlot                 // the repeat of a run that was superseded or refused
	againSlot                  // the run at once that a run asked for, slowed down
	rescheduleSlot             // the time that a run asked for
	intervalSlot               // the max interval
	runSlots

	// These slots end a hold when they come.
	refusalSlot = runSlots     // NotBefore of a refusal
	limitSlot   = runSlots + 1 // the period of the rate limit
	eventsSlot  = runSlots + 2 // events may start a run again; see eventsGate
	slotCount   = runSlots + 3
)

// keyState is the machine's state of a key. Invariants:
//
//   - It is idle, queued, running or ending. A queued key is in exactly one lane, once.
//   - It has causes while queued. While running and ending it has those that arrived since the
//     start of the run. An idle key with causes waits for a slot.
//   - at is the earliest of the slots. The key is in the timer heap if and only if at is not zero.
type keyState[K comparable] struct {
	key            K
	previous, next *keyState[K] // in the lane, while queued

	pending *batch // the waiting causes; nil if there are none, to keep idle keys small

	retry           retry.State
	slots           [slotCount]instant
	settled         instant       // when repeatSlot and intervalSlot were set
	due             instant       // when it was queued
	rescheduleAfter time.Duration // the delay for which rescheduleSlot was set

	at    instant // heap key
	index int32   // heap position, -1 outside

	used      uint32 // runs in this period of the rate limit
	forgotten uint16 // how often the resource was forgotten during the run
	pauses    uint16 // the machine's pauses when it was queued
	repeats   uint8  // runs in a row that were superseded or refused
	earlyRuns uint8  // failed runs before the retry, since the last success or renewal
	bypasses  uint8  // runs in a row that a renewal started before the end of a refusal
	bypassing bool   // the next run is one of these
	immediate uint8  // runs in a row that asked for another one at once, with no other cause
	phase     phase
	lane      Lane
	gate      timeline.Gate
	// eventsGate says which runs eventsSlot holds back. With Open it is only the next early run of a
	// key that waits for a retry. Otherwise it is every run except renewals and requested times, and
	// eventsGate is the reason to record.
	eventsGate timeline.Gate
}

func (s *keyState[K]) isSet(at slot) bool { return s.slots[at] != 0 }

func (s *keyState[K]) clear(slots ...slot) {
	for _, at := range slots {
		s.slots[at] = 0
	}
}

// openEvents lets a requested run begin.
func (s *keyState[K]) openEvents() {
	if s.eventsGate != timeline.Open {
		s.slots[eventsSlot] = 0
	}
}

// immediatePause counts the runs in a row that ask for another one at once, and returns the pause
// before that.
func (s *keyState[K]) immediatePause(e end) time.Duration {
	if !e.RescheduleNow && (e.RescheduleAfter <= 0 || e.RescheduleAfter >= AtOnce) {
		s.immediate = 0
		return 0
	}
	pause := Slowed(int(s.immediate))
	s.immediate = min(s.immediate+1, 100)
	return pause
}

// reschedule sets the time that a run asked for, if it asked for one.
func (s *keyState[K]) reschedule(now instant, after time.Duration) {
	if after > 0 {
		s.rescheduleAfter = after
		s.slots[rescheduleSlot] = now.after(after)
	}
}

// empty reports whether there is no state to keep.
func (s *keyState[K]) empty() bool {
	return s.phase == idle && s.at == 0 && s.pending == nil
}

// renewed reports whether one of the waiting causes renews the key.
func (s *keyState[K]) renewed() bool {
	return s.pending != nil && (s.pending.renews.any() || s.pending.moreRenew)
}

// earliest returns the earliest slot that is set, or zero.
func earliest(slots []instant) instant {
	var first instant
	for _, at := range slots {
		if at != 0 && (first == 0 || at < first) {
			first = at
		}
	}
	return first
}

// batch holds waiting causes in the order of their arrival. The zero value is empty.
type batch struct {
	causes []timeline.Cause
	since  instant // when the first of them arrived
	renews bits    // bit i is set if causes[i] renews
	more   int32   // how many more causes there are, which are only counted
	// moreRenew is set if one of those renews.
	moreRenew bool
	// review is the number of causes at which Decide is called for them again; 0 means maxCauses.
	review int32
}

func (b *batch) empty() bool { return len(b.causes) == 0 && b.more == 0 }

// isAsked reports whether all causes are times that a run asked for.
func (b *batch) isAsked() bool {
	if b.more > 0 {
		return false
	}
	for _, c := range b.causes {
		if _, is := c.(timeline.Timer); !is {
			return false
		}
	}
	return true
}

// add adds a cause, or only counts it if there are limit causes already.
func (b *batch) add(c timeline.Cause, renews bool, limit int) {
	if many, ok := c.(timeline.Overflow); ok {
		b.more += int32(many.Count)
		b.moreRenew = b.moreRenew || renews
		return
	}
	if len(b.causes) >= limit {
		b.more++
		b.moreRenew = b.moreRenew || renews
		return
	}
	if renews {
		b.renews.set(len(b.causes))
	}
	b.causes = append(b.causes, c)
}

// join appends other causes. None of the causes may be undecided.
func (b *batch) join(other batch) {
	if b.empty() {
		b.since = other.since
	}
	for i, c := range other.causes {
		b.add(c, other.renews.has(i), maxCauses)
	}
	b.more += other.more
	b.moreRenew = b.moreRenew || other.moreRenew
}

// keep drops the causes that are not needed. Causes that are only counted stay, because nobody can
// decide about them.
func (b *batch) keep(needed func(timeline.Cause) bool) {
	all, renews := b.causes, b.renews
	b.causes, b.renews = nil, bits{}
	for i, c := range all {
		if needed(c) {
			b.add(c, renews.has(i), len(all))
		}
	}
}

// all returns the causes for a run, with an Overflow for those that are only counted.
func (b *batch) all() []timeline.Cause {
	if b.more > 0 {
		return append(b.causes, timeline.Overflow{Count: int(b.more)})
	}
	return b.causes
}

// reviews reports whether to decide again about the causes of a running key before there are more,
// and sets the next time. Each cause is reviewed a few times at most.
func (b *batch) reviews() bool {
	n := int32(len(b.causes))
	if n < max(b.review, maxCauses) {
		return false
	}
	b.review = maxUndecided + 1 // no further review
	if n < maxUndecided {
		b.review = min(2*n, maxUndecided)
	}
	return true
}

// reviewed drops the causes that turned out to be needless, unless the batch has been replaced.
func (b *batch) reviewed(asked []timeline.Cause, needless bits) {
	if len(b.causes) < len(asked) || !slices.Equal(b.causes[:len(asked)], asked) {
		return
	}
	at := -1
	b.keep(func(timeline.Cause) bool { at++; return !needless.has(at) })
	b.review = min(2*int32(len(b.causes)), b.review)
}

// bits is a set of small numbers. The zero value is empty.
type bits struct {
	first uint64 // most sets need only this
	rest  []uint64
}

func (b *bits) set(i int) {
	if i < 64 {
		b.first |= 1 << i
		return
	}
	for len(b.rest) < i/64 {
		b.rest = append(b.rest, 0)
	}
	b.rest[i/64-1] |= 1 << (i % 64)
}

func (b *bits) has(i int) bool {
	switch {
	case i < 64:
		return b.first>>i&1 != 0
	case i/64 <= len(b.rest):
		return b.rest[i/64-1]>>(i%64)&1 != 0
	}
	return false
}

func (b *bits) any() bool { return b.first != 0 || len(b.rest) > 0 }
