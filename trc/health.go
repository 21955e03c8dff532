package trc

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// WatchState is what a watch does.
type WatchState int

// The states of a watch.
const (
	// Waiting: it has not begun, or it ended or failed, and is begun again after a while.
	Waiting WatchState = iota
	// Listing: a list was asked for and is not complete.
	Listing
	// Watching: events and bookmarks may come.
	Watching
	// Silent: they should have come; see [Store.Stale].
	Silent
)

// String is one lower-case word.
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

// MarshalText is String.
func (s WatchState) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// WatchHealth is how one watch does. Times are zero for what has not happened.
type WatchHealth struct {
	// Namespace is what it covers, empty for all.
	Namespace string     `json:"namespace"`
	State     WatchState `json:"state"`
	// Listed says that the first list has arrived.
	Listed bool `json:"listed"`
	// LastEvent, LastBookmark and LastList are when they arrived.
	LastEvent    time.Time `json:"lastEvent,omitzero"`
	LastBookmark time.Time `json:"lastBookmark,omitzero"`
	LastList     time.Time `json:"lastList,omitzero"`
	// Progress is the version up to which everything is in the store, empty if nothing is known.
	Progress string `json:"progress,omitempty"`
	// Err is why the last request failed, nil if it did not; Error is its text.
	Err   error  `json:"-"`
	Error string `json:"error,omitempty"`
	// FailuresInRow are the requests that failed since the last that did not, Failures all, and LastFailure is when
	// the newest did.
	FailuresInRow int       `json:"failuresInRow,omitempty"`
	Failures      int       `json:"failures,omitempty"`
	LastFailure   time.Time `json:"lastFailure,omitzero"`
}

// doing is what a watch does, and when something came of it, since the store was made; 0 for never.
type doing struct {
	state                 atomic.Int32
	event, bookmark, list atomic.Int64
	failed                atomic.Int64
	failures, inRow       atomic.Int32
	barren                atomic.Int32 // watches in a row that ended as soon as they had begun
}

// Watches that end within shortWatch and bring nothing but a list are no life; barrenLimit of them in a row are a failure.
const (
	shortWatch  = time.Second
	barrenLimit = 3
)

func (d *doing) begin(state WatchState) { d.state.Store(int32(state)) }

// end notes that a watch has ended that began at a time, unless something else has begun since.
func (w *Watch) end(begun time.Time) {
	d := &w.doing
	d.state.CompareAndSwap(int32(Watching), int32(Waiting))
	began, now := int64(begun.Sub(w.store.born)), int64(time.Since(w.store.born))
	since := max(began, d.list.Load()) // a list that is streamed may take long
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

// lasts tells that a watch has been open for longer than those that end at once.
func (w *Watch) lasts() bool {
	return WatchState(w.doing.state.Load()) == Watching && time.Since(w.store.born)-time.Duration(w.begun.Load()) >= shortWatch
}

// barrenErr is what is wrong with watches that end at once, nil if they do not.
func (w *Watch) barrenErr() error {
	if n := w.doing.barren.Load(); n >= barrenLimit && !w.lasts() {
		return fmt.Errorf("trc: the last %d watches ended as soon as they had begun", n)
	}
	return nil
}

// noteErr counts failures.
func (w *Watch) noteErr(err error) {
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

// Watches returns how the watches do, sorted by namespace.
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
