package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evenkeel/evenkeel/retry"
	"github.com/evenkeel/evenkeel/scheduler"
	"github.com/evenkeel/evenkeel/timeline"
)

// TestG07NothingIsLostWhileARunIsRecorded: a slow recorder delays its key, and what comes meanwhile
// waits.
func TestG07NothingIsLostWhileARunIsRecorded(t *testing.T) {
	slow := scheduler.Options[string]{
		Concurrency: 4, MaxInterval: scheduler.NoMaxInterval,
		Retry:  retry.Policy{Initial: time.Second, Factor: 4, Jitter: retry.NoJitter},
		Record: func(string, timeline.Record) { time.Sleep(2 * time.Second) },
	}
	bubble(t, "a retry", func(t *testing.T) {
		h := start(t, slow, failing(errBroken))
		h.Offer("a", event())
		time.Sleep(500 * time.Millisecond)
		h.Offer("b", event()) // sets the timer, so that the retry of the other comes while it is recorded
		time.Sleep(time.Minute)
		h.expect(t, "0s a: manual by test", "500ms b: manual by test", "2s a: retry 1")
	})
	bubble(t, "an event, which is no reason for a second run beside", func(t *testing.T) {
		h := start(t, slow, succeed)
		h.Offer("a", event())
		time.Sleep(time.Second)
		h.Offer("a", renewal())
		time.Sleep(time.Minute)
		h.expect(t, "0s a: manual by test", "2s a: manual by spec")
	})
	bubble(t, "that the resource went, and came again", func(t *testing.T) {
		h := start(t, slow, failing(errBroken, errBroken))
		h.Offer("a", event())
		h.Offer("b", event())
		time.Sleep(500 * time.Millisecond)
		h.Forget("a")
		h.Forget("b")
		h.Offer("b", renewal())
		time.Sleep(time.Minute)
		synctest.Wait()
		slices.Sort(h.runs)
		h.expect(t, "0s a: manual by test", "0s b: manual by test", "2s b: manual by spec")
		if n := h.Len(); n != 0 {
			t.Errorf("state for %d keys is kept, want none", n)
		}
	})
}

func TestTheRecordsOfAKeyComeInTheOrderOfItsRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		var h *harness
		runs := 0
		h = start(t, scheduler.Options[string]{
			Concurrency: 4,
			Record: func(_ string, r timeline.Record) {
				time.Sleep(time.Duration(10-len(r.Requests)) * time.Second) // the first takes longest
				told = append(told, fmt.Sprint(len(r.Requests), " ", r.Next))
			},
		}, func(context.Context, string, scheduler.Run) scheduler.Result {
			runs++
			h.Offer("a", event())
			return scheduler.Result{Requests: make([]timeline.Request, runs), Gone: runs == 4, RescheduleAfter: time.Hour}
		})
		h.Offer("a", event())
		time.Sleep(29 * time.Second)
		if err := h.stop(); err != nil { // waits for the remaining records
			t.Fatal(err)
		}
		if want := []string{"1 0s", "2 0s", "3 0s", "4 0s"}; !slices.Equal(told, want) {
			t.Errorf("records are %q, want %q", told, want)
		}
	})
}

// The result of a run counts even if its failure could not be judged.
func TestG15AClassifierThatPanicsIsAFailureByPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		decided := 0
		var records []timeline.Record
		h := start(t, scheduler.Options[string]{
			Retry:  retry.Policy{Initial: time.Minute, Jitter: retry.NoJitter, Classify: func(error) retry.Verdict { panic("no idea") }},
			Record: func(_ string, r timeline.Record) { records = append(records, r) },
		}, func(context.Context, string, scheduler.Run) scheduler.Result {
			return scheduler.Result{Err: errors.New("broken"), Decided: func() { decided++ }, ReadsAhead: 3}
		})
		h.Offer("a", event())
		h.expect(t, "0s a: manual by test")
		if r := records[0]; decided != 1 || r.Err != "panic: no idea" || r.ReadsAhead != 3 || r.Next != time.Minute || !h.Retries("a") {
			t.Errorf("decided %d times, record %+v", decided, r)
		}
	})
}
