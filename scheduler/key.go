package scheduler

import (
	"math"
	"slices"
	"time"

	"github.com/evenkeel/evenkeel/retry"
	"github.com/evenkeel/evenkeel/timeline"
)

const (
	// maxCauses bounds the causes that a run is given one by one; further ones are counted.
	maxCauses = 64
	// maxUndecided bounds the causes that are kept one by one while the key runs, as the run may
	// explain them when it ends: those of some thousand writes whose echoes come before their
	// answers. Further ones are counted, and bring a run.
	maxUndecided = 1 << 14
)

// instant is a moment: nanoseconds of the monotonic clock since shortly before the scheduler was made. Zero
// is none. A third of a time.Time, of which a key has many.
type instant int64

// after is the moment d later, at most the last there is.
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
	ending // the run has ended and what follows is decided, but it is still being told
)

// slot is a time that a key waits for. Each has its own, so that none overwrites another.
type slot uint8

const (
	// These bring a run when they come.
	retrySlot      slot = iota // the back-off ends; set exactly while the key backs off
	calmSlot                   // the repeat of a run that came to nothing
	turnSlot                   // the run at once that was asked for, slowed
	rescheduleSlot             // what a run asked for
	intervalSlot               // the max interval
	runSlots

	// These end what held runs back.
	holdSlot  = runSlots     // what refused a run said when to come again
	limitSlot = runSlots + 1 // the period of the rate limit
	pauseSlot = runSlots + 2 // events may bring the next run: see rests
	slotCount = runSlots + 3
)

// keyState is what the machine remembers of a key. Invariants:
//   - it is idle, queued, running or ending; a queued key stands in exactly one lane once;
//   - it has causes while queued, and those that arrived since its start while running and ending; an idle key
//     that has some waits for a slot;
//   - at is the earliest of the slots, and the key is in the timer heap iff it is not zero.
type keyState[K comparable] struct {
	key            K
	previous, next *keyState[K] // in the lane, while queued

	pending *batch // what waits; nil if nothing does, so that an idle key is small

	retry           retry.State
	slots           [slotCount]instant
	settled         instant       // when calmSlot and intervalSlot were set
	rescheduleAfter time.Duration // what rescheduleSlot was set to

	at    instant // heap key
	index int32   // heap position, -1 outside

	used   uint32 // runs in this period of the rate limit
	forgot uint16 // how often the resource went away during the run
	pauses uint16 // of the machine when it was queued
	vain   uint8  // runs in a row that came to nothing
	early  uint8  // failed runs that events had brought before their retry, since it last succeeded or was renewed
	passed uint8  // runs in a row that a renewal brought before the time of a refusal
	passes bool   // so will the next one be
	turns  uint8  // runs in a row that asked for another one at once, with nothing else between
	phase  phase
	lane   Lane
	gate   timeline.Gate
	// rests says whom pauseSlot holds back: with Open only a key that waits for a retry, from its next
	// early run; otherwise every run but those of a renewal or a time that was asked for, for that reason.
	rests timeline.Gate
}

func (s *keyState[K]) isSet(at slot) bool { return s.slots[at] != 0 }

func (s *keyState[K]) clear(slots ...slot) {
	for _, at := range slots {
		s.slots[at] = 0
	}
}

// endRest lets a run begin that was asked for in time.
func (s *keyState[K]) endRest() {
	if s.rests != timeline.Open {
		s.slots[pauseSlot] = 0
	}
}

// empty reports whether nothing is left to remember.
func (s *keyState[K]) empty() bool {
	return s.phase == idle && s.at == 0 && s.pending == nil
}

// renewed reports whether one of the causes that wait renews the key.
func (s *keyState[K]) renewed() bool {
	return s.pending != nil && (s.pending.renews.any() || s.pending.moreRenew)
}

// earliest is the earliest of some slots that are set, or zero.
func earliest(slots []instant) instant {
	var first instant
	for _, at := range slots {
		if at != 0 && (first == 0 || at < first) {
			first = at
		}
	}
	return first
}

// batch is causes that wait, in the order of their arrival. The zero value is none.
type batch struct {
	causes []timeline.Cause
	since  instant // when the first of them arrived
	renews bits    // bit i says that causes[i] renews
	more   int32   // how many there are beyond those
	// moreRenew says that one of those renews.
	moreRenew bool
	// review is the number of causes at which they are asked about again; 0: maxCauses.
	review int32
}

func (b *batch) empty() bool { return len(b.causes) == 0 && b.more == 0 }

// isAsked reports whether all of them are runs that were asked for in time.
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

// add adds a cause, or counts it if there are as many as limit.
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

// join adds other causes behind these. It must not be called with causes that are undecided.
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

// keep drops the causes that are not needed. Those that were only counted stay: they cannot be asked about.
func (b *batch) keep(needed func(timeline.Cause) bool) {
	all, renews := b.causes, b.renews
	b.causes, b.renews = nil, bits{}
	for i, c := range all {
		if needed(c) {
			b.add(c, renews.has(i), len(all))
		}
	}
}

// told is the causes as a run is told of them.
func (b *batch) told() []timeline.Cause {
	if b.more > 0 {
		return append(b.causes, timeline.Overflow{Count: int(b.more)})
	}
	return b.causes
}

// reviews reports whether the causes of a running key are to be asked about again before there are
// more of them, and sets when the next time is: each is asked about a few times at most.
func (b *batch) reviews() bool {
	n := int32(len(b.causes))
	if n < max(b.review, maxCauses) {
		return false
	}
	b.review = maxUndecided + 1 // none after the last
	if n < maxUndecided {
		b.review = min(2*n, maxUndecided)
	}
	return true
}

// reviewed drops the causes that were found to be needless, unless others wait now.
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
	first uint64 // most sets have no others
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
