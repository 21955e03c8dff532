package trc

import (
	"slices"
	"sync"
	"sync/atomic"
)

// Transition is one change of what readers see of one object. Old is nil for an addition, New is
// nil for a deletion. Otherwise both have the same UID.
//
// The transitions of one object form a chain: the New of one is the Old of the next. There are four
// exceptions. Late transitions are not part of the chain. An object of a namespace that was removed
// and added again comes as an addition. So does an object that was undecodable for a while (see
// [Store.Undecodable]). A subscriber that fell behind may miss transitions (see
// [Subscriber].Missed).
type Transition struct {
	Old, New Object
	// Initial is set for objects that existed when the subscription began, and for those in the first
	// list of a watch.
	Initial bool
	// Late is set if Old is the answer to an own write that the watch, or a newer answer, had already
	// passed when it was acknowledged, and New is what is visible instead. Readers never saw Old. A
	// subscriber may receive a change twice because of it, but never misses one.
	Late bool
}

// Subscriber receives transitions.
type Subscriber struct {
	// Handle is called for every transition, in order and one at a time. Required.
	//
	// Unless Apart is set, it must not block for long: it holds up the watch and all other
	// subscribers. If it panics, the goroutine that delivers panics, which may be the watch's or a
	// writer's. Only that transition of that subscriber is lost.
	Handle func(Transition)
	// Of names the owner of the subscription, for [Store.AfterTo] and [Store.DeliveredTo]. Default: no
	// owner.
	Of string
	// Apart calls Handle and Missed from a goroutine of the subscriber's own, so nobody else waits for
	// them. Use it for code that may block, panic or end its goroutine. If Handle does not return, its
	// transition counts as missed.
	Apart bool
	// Missed is called if transitions were left out. It applies only with Apart. A subscriber that
	// falls far behind receives only the first and the last state of each object, and nothing of
	// objects that came and went meanwhile. Missed is called once the remaining transitions have been
	// delivered.
	Missed func()
}

// keptApart is how many transitions may wait for a subscriber that is [Subscriber].Apart before
// some are left out. After that, the queue holds at most one transition for each object that
// exists, or existed when it fell behind, and as many again.
const keptApart = 4096

// Subscription is an active [Subscriber].
type Subscription struct {
	store *Store
	to    *subscriber
}

type subscriber struct {
	Subscriber
	ended atomic.Bool

	mu       sync.Mutex // guards the fields below; used only with Apart; taken after the store's lock
	waiting  []delivery
	draining bool
	limit    int
}

// delivery is one call to make without the lock, in order.
type delivery struct {
	transition Transition
	to         *subscriber
	call       func()   // instead of a transition; in the order of one subscriber if to is set
	all        *waiters // instead of a transition
	missed     bool     // instead of a transition: some were left out
}

// waiters counts the subscribers that a function waits for.
type waiters struct {
	of   string // the owner of these subscribers; empty for all
	left atomic.Int32
	then func()
}

func (w *waiters) arrive() {
	if w.left.Add(-1) == 0 {
		w.then()
	}
}

// Subscribe is [Store.SubscribeAs] with only a Handle function.
func (s *Store) Subscribe(handle func(Transition)) (unsubscribe func()) {
	return s.SubscribeAs(Subscriber{Handle: handle}).End
}

// SubscribeAs delivers every present object as an initial addition, and then every transition, in
// order and one at a time.
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

// End ends the subscription. No call begins after it has returned, except one that another
// goroutine was about to make.
func (n *Subscription) End() {
	n.to.ended.Store(true)
	s := n.store
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subscribers = slices.DeleteFunc(s.subscribers, func(other *subscriber) bool { return other == n.to })
}

// Later queues f between the transitions that were queued for the subscriber before and those
// queued after. It only takes the place in the queue, so the caller may hold a lock that
// subscribers need. The caller must call deliver afterwards without that lock. f is called by
// deliver, or by whichever goroutine delivers next.
func (n *Subscription) Later(f func()) (deliver func()) {
	return n.store.queue(delivery{call: f, to: n.to})
}

// After calls f once everything that was queued for the subscribers before it has been delivered. f
// is called from a delivering goroutine or from this one.
func (s *Store) After(f func()) { s.AfterTo("", f) }

// AfterTo is After for the subscribers of one owner; see [Subscriber].Of. Subscribers that are not
// Apart belong to every owner. f may be called earlier if a subscriber has missed something.
func (s *Store) AfterTo(of string, f func()) {
	s.queue(delivery{all: &waiters{of: of, then: f}})()
}

// Later is After for callers that hold a lock which subscribers need: it only takes the place in
// the queue. The caller must call deliver afterwards without that lock. f is called by deliver, or
// by whichever goroutine delivers next. It may be called earlier as with AfterTo.
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

// Delivered returns a channel that is closed once everything that was queued for the subscribers
// before the call has been delivered. It returns nil if all has been delivered. A subscriber must
// not wait for the channel.
func (s *Store) Delivered() <-chan struct{} { return s.DeliveredTo("") }

// DeliveredTo is Delivered for the subscribers of one owner; see [Store.AfterTo].
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

// unlockAndDeliver releases the lock, which the caller must hold, and delivers what is pending. If
// another goroutine is delivering already, that one delivers these too, in order.
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

// handOut calls the subscribers without the lock, which the caller must hold. After a panic the
// rest stays pending for the next delivery, which is the next bookmark at the latest.
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

// waitForAll calls w once the subscribers that are Apart have caught up with the others.
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

// isOf reports whether a subscriber that is Apart belongs to an owner; all belong to "".
func (s *subscriber) isOf(of string) bool { return s.Apart && (of == "" || s.Of == of) }
