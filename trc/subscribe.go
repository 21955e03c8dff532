package trc

import (
	"slices"
	"sync"
	"sync/atomic"
)

// Transition is a step of what readers see of one object. Old is nil for an addition, New for a
// deletion; both have the same UID otherwise.
//
// The steps of one object form a chain: the New of one is the Old of the next. There are four exceptions:
// steps that are Late, an object of a namespace that was removed and added again, one that was set aside for
// a while (see [Store.SetAside]): these come as additions anew; and a subscriber that was left behind (see
// [Subscriber].Missed).
type Transition struct {
	Old, New Object
	// Initial is set for objects that were there when the subscription began or that a list found.
	Initial bool
	// Late is set for a step from the answer to an own write that the watch, or a newer answer, had
	// passed before it was acknowledged, to what is shown instead: nobody could see Old. What a
	// subscriber was told of the way there may be told so a second time, but it is never left out.
	Late bool
}

// Subscriber is somebody who is told of transitions.
type Subscriber struct {
	// Handle is called for every transition, in order and one at a time; required.
	//
	// It must not block for long, unless it is Apart: it holds up the watch and all others. If it panics, whoever
	// delivers does, be it the watch or a writer; only that transition of that subscriber is lost.
	Handle func(Transition)
	// Of names whose it is, for [Store.AfterTo] and [Store.DeliveredTo]. Default: nobody's in particular.
	Of string
	// Apart has Handle and Missed called from a goroutine of its own, as for code that may block, panic or end its
	// goroutine: nobody else waits for it then. If it does not return from a transition, that one counts as missed.
	Apart bool
	// Missed is called, for one that is Apart, when transitions were left out: it was so far behind that only the
	// first and the last state of each object were kept, and nothing of objects that came and went meanwhile. It is
	// called once what is left has been delivered.
	Missed func()
}

// keptApart is how many transitions wait for a subscriber that is [Subscriber].Apart before steps are left out. What
// waits then is at most one step for each object that there is, or was when it fell behind, and as many again.
const keptApart = 4096

// Subscription is that of a [Subscriber].
type Subscription struct {
	store *Store
	to    *subscriber
}

type subscriber struct {
	Subscriber
	ended atomic.Bool

	mu       sync.Mutex // guards below, of one that is Apart; taken after that of the store
	waiting  []delivery
	draining bool
	limit    int
}

// delivery is something to call without the lock, in order.
type delivery struct {
	transition Transition
	to         *subscriber
	call       func()   // instead of telling a transition; in the order of one subscriber if to is set
	all        *waiters // instead of telling a transition
	missed     bool     // instead of telling a transition: that some were left out
}

// waiters are those subscribers that something waits for.
type waiters struct {
	of   string // those of this one alone, unless it is empty
	left atomic.Int32
	then func()
}

func (w *waiters) arrive() {
	if w.left.Add(-1) == 0 {
		w.then()
	}
}

// Subscribe is [Store.SubscribeAs] with a function alone.
func (s *Store) Subscribe(handle func(Transition)) (unsubscribe func()) {
	return s.SubscribeAs(Subscriber{Handle: handle}).End
}

// SubscribeAs delivers every object there is as an initial addition, and every transition from then
// on, in order and one at a time.
func (s *Store) SubscribeAs(as Subscriber) *Subscription {
	sub := &subscriber{Subscriber: as, limit: keptApart}
	s.mu.Lock()
	for _, o := range s.items.objects("") {
		s.pending = append(s.pending, delivery{transition: Transition{New: o, Initial: true}, to: sub})
	}
	s.subscribers = append(s.subscribers, sub)
	s.unlockAndDeliver()
	return &Subscription{store: s, to: sub}
}

// End ends the subscription: no call begins after it has returned, except one that another goroutine is just about to
// make.
func (n *Subscription) End() {
	n.to.ended.Store(true)
	s := n.store
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subscribers = slices.DeleteFunc(s.subscribers, func(other *subscriber) bool { return other == n.to })
}

// Later has f called between what was queued for the subscriber before and what is queued after. It only takes the place
// in the queue, so that it may be called with a lock that subscribers must not be called under. f is called by whoever
// delivers next, or else by deliver, which must be called.
func (n *Subscription) Later(f func()) (deliver func()) {
	return n.store.queue(delivery{call: f, to: n.to})
}

// After calls f once everything that was queued for the subscribers when After was called has been
// delivered, from a goroutine that delivers or from this one.
func (s *Store) After(f func()) { s.AfterTo("", f) }

// AfterTo is After for the subscribers of one alone; see [Subscriber].Of. Those that are not Apart count as everybody's.
// It may be called earlier where a subscriber has missed something.
func (s *Store) AfterTo(of string, f func()) {
	s.queue(delivery{all: &waiters{of: of, then: f}})()
}

// Later is After for who holds a lock that subscribers must not be called under: it only takes the place in the queue. f is
// called by whoever delivers next, or else by deliver, which must be called; it may be called earlier as with AfterTo.
func (s *Store) Later(f func()) (deliver func()) {
	return s.queue(delivery{all: &waiters{then: f}})
}

func (s *Store) queue(d delivery) (deliver func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending = append(s.pending, d)
	return func() {
		s.mu.Lock()
		s.unlockAndDeliver()
	}
}

// Delivered returns a channel that is closed once everything that was queued for the subscribers when it was called
// has been delivered, or nil if it has been. A subscriber must not wait for it.
func (s *Store) Delivered() <-chan struct{} { return s.DeliveredTo("") }

// DeliveredTo is Delivered for the subscribers of one alone; see [Store.AfterTo].
func (s *Store) DeliveredTo(of string) <-chan struct{} {
	s.mu.Lock()
	if !s.delivering && len(s.pending) == 0 && !slices.ContainsFunc(s.subscribers, func(sub *subscriber) bool { return sub.isOf(of) && sub.isBehind() }) {
		s.mu.Unlock()
		return nil
	}
	done := make(chan struct{})
	s.pending = append(s.pending, delivery{all: &waiters{of: of, then: func() { close(done) }}})
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
		switch {
		case d.all != nil:
			s.waitForAll(d.all)
		case d.to != nil && d.to.Apart:
			d.to.forward(d)
		case d.call != nil:
			d.call()
		case !d.to.ended.Load():
			d.to.Handle(d.transition)
		}
	}
}

// waitForAll has something called once those subscribers that are Apart have come as far as the others.
func (s *Store) waitForAll(w *waiters) {
	var behind []*subscriber
	s.mu.RLock()
	for _, sub := range s.subscribers {
		if sub.isOf(w.of) && sub.isBehind() {
			behind = append(behind, sub)
		}
	}
	s.mu.RUnlock()
	w.left.Store(int32(len(behind)) + 1)
	for _, sub := range behind {
		sub.forward(delivery{all: w})
	}
	w.arrive()
}

// isOf tells whether a subscriber that is Apart is somebody's; all are nobody's.
func (s *subscriber) isOf(of string) bool { return s.Apart && (of == "" || s.Of == of) }
