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
	// Succeeded: the run returned without an error.
	Succeeded Outcome = iota
	// Failed: it returned an error and will be retried if the policy grants it.
	Failed
	// Panicked: the author's code panicked; treated as a failure of this key alone.
	Panicked
	// Gone: the primary no longer exists; the key's state was dropped.
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

// Record is one run of one key.
type Record struct {
	// Key is the primary's namespace/name, or its name if it is cluster-scoped.
	Key string
	// Causes are why it ran, merged over everything that arrived before it started.
	Causes []Cause
	// Waited is the time from the first of the causes to the start of the run; it includes gates
	// such as back-off.
	Waited time.Duration
	// Gate is what held it back last; Workers only if nothing else did.
	Gate Gate
	// Started is the wall-clock time of the start, Duration how long the run took.
	Started  time.Time
	Duration time.Duration
	// Attempt is 0, or the number of the retry that this run was.
	Attempt int
	// Requests are the write requests that the run sent, in order.
	Requests []Request
	// Nodes are those of the controller's workflow, in each pass that the run made through it.
	Nodes []Node
	// ReadsAhead counts the objects that the run read from the cache as its watch had not brought them yet:
	// as own writes had been answered.
	ReadsAhead int
	Outcome    Outcome
	// Err is the error's text, empty unless Outcome is Failed or Panicked; Stack is where it Panicked.
	Err, Stack string
	// Excused says that the failure is none of the run's own: it was cut off, as by a stop, or the server asked to
	// come again later.
	Excused bool
	// ID is what the log calls the run's reconcileID; empty if nothing was logged with it.
	ID string
	// Next is the wait until the next run that is already certain (retry, reschedule or max
	// interval), 0 if none is.
	Next time.Duration
}

// String is one line for a log or a terminal.
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
	mu   sync.Mutex // guards everything below; a leaf
	ring []Record
	next int
	full bool
}

// NewRecorder returns a recorder of the newest size records; with size ≤ 0 it returns nil, which
// records nothing.
func NewRecorder(size int) *Recorder {
	if size <= 0 {
		return nil
	}
	return &Recorder{ring: make([]Record, size)}
}

// Add keeps a record and forgets the oldest one if the ring is full. The record's slices belong to
// the recorder from then on.
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

// Records returns the kept records in the order of their starts, oldest first. The slice is the caller's, what it refers to is
// shared and must not be changed.
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
	// A run may be told of after the next one, which begins as soon as it has ended.
	slices.SortStableFunc(records, func(a, b Record) int { return a.Started.Compare(b.Started) })
	return records
}
