package run

import (
	"strings"
	"sync"
)

// reserved holds the prefixes of labels and annotations of a run's primary that no UpdateControl
// may change. The zero value holds none.
type reserved struct {
	mu       sync.Mutex // guards prefixes; a leaf
	prefixes []string
}

// Add reserves a prefix.
func (r *reserved) Add(prefix string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.prefixes = append(r.prefixes, prefix)
}

// restore copies the reserved labels and annotations of before to after, and removes all others
// with a reserved prefix from after.
func (r *reserved) restore(before, after map[string]any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, prefix := range r.prefixes {
		for _, field := range []string{"labels", "annotations"} {
			restoreEntries(prefix, field, before, after)
		}
	}
}

func restoreEntries(prefix, field string, before, after map[string]any) {
	from, _ := before["metadata"].(map[string]any)
	to, _ := after["metadata"].(map[string]any)
	was, _ := from[field].(map[string]any)
	is, _ := to[field].(map[string]any)
	for key := range is {
		if strings.HasPrefix(key, prefix) {
			delete(is, key)
		}
	}
	for key, value := range was {
		if !strings.HasPrefix(key, prefix) {
			continue
		}
		if is == nil {
			is = map[string]any{}
			to[field] = is
		}
		is[key] = value
	}
}
