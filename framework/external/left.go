package external

import (
	"maps"
	"sync"

	"github.com/evenkeel/evenkeel/framework"
)

// left is what a run has left, for its postconditions and look-ups.
type left[V any] struct {
	mu     sync.Mutex   // guards below; a leaf
	actual map[string]V // not changed any more
	known  bool
}

func (s *set[P, V]) leftBy(c *framework.Context[P]) *left[V] {
	return c.PerRun(s, func() any { return &left[V]{} }).(*left[V])
}

// get returns a map of the caller's, and whether the run has left anything.
func (l *left[V]) get() (map[string]V, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.actual), l.known
}

func (l *left[V]) set(actual map[string]V) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.actual, l.known = actual, true
}
