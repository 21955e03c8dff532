package trc

import (
	"container/heap"
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
)

// entry is a key whose shown state is ahead of its watch.
//
// Invariants, while versions are comparable: it is in its watch's heap exactly if its version is beyond
// the watch's progress; if it is not, gone is set and base has its UID. While they are not: it is in no
// heap; gone is set and base has its UID, or tip is set and base is one of the links.
type entry struct {
	key     Key
	watch   *Watch
	version uint64
	uid     types.UID // whose version that is
	result  filing    // what is shown; nothing if it is gone, or outside the selector
	gone    bool      // the object with uid is known to be deleted, at a version after this one
	base    filing    // what the watch would show
	place   int       // in the heap of the watch; outside if it is in none

	links []string // where versions are no integers: those before tip, linked by proofs; "" is absence
	tip   string   // and that of result
}

const outside = -1

// hides reports whether the entry outlives the news that its key is f as of version.
func (e *entry) hides(version uint64, f *filing) bool {
	if e.tip != "" {
		return e.isBeyond(f)
	}
	if version < e.version {
		return true
	}
	return e.gone && f.uid() == e.uid
}

// Ahead returns the number of keys whose shown state is ahead of their watch.
func (s *Store) Ahead() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.ahead)
}

// AheadOf reports whether what is shown of a key is ahead of its watch.
func (s *Store) AheadOf(key Key) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.ahead[key] != nil
}

// Room returns once fewer keys are ahead of their watch than [Options.AheadLimit], or when ctx has
// ended, with an error that says how many are. Writers call it before they send: their answers are
// never dropped, so writes under way when the overlay fills up still find their place in it.
func (s *Store) Room(ctx context.Context) error {
	for {
		s.mu.Lock()
		if len(s.ahead) < s.options.AheadLimit {
			s.mu.Unlock()
			return nil
		}
		if s.room == nil {
			s.room = make(chan struct{})
		}
		room, full := s.room, s.fullLocked()
		s.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", full, context.Cause(ctx))
		}
	}
}

func (s *Store) fullLocked() error {
	if len(s.ahead) < s.options.AheadLimit {
		return nil
	}
	return fmt.Errorf("trc: store %s: wait for the watch: %d keys are ahead of it, the limit is %d",
		s.options.Name, len(s.ahead), s.options.AheadLimit)
}

// keepLocked takes an entry in, in the place of any that its key had.
func (s *Store) keepLocked(e *entry) {
	s.forgetLocked(e.key)
	s.ahead[e.key] = e
	e.place = outside
	if e.version > e.watch.progress {
		heap.Push(&e.watch.ahead, e)
	}
}

// raiseLocked makes an entry last until its watch has passed a version.
func (s *Store) raiseLocked(e *entry, version uint64) {
	e.version = max(e.version, version)
	if e.place != outside {
		heap.Fix(&e.watch.ahead, e.place)
	} else if e.version > e.watch.progress {
		heap.Push(&e.watch.ahead, e)
	}
}

// forgetLocked lets go of the entry of a key, whatever is shown.
func (s *Store) forgetLocked(key Key) {
	e := s.ahead[key]
	if e == nil {
		return
	}
	delete(s.ahead, key)
	if e.place != outside {
		heap.Remove(&e.watch.ahead, e.place)
	}
	if s.room != nil && len(s.ahead) < s.options.AheadLimit {
		close(s.room)
		s.room = nil
	}
}

// passLocked moves the progress of a watch and lets go of the entries it has passed. Those that the
// watch said nothing of are not what readers of it would see: its own state is shown again.
func (s *Store) passLocked(w *Watch, version uint64) {
	w.progress = version
	for len(w.ahead) > 0 && w.ahead[0].version <= version {
		e := w.ahead[0]
		if e.hides(version, &e.base) {
			heap.Pop(&w.ahead) // it lasts until the watch has seen the object go
			continue
		}
		s.forgetLocked(e.key)
		s.showLocked(e.key, &e.base, false, false)
	}
}

// byVersion is the entries of a watch as a heap, the one that is passed next on top.
type byVersion []*entry

func (h byVersion) Len() int           { return len(h) }
func (h byVersion) Less(i, j int) bool { return h[i].version < h[j].version }

func (h byVersion) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

// Push adds an *entry, as heap.Interface wants it.
func (h *byVersion) Push(x any) {
	e := x.(*entry)
	e.place = len(*h)
	*h = append(*h, e)
}

// Pop removes the last, as heap.Interface wants it.
func (h *byVersion) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = nil
	*h = shrunk((*h)[:last])
	e.place = outside
	return e
}
