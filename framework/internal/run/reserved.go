package run

import (
	"strings"
	"sync"
)

// reserved are the prefixes that labels and annotations of a run's primary must have to be nobody's to change by an [framework.UpdateControl]. The zero value is none.
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

// restore puts what is reserved of one content's metadata into another's.
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
