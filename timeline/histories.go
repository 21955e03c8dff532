package timeline

import "sync"

// Histories keeps the newest records of every key, until the key is forgotten. A nil Histories
// keeps nothing at no cost.
type Histories struct {
	size int

	mu    sync.Mutex // guards the fields below; a leaf
	byKey map[string][]Record
}

// NewHistories returns Histories of the newest size records per key. With size ≤ 0 it returns nil,
// which keeps nothing. A key with fewer records uses no more memory than these need.
func NewHistories(size int) *Histories {
	if size <= 0 {
		return nil
	}
	return &Histories{size: size, byKey: map[string][]Record{}}
}

// Add stores a record under its key, and drops the oldest record of that key if there are too many.
// The histories own the record's slices from then on.
func (h *Histories) Add(record Record) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	kept := h.byKey[record.Key]
	if len(kept) >= h.size {
		copy(kept, kept[1:])
		kept[len(kept)-1] = record
		return
	}
	h.byKey[record.Key] = append(kept, record)
}

// Of returns the records of a key, oldest first. The slice is the caller's; what it refers to is
// shared and must not be changed.
func (h *Histories) Of(key string) []Record {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]Record(nil), h.byKey[key]...)
}

// Forget drops the records of a key.
func (h *Histories) Forget(key string) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.byKey, key)
}

// Len returns the number of keys that have records.
func (h *Histories) Len() int {
	if h == nil {
		return 0
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.byKey)
}
