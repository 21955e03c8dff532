package external

import (
	"maps"
	"sync"

	"github.com/evenkeel/evenkeel/framework"
)

// runValues holds the values that a run has left, for its postconditions and lookups.
type runValues[V any] struct {
	mu     sync.Mutex   // guards the fields below; a leaf
	actual map[string]V // the map must not be changed
	known  bool
}

func (s *set[P, V]) leftBy(c *framework.Context[P]) *runValues[V] {
	return c.RunValue(s, func() any { return &runValues[V]{} }).(*runValues[V])
}

// get returns a copy of the map, and whether the run has left anything.
func (l *runValues[V]) get() (map[string]V, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.actual), l.known
}

func (l *runValues[V]) set(actual map[string]V) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.actual, l.known = actual, true
}
