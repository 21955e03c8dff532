package scheduler

// bulkTurn is how many live keys may be taken in a row while bulk keys wait. So a busy live lane
// cannot starve the initial list.
const bulkTurn = 8

// lanes hold the queued keys.
type lanes[K comparable] struct {
	queues    [laneCount]queue[K]
	due       int // the number of queued keys
	liveTaken int // how many keys of the live lane were taken in a row
}

// push appends a key to a lane.
func (l *lanes[K]) push(s *keyState[K], lane Lane) {
	s.lane = lane
	l.queues[lane].push(s)
	l.due++
}

// remove removes a queued key.
func (l *lanes[K]) remove(s *keyState[K]) {
	l.queues[s.lane].remove(s)
	l.due--
}

// promote moves a queued key from the bulk lane to the live lane when a live event arrives.
func (l *lanes[K]) promote(s *keyState[K], lane Lane) {
	if s.lane == BulkLane && lane == LiveLane {
		l.remove(s)
		l.push(s, LiveLane)
	}
}

// take removes and returns the next key, or returns nil.
func (l *lanes[K]) take() *keyState[K] {
	lane := LiveLane
	if l.queues[LiveLane].first == nil || (l.liveTaken >= bulkTurn && l.queues[BulkLane].first != nil) {
		lane = BulkLane
	}
	s := l.queues[lane].first
	if s == nil {
		return nil
	}
	if lane == LiveLane {
		l.liveTaken++
	} else {
		l.liveTaken = 0
	}
	l.remove(s)
	return s
}

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
