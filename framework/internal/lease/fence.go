package lease

import (
	"sync"

	"github.com/evenkeel/evenkeel/framework/internal/planning"
)

// Fence reports whether this instance may write: while it holds the lease, or always if there is no
// leader election. The zero value is for no election. It is safe for concurrent use.
type Fence struct {
	// Required says that there is a leader election. It must be set before the fence is used.
	Required bool
	// Plan is set if everything is only planned; nil otherwise. It must be set before the fence is
	// used.
	Plan planning.Plan

	mu   sync.Mutex // guards term; a leaf
	term *Term      // nil while standing by
}

// Set begins a term: writes are allowed while it lasts.
func (f *Fence) Set(t *Term) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.term = t
}

// Clear ends a term: new writes are refused, those in flight are cancelled. It returns when they
// have ended, see [Inflight.Close].
func (f *Fence) Clear(t *Term) {
	f.mu.Lock()
	if f.term == t {
		f.term = nil
	}
	f.mu.Unlock()
	t.Inflight.Close()
}

// Current returns the present term. It is nil while standing by, and if there is no election.
func (f *Fence) Current() *Term {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.term
}

// Allowed reports whether a request may be sent now. It must be called before each request.
func (f *Fence) Allowed() bool {
	if !f.Required {
		return true
	}
	t := f.Current()
	return t != nil && t.Lasts()
}
