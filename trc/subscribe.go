package trc

import (
	"slices"
	"sync/atomic"
)

// Transition is a step of what readers see of one object. Old is nil for an addition, New for a
// deletion; both have the same UID otherwise.
//
// The steps of one object form a chain: the New of one is the Old of the next. There are three exceptions:
// steps that are Late, an object of a namespace that was removed and added again, and one that was set aside for
// a while (see [Store.SetAside]): these come as additions anew.
type Transition struct {
	Old, New Object
	// Initial is set for objects that were there when the subscription began or that a list found.
	Initial bool
	// Late is set for a step from the answer to an own write that the watch, or a newer answer, had
	// passed before it was acknowledged, to what is shown instead: nobody could see Old. What a
	// subscriber was told of the way there may be told so a second time, but it is never left out.
	Late bool
}

type subscriber struct {
	handle func(Transition)
	ended  atomic.Bool
}

// delivery is something to call without the lock, in order.
type delivery struct {
	transition Transition
	to         *subscriber
	call       func() // instead of telling a transition
}

// Subscribe delivers every object there is as an initial addition, and every transition from then
// on, in order and one at a time. handle must not block for long: it holds up the watch. If it
// panics, whoever delivers does, be it the watch or a writer; only that transition of that
// subscriber is lost.
//
// The returned function ends the subscription: no call begins after it has returned, except one that
// another goroutine is just about to make.
func (s *Store) Subscribe(handle func(Transition)) (unsubscribe func()) {
	sub := &subscriber{handle: handle}
	s.mu.Lock()
	for _, o := range s.items.objects("") {
		s.pending = append(s.pending, delivery{transition: Transition{New: o, Initial: true}, to: sub})
	}
	s.subscribers = append(s.subscribers, sub)
	s.unlockAndDeliver()
	return func() {
		sub.ended.Store(true)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.subscribers = slices.DeleteFunc(s.subscribers, func(other *subscriber) bool { return other == sub })
	}
}

// After calls f once everything that was queued for the subscribers when After was called has been
// delivered, from the goroutine that delivers or from this one.
func (s *Store) After(f func()) { s.Later(f)() }

// Later is After for who holds a lock that subscribers must not be called under: it only takes the place in the queue. f is
// called by whoever delivers next, or else by deliver, which must be called.
func (s *Store) Later(f func()) (deliver func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending = append(s.pending, delivery{call: f})
	return func() {
		s.mu.Lock()
		s.unlockAndDeliver()
	}
}

// Delivered returns a channel that is closed once everything that was queued for the subscribers when it was called
// has been delivered, or nil if it has been. A subscriber must not wait for it.
func (s *Store) Delivered() <-chan struct{} {
	s.mu.Lock()
	if !s.delivering && len(s.pending) == 0 {
		s.mu.Unlock()
		return nil
	}
	done := make(chan struct{})
	s.pending = append(s.pending, delivery{call: func() { close(done) }})
	s.unlockAndDeliver()
	return done
}

func (s *Store) queueLocked(t Transition) {
	for _, sub := range s.subscribers {
		s.pending = append(s.pending, delivery{transition: t, to: sub})
	}
}

// unlockAndDeliver lets go of the lock, which it must be called with, and hands out what is pending,
// unless another goroutine is at it already: that one will then hand out ours too, in order.
func (s *Store) unlockAndDeliver() {
	defer s.mu.Unlock()
	if s.delivering || len(s.pending) == 0 {
		return
	}
	s.delivering = true
	defer func() { s.delivering = false }()
	for len(s.pending) > 0 {
		batch := s.pending
		s.pending = nil
		s.handOut(batch)
	}
}

// handOut calls the subscribers without the lock, which it must be called with. What a panic leaves
// over stays pending for the next who delivers, which is the next bookmark at the latest.
func (s *Store) handOut(batch []delivery) {
	s.mu.Unlock()
	next := 0
	defer func() {
		s.mu.Lock()
		if next < len(batch) {
			s.pending = append(batch[next:], s.pending...)
		}
	}()
	for next < len(batch) {
		d := batch[next]
		next++
		if d.call != nil {
			d.call()
		} else if !d.to.ended.Load() {
			d.to.handle(d.transition)
		}
	}
}
