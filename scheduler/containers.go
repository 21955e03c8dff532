package scheduler

// queue is a lane: keys in the order of their arrival, any of which can be taken out in constant time.
// The links stand in the keys themselves, so that queueing allocates nothing.
type queue[K comparable] struct{ first, last *keyState[K] }

func (q *queue[K]) push(s *keyState[K]) {
	s.previous = q.last
	if q.last == nil {
		q.first = s
	} else {
		q.last.next = s
	}
	q.last = s
}

func (q *queue[K]) remove(s *keyState[K]) {
	if s.previous == nil {
		q.first = s.next
	} else {
		s.previous.next = s.next
	}
	if s.next == nil {
		q.last = s.previous
	} else {
		s.next.previous = s.previous
	}
	s.previous, s.next = nil, nil
}

// timerHeap orders keys by their earliest slot; it implements heap.Interface.
type timerHeap[K comparable] []*keyState[K]

func (h timerHeap[K]) Len() int           { return len(h) }
func (h timerHeap[K]) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h timerHeap[K]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *timerHeap[K]) Push(x any) {
	s := x.(*keyState[K])
	s.index = len(*h)
	*h = append(*h, s)
}

func (h *timerHeap[K]) Pop() any {
	last := len(*h) - 1
	s := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	s.index = -1
	return s
}
