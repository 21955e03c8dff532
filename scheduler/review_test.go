package scheduler

import (
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/timeline"
)

// TestG07AReviewThatComesAfterTheEndOfItsRunTakesNoCauses of the key, which is queued by then: it
// would run without any.
func TestG07AReviewThatComesAfterTheEndOfItsRunTakesNoCauses(t *testing.T) {
	m := newMachine(Options[string]{Concurrency: 1, Decide: func(string, timeline.Cause) bool { return true }})
	m.offer(1, "k", Event{Cause: timeline.Manual{}})
	s, run, _ := m.take(2)
	var review *keyState[string]
	for i := range maxCauses {
		if r := m.offer(3, "k", Event{Cause: timeline.Timer{After: time.Duration(i)}}); r != nil {
			review = r
		}
	}
	if review == nil {
		t.Fatal("no review is asked for")
	}
	asked, needless := review.pending.causes, bits{}
	for i := range asked {
		needless.set(i)
	}
	e := end{run: run}
	e.kept.join(m.unload(s)) // the end of the run, which calls all of them needed
	m.finish(4, s, e)
	m.release(4, s)
	m.reviewed(review, asked, needless)
	if _, next, ok := m.take(5); !ok || len(next.Causes) == 0 {
		t.Errorf("the next run: %v, with the causes %v", ok, next.Causes)
	}
}
