package scheduler

import (
	"container/heap"
	"time"

	"github.com/evenkeel/evenkeel/timeline"
)

// fire processes every slot that has come, and queues the keys that are due.
func (m *machine[K]) fire(now instant) {
	for len(m.timers) > 0 && m.timers[0].at <= now {
		s := m.timers[0]
		for at := range s.slots {
			if due := s.slots[at]; due != 0 && due <= now {
				s.slots[at] = 0
				m.slotDue(now, s, slot(at), due.since(s.settled))
			}
		}
		m.timers.retime(s)
		if s.phase == idle && s.pending != nil {
			m.wake(now, s, LiveLane)
		}
		m.tidy(s)
	}
}

// slotDue applies a slot that has come. after is the time since the last run was settled.
func (m *machine[K]) slotDue(now instant, s *keyState[K], at slot, after time.Duration) {
	switch at {
	case retrySlot:
		// A run in flight when its window ends is the retry: it started no earlier than it had to.
		if s.phase != running {
			m.arrive(now, s, timeline.Retry{Attempt: s.retry.Attempt()}, false)
		}
	case againSlot:
		s.gate = timeline.Loop
		m.arrive(now, s, timeline.Timer{After: after}, false)
	case repeatSlot:
		m.arrive(now, s, timeline.Timer{After: after}, false)
	case rescheduleSlot:
		s.openEvents()
		m.arrive(now, s, timeline.Timer{After: s.rescheduleAfter}, false)
	case intervalSlot:
		s.openEvents()
		m.arrive(now, s, timeline.MaxInterval{Interval: after}, false)
	}
}

// next returns the time until the next run of a key that is certain, or 0 if there is none or it is
// now.
func (m *machine[K]) next(now instant, s *keyState[K]) time.Duration {
	if s.pending != nil && m.gateOf(s) == timeline.Open {
		return 0
	}
	at, held := earliest(s.slots[:runSlots]), s.slots[refusalSlot]
	if m.limited(s) {
		held = max(held, s.slots[limitSlot])
	}
	switch {
	case s.pending == nil:
	case held != 0:
		at = held
	case s.isSet(eventsSlot):
		at = earliest([]instant{at, s.slots[eventsSlot]})
	}
	if at == 0 {
		return 0
	}
	return max(0, max(at, held).since(now))
}

// timerHeap orders keys by their earliest slot; it implements heap.Interface.
type timerHeap[K comparable] []*keyState[K]

func (h timerHeap[K]) Len() int           { return len(h) }
func (h timerHeap[K]) Less(i, j int) bool { return h[i].at < h[j].at }
func (h timerHeap[K]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = int32(i), int32(j)
}

// earliest returns the time of the earliest slot of all keys, or zero.
func (h timerHeap[K]) earliest() instant {
	if len(h) == 0 {
		return 0
	}
	return h[0].at
}

// retime updates the heap after the slots of s have changed.
func (h *timerHeap[K]) retime(s *keyState[K]) {
	at := earliest(s.slots[:])
	if at == s.at {
		return
	}
	s.at = at
	switch {
	case at == 0:
		heap.Remove(h, int(s.index))
	case s.index >= 0:
		heap.Fix(h, int(s.index))
	default:
		heap.Push(h, s)
	}
}

// Push implements heap.Interface.
func (h *timerHeap[K]) Push(x any) {
	s := x.(*keyState[K])
	s.index = int32(len(*h))
	*h = append(*h, s)
}

// Pop implements heap.Interface.
func (h *timerHeap[K]) Pop() any {
	last := len(*h) - 1
	s := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	s.index = -1
	return s
}
