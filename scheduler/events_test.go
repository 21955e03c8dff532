package scheduler_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/retry"
	"github.com/evenkeel/evenkeel/scheduler"
)

var inTenSeconds = retry.Policy{Initial: 10 * time.Second, Factor: 2, Jitter: retry.NoJitter, MaxAttempts: 3}

func TestC64AnEventRunsAtOnceIfNothingElseDoes(t *testing.T) {
	bubble(t, "each key by itself", func(t *testing.T) {
		h := start(t, scheduler.Options[string]{MaxInterval: scheduler.NoMaxInterval}, func(_ context.Context, _ string, r scheduler.Run) scheduler.Result {
			if r.Attempt != 0 || r.LastAttempt || r.Waited != 0 {
				t.Errorf("told of a retry or a wait: %+v", r)
			}
			return scheduler.Result{}
		})
		h.Offer("a", event())
		time.Sleep(time.Second)
		h.Offer("b", event())
		time.Sleep(time.Second)
		h.Offer("a", event())
		h.expect(t, "0s a: manual by test", "1s b: manual by test", "2s a: manual by test")
	})
}

// TestC69AFailedRunThatAnEventCameDuringRunsAgainAtOnce. Unlike the originals we pause between such
// runs, a little longer each time: events do not defeat the back-off. They cost no attempt.
func TestC69AFailedRunThatAnEventCameDuringRunsAgainAtOnce(t *testing.T) {
	bubble(t, "and the retry comes at its time", func(t *testing.T) {
		var h *harness
		var attempts []int
		h = start(t, scheduler.Options[string]{Retry: inTenSeconds}, func(_ context.Context, key string, r scheduler.Run) scheduler.Result {
			attempts = append(attempts, r.Attempt)
			time.Sleep(time.Second)
			if h.count() < 3 {
				h.Offer(key, event())
			}
			return scheduler.Result{Err: errBroken}
		})
		h.Offer("a", event())
		time.Sleep(40 * time.Second)
		h.expect(t, "0s a: manual by test", "1s a: manual by test", "2.1s a: manual by test", "11s a: retry 1", "32s a: retry 2")
		if want := []int{0, 1, 1, 1, 2}; !slices.Equal(attempts, want) {
			t.Errorf("attempts %v, want %v", attempts, want)
		}
	})
}

func TestC70SuccessEndsRetriesAndTheirTimers(t *testing.T) {
	bubble(t, "of an early run, too; the next failure is the first again", func(t *testing.T) {
		fail := failing(errBroken, nil, errBroken, nil)
		h := start(t, scheduler.Options[string]{Retry: inTenSeconds, MaxInterval: scheduler.NoMaxInterval}, fail)
		h.Offer("a", event())
		time.Sleep(2 * time.Second)
		h.Offer("a", event())
		time.Sleep(time.Minute)
		h.expect(t, "0s a: manual by test", "2s a: manual by test")
		if n := h.Len(); n != 0 {
			t.Errorf("state for %d keys is kept, want none", n)
		}
		h.Offer("a", event())
		time.Sleep(time.Minute)
		h.expect(t, "0s a: manual by test", "2s a: manual by test", "1m2s a: manual by test", "1m12s a: retry 1")
	})
	bubble(t, "but not what was requested before", func(t *testing.T) {
		runs := 0
		h := start(t, scheduler.Options[string]{Retry: inTenSeconds}, func(context.Context, string, scheduler.Run) scheduler.Result {
			switch runs++; runs {
			case 1:
				return scheduler.Result{RescheduleAfter: time.Minute}
			case 2:
				return scheduler.Result{Err: errBroken}
			}
			return scheduler.Result{}
		})
		h.Offer("a", event())
		time.Sleep(time.Second)
		h.Offer("a", event())
		time.Sleep(time.Hour)
		h.expect(t, "0s a: manual by test", "1s a: manual by test", "11s a: retry 1", "1m0s a: rescheduled after 1m0s")
	})
}

// TestC71ARescheduleHoldsThoughAnEventCameDuringTheRun that asked for it.
func TestC71ARescheduleHoldsThoughAnEventCameDuringTheRun(t *testing.T) {
	bubble(t, "and is replaced by what a later run asks for", func(t *testing.T) {
		var h *harness
		h = start(t, scheduler.Options[string]{}, func(_ context.Context, key string, _ scheduler.Run) scheduler.Result {
			switch h.count() {
			case 1:
				h.Offer(key, event())
				return scheduler.Result{RescheduleAfter: time.Minute}
			case 3:
				return scheduler.Result{RescheduleAfter: time.Minute}
			case 4:
				return scheduler.Result{RescheduleAfter: time.Second}
			}
			return scheduler.Result{}
		})
		h.Offer("a", event())
		time.Sleep(90 * time.Second)
		h.Offer("a", event())
		time.Sleep(time.Hour)
		h.expect(t, "0s a: manual by test", "0s a: manual by test", "1m0s a: rescheduled after 1m0s",
			"1m30s a: manual by test", "1m31s a: rescheduled after 1s")
	})
}

func TestC78TheMaxIntervalCountsFromTheLastRunWhateverItsEnd(t *testing.T) {
	for name, policy := range map[string]retry.Policy{"success": {}, "failure without a retry": retry.Never()} {
		bubble(t, name, func(t *testing.T) {
			h := start(t, scheduler.Options[string]{Retry: policy, MaxInterval: time.Hour}, func(context.Context, string, scheduler.Run) scheduler.Result {
				if name == "success" {
					return scheduler.Result{}
				}
				return scheduler.Result{Err: errBroken}
			})
			h.Offer("a", event())
			time.Sleep(50 * time.Minute)
			h.Offer("a", event())
			time.Sleep(53 * time.Minute) // an interval is shortened by a tenth at most
			h.expect(t, "0s a: manual by test", "50m0s a: manual by test")
			time.Sleep(8 * time.Minute)
			if n := h.count(); n != 3 {
				t.Errorf("%d runs after another interval", n)
			}
		})
	}
}

func TestC80ADeletionBeforeTheStartLeavesNothing(t *testing.T) {
	bubble(t, "nor does it harm what comes after it", func(t *testing.T) {
		h := prepare(t, scheduler.Options[string]{MaxInterval: scheduler.NoMaxInterval}, succeed)
		h.Forget("unknown")
		h.Offer("a", event())
		h.Offer("b", event())
		h.Forget("a")
		h.Forget("b")
		if n := h.Len(); n != 0 {
			t.Errorf("state for %d keys is kept, want none", n)
		}
		h.Offer("b", renewal())
		h.run(t)
		time.Sleep(time.Second)
		h.Offer("a", event())
		h.expect(t, "0s b: manual by spec", "1s a: manual by test")
	})
}
