package scheduler

import (
	"container/heap"
	"time"

	"github.com/evenkeel/evenkeel/timeline"
)

// fire takes in every slot that has come, and queues the keys whose turn it is.
func (m *machine[K]) fire(now instant) {
	for len(m.timers) > 0 && m.timers[0].at <= now {
		s := m.timers[0]
		for at := range s.slots {
			if due := s.slots[at]; due != 0 && due <= now {
				s.slots[at] = 0
				m.come(now, s, slot(at), due.since(s.settled))
			}
		}
		m.retime(s)
		if s.phase == idle && s.pending != nil {
			m.wake(now, s, LiveLane)
		}
		m.tidy(s)
	}
}

// come is what follows when a slot has come, set so long after the last run was settled.
func (m *machine[K]) come(now instant, s *keyState[K], at slot, after time.Duration) {
	switch at {
	case retrySlot:
		// A run in flight when its window ends is the retry: it started no earlier than it had to.
		if s.phase != running {
			m.arrive(now, s, timeline.Retry{Attempt: s.retry.Attempt()}, false)
		}
	case turnSlot:
		s.gate = timeline.Loop
		m.arrive(now, s, timeline.Timer{After: after}, false)
	case calmSlot:
		m.arrive(now, s, timeline.Timer{After: after}, false)
	case rescheduleSlot:
		s.endRest()
		m.arrive(now, s, timeline.Timer{After: s.rescheduleAfter}, false)
	case intervalSlot:
		s.endRest()
		m.arrive(now, s, timeline.MaxInterval{Interval: after}, false)
	}
}

// wakeAt is the time of the earliest slot of all keys, or zero.
func (m *machine[K]) wakeAt() instant {
	if len(m.timers) == 0 {
		return 0
	}
	return m.timers[0].at
}

// next is the time until the next run of a key that is certain, 0 if none is or it is now.
func (m *machine[K]) next(now instant, s *keyState[K]) time.Duration {
	if s.pending != nil && m.closed(s) == timeline.Open {
		return 0
	}
	at, held := earliest(s.slots[:runSlots]), s.slots[holdSlot]
	if m.limited(s) {
		held = max(held, s.slots[limitSlot])
	}
	switch {
	case s.pending == nil:
	case held != 0:
		at = held
	case s.isSet(pauseSlot):
		at = earliest([]instant{at, s.slots[pauseSlot]})
	}
	if at == 0 {
		return 0
	}
	return max(0, max(at, held).since(now))
}

// retime brings the heap in line with the slots of s.
func (m *machine[K]) retime(s *keyState[K]) {
	at := earliest(s.slots[:])
	if at == s.at {
		return
	}
	s.at = at
	switch {
	case at == 0:
		heap.Remove(&m.timers, int(s.index))
	case s.index >= 0:
		heap.Fix(&m.timers, int(s.index))
	default:
		heap.Push(&m.timers, s)
	}
}

// timerHeap orders keys by their earliest slot; it implements heap.Interface.
type timerHeap[K comparable] []*keyState[K]

func (h timerHeap[K]) Len() int           { return len(h) }
func (h timerHeap[K]) Less(i, j int) bool { return h[i].at < h[j].at }
func (h timerHeap[K]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = int32(i), int32(j)
}

// Push is called by the heap package alone.
func (h *timerHeap[K]) Push(x any) {
	s := x.(*keyState[K])
	s.index = int32(len(*h))
	*h = append(*h, s)
}

// Pop is called by the heap package alone.
func (h *timerHeap[K]) Pop() any {
	last := len(*h) - 1
	s := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	s.index = -1
	return s
}
