package trc

// Leftovers counts what a store without objects and without anything ahead must not hold (G16).
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
