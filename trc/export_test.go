package trc

import "slices"

// Leftovers counts what a store without objects and without overlay entries must not hold (G16).
func (s *Store) Leftovers() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	n := len(s.items.byName) + len(s.items.others) + len(s.items.namespaces) + len(s.ahead) + len(s.pending)
	for _, i := range s.indexesNow() {
		n += len(i.buckets)
	}
	n += len(s.items.managers.numbers) + len(s.items.managers.names) - len(s.items.managers.free)
	for _, w := range s.watches {
		n += len(w.ahead)
	}
	return n
}

// Stray counts what is filed under removed indexes.
func (s *Store) Stray() (n int) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	isGone := func(i *index) bool { return !slices.Contains(s.indexesNow(), i) }
	for _, of := range s.items.namespaces {
		for _, it := range of.items {
			for p := it.postings; p != nil; p = p.next {
				if isGone(p.bucket.index) {
					n++
				}
			}
		}
	}
	for _, e := range s.ahead {
		for _, v := range slices.Concat(e.base.values, e.result.values) {
			if isGone(v.index) {
				n++
			}
		}
	}
	return n
}

// WaitingFor returns the length of the queue of a subscriber that is Apart.
func WaitingFor(n *Subscription) int {
	n.to.mu.Lock()
	defer n.to.mu.Unlock()
	return len(n.to.waiting)
}
