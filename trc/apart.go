package trc

// Subscribers that are Apart have their own queue, and a goroutine while it is not empty.

func (s *subscriber) isBehind() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.draining
}

// forward queues a delivery. It does not block.
func (s *subscriber) forward(d delivery) {
	s.mu.Lock()
	s.waiting = append(s.waiting, d)
	var early []*waiters
	if begins := !s.draining; begins {
		s.draining = true
		go s.drain()
	} else if len(s.waiting) > s.limit {
		early = s.mergeLocked()
	}
	s.mu.Unlock()
	for _, w := range early {
		w.arrive()
	}
}

// drain delivers the queue. If Handle ends the goroutine, another goroutine continues.
func (s *subscriber) drain() {
	var batch []delivery
	next, done := 0, false
	defer func() {
		if done {
			return
		}
		_ = recover() // a subscriber that reports panics recovers by itself
		s.mu.Lock()
		s.waiting = append(append(batch[next:len(batch):len(batch)], s.waiting...), delivery{missed: true})
		s.mu.Unlock()
		go s.drain()
	}()
	for {
		s.mu.Lock()
		batch, next = s.waiting, 0
		s.waiting = nil
		if len(batch) == 0 {
			s.draining, s.limit = false, keptApart
			s.mu.Unlock()
			done = true
			return
		}
		s.mu.Unlock()
		for next < len(batch) {
			d := batch[next]
			batch[next] = delivery{}
			next++
			s.deliver(d)
		}
	}
}

func (s *subscriber) deliver(d delivery) {
	switch {
	case d.all != nil:
		d.all.arrive()
	case d.call != nil:
		d.call()
	case s.ended.Load():
	case !d.missed:
		s.Handle(d.transition)
	case s.Missed != nil:
		s.Missed()
	}
}

// mergeLocked leaves out the states between the first and the last state of each object. It returns
// the waiters in the queue, which wait no longer.
func (s *subscriber) mergeLocked() (early []*waiters) {
	all := s.waiting
	s.waiting = nil
	missed := false
	var run []delivery // the transitions between two calls, which keep their place
	merge := func() {
		kept := merged(run)
		missed = missed || len(kept) < len(run)
		s.waiting, run = append(s.waiting, kept...), nil
	}
	for _, d := range all {
		switch {
		case d.all != nil:
			early = append(early, d.all)
		case d.missed:
			missed = true
		case d.call != nil:
			merge()
			s.waiting = append(s.waiting, d)
		default:
			run = append(run, d)
		}
	}
	merge()
	if missed {
		s.waiting = append(s.waiting, delivery{missed: true})
	}
	s.limit = max(keptApart, 2*len(s.waiting))
	return early
}

// merged returns one transition for each object, or two if another object has taken its name. Late
// ones are left out.
func merged(steps []delivery) []delivery {
	places := map[Key]int{}
	var kept []delivery
	for _, d := range steps {
		t := d.transition
		if t.Late {
			continue
		}
		key := keyOfStep(t)
		at, known := places[key]
		if !known {
			places[key] = len(kept)
			kept = append(kept, d)
			continue
		}
		first := &kept[at].transition
		first.New, first.Initial = t.New, first.Initial && t.Initial
	}
	var split []delivery
	for _, d := range kept {
		t := d.transition
		switch {
		case t.Old == nil && t.New == nil: // it came and went
		case t.Old != nil && t.New != nil && t.Old.GetUID() != t.New.GetUID():
			gone, came := d, d
			gone.transition.New, came.transition.Old = nil, nil
			split = append(split, gone, came)
		default:
			split = append(split, d)
		}
	}
	return split
}

func keyOfStep(t Transition) Key {
	if t.New != nil {
		return KeyOf(t.New)
	}
	return KeyOf(t.Old)
}
