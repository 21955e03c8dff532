package trc

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// WatchState is what a watch is doing.
type WatchState int

// The states of a watch.
const (
	// Waiting means that the watch has not begun, or has ended or failed and is started again later.
	Waiting WatchState = iota
	// Listing means that a list was requested and is not complete.
	Listing
	// Watching means that events and bookmarks may arrive.
	Watching
	// Silent means that events or bookmarks are overdue; see [Store.Stale].
	Silent
)

// String returns one lower-case word.
func (s WatchState) String() string {
	switch s {
	case Waiting:
		return "waiting"
	case Listing:
		return "listing"
	case Watching:
		return "watching"
	case Silent:
		return "silent"
	}
	return fmt.Sprintf("WatchState(%d)", int(s))
}

// MarshalText returns String.
func (s WatchState) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// WatchHealth describes the state of one watch. A time is zero if the event has not happened.
type WatchHealth struct {
	// Namespace is the watched namespace, "" for all.
	Namespace string     `json:"namespace"`
	State     WatchState `json:"state"`
	// Listed is set once the first list has arrived.
	Listed bool `json:"listed"`
	// LastEvent, LastBookmark and LastList are the times of the last arrivals.
	LastEvent    time.Time `json:"lastEvent,omitzero"`
	LastBookmark time.Time `json:"lastBookmark,omitzero"`
	LastList     time.Time `json:"lastList,omitzero"`
	// Progress is the version up to which everything is in the store, empty if there is none.
	Progress string `json:"progress,omitempty"`
	// Err is the failure of the last request, nil if it succeeded. Error is its text.
	Err   error  `json:"-"`
	Error string `json:"error,omitempty"`
	// FailuresInRow is the number of requests that failed since the last success. Failures is the
	// number of all failed requests, and LastFailure is the time of the latest.
	FailuresInRow int       `json:"failuresInRow,omitempty"`
	Failures      int       `json:"failures,omitempty"`
	LastFailure   time.Time `json:"lastFailure,omitzero"`
}

// doing is what a watch is doing. Its times count from when the store was made; 0 means never.
type doing struct {
	state                 atomic.Int32
	event, bookmark, list atomic.Int64
	failed                atomic.Int64
	failures, inRow       atomic.Int32
	barren                atomic.Int32 // consecutive watches that ended as soon as they had begun
}

// A watch that ends within shortWatch and delivers nothing after its list is barren. barrenLimit
// barren watches in a row are a failure.
const (
	shortWatch  = time.Second
	barrenLimit = 3
)

func (d *doing) begin(state WatchState) { d.state.Store(int32(state)) }

// end records the end of a watch that began at begun, unless something else has started since.
func (w *Watch) end(begun time.Time) {
	d := &w.doing
	d.state.CompareAndSwap(int32(Watching), int32(Waiting))
	began, now := int64(begun.Sub(w.store.born)), int64(time.Since(w.store.born))
	since := max(began, d.list.Load()) // a streamed list may take long
	if now-since >= int64(shortWatch) || max(d.event.Load(), d.bookmark.Load()) > began {
		d.barren.Store(0)
		return
	}
	if n := d.barren.Add(1); n >= barrenLimit {
		d.failures.Add(1)
		d.inRow.Add(1)
		d.failed.Store(int64(time.Since(w.store.born)))
	}
}

// lasts reports whether a watch has been open for at least shortWatch.
func (w *Watch) isLasting() bool {
	return WatchState(w.doing.state.Load()) == Watching && time.Since(w.store.born)-time.Duration(w.begun.Load()) >= shortWatch
}

// barrenErr returns an error if the last watches were barren, otherwise nil.
func (w *Watch) barrenErr() error {
	if n := w.doing.barren.Load(); n >= barrenLimit && !w.isLasting() {
		return fmt.Errorf("trc: the last %d watches ended as soon as they had begun", n)
	}
	return nil
}

// recordErr counts failures.
func (w *Watch) recordErr(err error) {
	if err == nil {
		if w.doing.barren.Load() < barrenLimit {
			w.doing.inRow.Store(0)
		}
		return
	}
	w.doing.begin(Waiting)
	w.doing.inRow.Add(1)
	w.doing.failures.Add(1)
	w.doing.failed.Store(int64(time.Since(w.store.born)))
}

// Watches returns the state of all watches, sorted by namespace.
func (s *Store) Watches() []WatchHealth {
	s.mu.RLock()
	defer s.mu.RUnlock()
	all := make([]WatchHealth, 0, len(s.watches))
	for _, w := range s.watches {
		all = append(all, w.healthLocked())
	}
	slices.SortFunc(all, func(a, b WatchHealth) int { return strings.Compare(a.Namespace, b.Namespace) })
	return all
}

func (w *Watch) healthLocked() WatchHealth {
	d := &w.doing
	at := func(since *atomic.Int64) time.Time {
		if since := since.Load(); since > 0 {
			return w.store.born.Add(time.Duration(since)).Round(0)
		}
		return time.Time{}
	}
	h := WatchHealth{
		Namespace: w.namespace, State: WatchState(d.state.Load()), Listed: w.listed,
		LastEvent: at(&d.event), LastBookmark: at(&d.bookmark), LastList: at(&d.list), LastFailure: at(&d.failed),
		Err: w.lastErr(), FailuresInRow: int(d.inRow.Load()), Failures: int(d.failures.Load()),
	}
	if w.progress > 0 {
		h.Progress = strconv.FormatUint(w.progress, 10)
	}
	if h.Err != nil {
		h.Error = h.Err.Error()
	}
	if silent, limit := w.silence(); h.State == Watching && silent > limit {
		h.State = Silent
	}
	return h
}
