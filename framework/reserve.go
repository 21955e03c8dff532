package framework

import (
	"strings"
	"sync"
)

// reserved are the prefixes that labels and annotations of a run's primary must have to be nobody's to change by an [UpdateControl]. The zero value is none.
type reserved struct {
	mu       sync.Mutex // guards prefixes; a leaf
	prefixes []string
}

// Reserve keeps the primary's labels and annotations whose keys begin with a prefix as they are, whatever the object that the run's [UpdateControl] carries says of them: an
// author who sets all labels anew, as the framework's finalizer stays though all finalizers are set anew, takes none of those off. It is for what keeps notes
// on primaries, and what it writes itself is not held up. The prefix should end with a slash.
func (c *Context[P]) Reserve(prefix string) {
	c.run.reserved.mu.Lock()
	defer c.run.reserved.mu.Unlock()
	c.run.reserved.prefixes = append(c.run.reserved.prefixes, prefix)
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
