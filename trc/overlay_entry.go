package trc

import (
	"container/heap"
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
)

// overlayEntry is a key whose visible state is ahead of its watch.
//
// Invariants while versions are comparable: it is in its watch's heap if and only if its version is
// greater than the watch's progress. If it is not in the heap, gone is set and base has its UID.
//
// Invariants while versions are incomparable: it is in no heap. Either gone is set and base has its
// UID, or tip is set and base is one of the links.
type overlayEntry struct {
	key     Key
	watch   *Watch
	version uint64
	uid     types.UID // of the object with that version
	result  filing    // what readers see; nothing if it is gone, or outside the selector
	gone    bool      // the object with uid was deleted, at a later version than this one
	base    filing    // what the watch would show
	place   int       // index in the heap of the watch, or outside

	links []string // while incomparable: versions before tip, linked by proofs; "" is absence
	tip   string   // while incomparable: the version of result
}

const outside = -1

// hides reports whether the entry stays in force after the watch reported, as of version, that its
// key is f.
func (e *overlayEntry) hides(version uint64, f *filing) bool {
	if e.tip != "" {
		return e.isBeyond(f)
	}
	if version < e.version {
		return true
	}
	return e.gone && f.uid() == e.uid
}

// Ahead returns the number of keys whose visible state is ahead of their watch.
func (s *Store) Ahead() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.ahead)
}

// AheadOf reports whether the visible state of a key is ahead of its watch.
func (s *Store) AheadOf(key Key) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.ahead[key] != nil
}

// Room waits until fewer than [Options.AheadLimit] keys are ahead of their watch. If ctx ends
// first, it returns an error that names the number of keys. Writers must call it before they send a
// request. Answers are never dropped: the answers to requests already under way are stored even if
// the overlay is full.
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

// putEntryLocked adds an entry and replaces any other entry of its key.
func (s *Store) putEntryLocked(e *overlayEntry) {
	s.removeEntryLocked(e.key)
	s.ahead[e.key] = e
	e.place = outside
	if e.version > e.watch.progress {
		heap.Push(&e.watch.ahead, e)
	}
}

// raiseEntryLocked keeps an entry in force until its watch has passed a version.
func (s *Store) raiseEntryLocked(e *overlayEntry, version uint64) {
	e.version = max(e.version, version)
	if e.place != outside {
		heap.Fix(&e.watch.ahead, e.place)
	} else if e.version > e.watch.progress {
		heap.Push(&e.watch.ahead, e)
	}
}

// removeEntryLocked removes the entry of a key. It does not change what readers see.
func (s *Store) removeEntryLocked(key Key) {
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

// advanceLocked sets the progress of a watch and removes the entries that it has passed. The watch
// said nothing about their keys, so readers see the watch's state again.
func (s *Store) advanceLocked(w *Watch, version uint64) {
	w.progress = version
	for len(w.ahead) > 0 && w.ahead[0].version <= version {
		e := w.ahead[0]
		if e.hides(version, &e.base) {
			heap.Pop(&w.ahead) // the entry stays until the watch has seen the deletion
			continue
		}
		s.removeEntryLocked(e.key)
		s.setVisibleLocked(e.key, &e.base, false, false)
	}
}

// byVersion is a heap of the entries of a watch. The lowest version is on top.
type byVersion []*overlayEntry

func (h byVersion) Len() int           { return len(h) }
func (h byVersion) Less(i, j int) bool { return h[i].version < h[j].version }

func (h byVersion) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

// Push adds an *overlayEntry. It implements heap.Interface.
func (h *byVersion) Push(x any) {
	e := x.(*overlayEntry)
	e.place = len(*h)
	*h = append(*h, e)
}

// Pop removes the last entry. It implements heap.Interface.
func (h *byVersion) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = nil
	*h = shrunk((*h)[:last])
	e.place = outside
	return e
}
