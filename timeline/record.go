package timeline

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/evenkeel/evenkeel/internal/author"
)

// Outcome is how a run ended.
type Outcome int

// The outcomes.
const (
	// Succeeded means that the run returned without an error.
	Succeeded Outcome = iota
	// Failed means that it returned an error, and is retried if the policy grants that.
	Failed
	// Panicked means that the author's code panicked, which counts as a failure of this key alone.
	Panicked
	// Gone means that the primary no longer exists; the key's state was dropped.
	Gone
)

// String returns the outcome in lower case.
func (o Outcome) String() string {
	switch o {
	case Succeeded:
		return "succeeded"
	case Failed:
		return "failed"
	case Panicked:
		return "panicked"
	case Gone:
		return "gone"
	}
	return fmt.Sprintf("Outcome(%d)", int(o))
}

// Record describes one run of one key.
type Record struct {
	// Key is the primary's namespace/name, or its name if it is cluster-scoped.
	Key string
	// Causes are the reasons for the run: everything that arrived before it started.
	Causes []Cause
	// Waited is the time from the first cause to the start of the run. It includes gates such as
	// back-off.
	Waited time.Duration
	// Queued is the last part of Waited, in which the key was due and only other keys, or a pause,
	// held it back.
	Queued time.Duration
	// Gate is what last held the key back. It is Workers only if nothing else did.
	Gate Gate
	// Started is the wall-clock time of the start, Duration the length of the run.
	Started  time.Time
	Duration time.Duration
	// Attempt is the number of the retry, or 0 if the run was none.
	Attempt int
	// Requests are the write requests that the run sent, in order.
	Requests []Request
	// Nodes are the results of the controller's workflow nodes, for each pass that the run made.
	Nodes []Node
	// ReadsAhead is the number of objects that the run read from the overlay: as they were in the
	// answers to own writes, ahead of their watch.
	ReadsAhead int
	// Fights are the fights that writes of the run were part of. Loop is the loop that the run belongs
	// to, nil if there is none.
	Fights  []Fight
	Loop    *Chain
	Outcome Outcome
	// Err is the error's text, empty unless Outcome is Failed or Panicked. Stack is the stack of the
	// panic.
	Err, Stack string
	// Excused is set if the run itself did not cause the failure: it was cut off, as by a stop, or the
	// server asked to come again later.
	Excused bool
	// Final is set if the error says that no retry can mend it, so none follows.
	Final bool
	// Rescheduled is set if the run itself asked for another one: at once, after a time, or because it
	// had no effect.
	Rescheduled bool
	// ID is the run's reconcileID in the log, empty if nothing was logged with it.
	ID string
	// Next is the time until the next run that is already certain (retry, reschedule or max interval),
	// 0 if there is none.
	Next time.Duration
}

// String returns one line for a log or a terminal.
func (r Record) String() string {
	causes := make([]string, len(r.Causes))
	for i, c := range r.Causes {
		causes[i] = author.Sprint(c)
	}
	line := fmt.Sprintf("%s %s in %v because %s; %d writes", r.Key, r.Outcome, r.Duration, strings.Join(causes, ", "), len(r.Requests))
	if len(r.Nodes) > 0 {
		nodes := make([]string, len(r.Nodes))
		for i, n := range r.Nodes {
			nodes[i] = n.String()
		}
		line += "; nodes " + strings.Join(nodes, ", ")
	}
	if r.Err != "" {
		line += ": " + r.Err
	}
	return line
}

// Recorder keeps the newest records in a ring. A nil Recorder keeps nothing at no cost.
type Recorder struct {
	mu   sync.Mutex // guards the fields below; a leaf
	ring []Record
	next int
	full bool
}

// NewRecorder returns a recorder of the newest size records. With size ≤ 0 it returns nil, which
// records nothing.
func NewRecorder(size int) *Recorder {
	if size <= 0 {
		return nil
	}
	return &Recorder{ring: make([]Record, size)}
}

// Add stores a record and drops the oldest one if the ring is full. The recorder owns the record's
// slices from then on.
func (r *Recorder) Add(record Record) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ring[r.next] = record
	r.next++
	if r.next == len(r.ring) {
		r.next, r.full = 0, true
	}
}

// Records returns the stored records in the order of their starts, oldest first. The slice is the
// caller's; what it refers to is shared and must not be changed.
func (r *Recorder) Records() []Record {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var records []Record
	if r.full {
		records = slices.Clone(r.ring[r.next:])
	}
	records = append(records, r.ring[:r.next]...)
	// A record may be added after that of a run that started later.
	slices.SortStableFunc(records, func(a, b Record) int { return a.Started.Compare(b.Started) })
	return records
}
