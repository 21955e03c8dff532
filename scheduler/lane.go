package scheduler

// queue is a lane: keys in the order of their arrival. Any key can be removed in constant time. The
// links are in the keys themselves, so queueing does not allocate.
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
