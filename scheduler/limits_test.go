package scheduler_test

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evenkeel/evenkeel/retry"
	"github.com/evenkeel/evenkeel/scheduler"
	"github.com/evenkeel/evenkeel/timeline"
)

func TestG08ARenewalOfAKeyThatIsQueuedStartsAfreshToo(t *testing.T) {
	once := retry.Policy{Initial: time.Second, Factor: 2, Jitter: retry.NoJitter, MaxAttempts: 1}
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		h := start(t, scheduler.Options[string]{Retry: once, Concurrency: 1}, func(_ context.Context, key string, r scheduler.Run) scheduler.Result {
			if key == "slow" {
				<-release
				return scheduler.Result{}
			}
			return scheduler.Result{Err: errBroken}
		})
		h.Offer("a", event())
		time.Sleep(time.Minute) // the attempts are used up
		h.Offer("slow", event())
		synctest.Wait()
		h.Offer("a", event()) // waits for the only worker
		h.Offer("a", renewal())
		close(release)
		time.Sleep(time.Minute)
		h.expect(t,
			"0s a: manual by test", "1s a: retry 1",
			"1m0s slow: manual by test", "1m0s a: manual by test, manual by spec", "1m1s a: retry 1")
	})
}

func TestG19NoRunStartsIfTheContextHasEndedBefore(t *testing.T) {
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			runs := make(chan string, 100)
			s, err := scheduler.New(func(_ context.Context, key string, _ scheduler.Run) scheduler.Result {
				runs <- key
				return scheduler.Result{}
			}, scheduler.Options[string]{})
			if err != nil {
				t.Fatal(err)
			}
			for _, key := range []string{"a", "b", "c"} {
				s.Offer(key, event())
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := s.Run(ctx); err != nil {
				t.Fatal(err)
			}
			if len(runs) > 0 {
				t.Fatalf("%d runs started", len(runs))
			}
		})
	}
}

func TestG08ASupersededRunIsNeitherSuccessNorFailure(t *testing.T) {
	exact := retry.Policy{Initial: time.Second, Factor: 2, Jitter: retry.NoJitter}
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		h := start(t, scheduler.Options[string]{Retry: exact}, func(context.Context, string, scheduler.Run) scheduler.Result {
			if runs++; runs%2 == 0 {
				return scheduler.Result{Superseded: true}
			}
			return scheduler.Result{Err: errBroken}
		})
		h.Offer("a", event())
		time.Sleep(5 * time.Second)
		h.expect(t,
			"0s a: manual by test", "1s a: retry 1", "1s a: rescheduled after 0s",
			"3s a: retry 2", "3s a: rescheduled after 0s")
	})
}

func TestCausesThatDecideKeepsAreCountedOnce(t *testing.T) {
	expectOverflowCounted(t, scheduler.Options[string]{
		Decide: func(string, timeline.Cause) bool { return true },
	})
}

func TestG06G16ForgetWhileCausesAreDecidedLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s *harness
		// Decisions about the first cause, about the second on arrival, and at the end of the run.
		var decisions atomic.Int32
		s = start(t, scheduler.Options[string]{
			Decide: func(key string, _ timeline.Cause) bool {
				if decisions.Add(1) == 3 {
					s.Forget(key)
				}
				return true
			},
		}, func(context.Context, string, scheduler.Run) scheduler.Result {
			time.Sleep(time.Second)
			return scheduler.Result{}
		})
		s.Offer("a", event())
		time.Sleep(100 * time.Millisecond)
		s.Offer("a", event())
		time.Sleep(time.Hour)
		s.expect(t, "0s a: manual by test")
		if n := s.Len(); n != 0 {
			t.Errorf("state for %d keys is kept, want none", n)
		}
	})
}

func TestRunsThatAreSupersededAgainAndAgainSlowDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		h := start(t, scheduler.Options[string]{}, func(context.Context, string, scheduler.Run) scheduler.Result {
			runs++
			return scheduler.Result{Superseded: runs < 5}
		})
		h.Offer("a", event())
		time.Sleep(time.Minute)
		h.expect(t,
			"0s a: manual by test", "0s a: rescheduled after 0s", "10ms a: rescheduled after 10ms",
			"30ms a: rescheduled after 20ms", "70ms a: rescheduled after 40ms")
	})
}

// TestTheEventsOfAStormDoNotHastenIt: what supersedes the runs also is an event, during them and
// between them.
func TestTheEventsOfAStormDoNotHastenIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		var h *harness
		h = start(t, scheduler.Options[string]{}, func(context.Context, string, scheduler.Run) scheduler.Result {
			if runs++; runs == 5 {
				return scheduler.Result{}
			}
			h.Offer("a", event())
			return scheduler.Result{Superseded: true}
		})
		h.Offer("a", event())
		time.Sleep(15 * time.Millisecond)
		h.Offer("a", event())
		time.Sleep(20 * time.Millisecond)
		h.Offer("a", renewal())
		time.Sleep(time.Minute)
		h.expect(t,
			"0s a: manual by test",
			"0s a: manual by test, rescheduled after 0s",
			"10ms a: manual by test, rescheduled after 10ms",
			"30ms a: manual by test, manual by test, rescheduled after 20ms",
			"35ms a: manual by test, manual by spec")
	})
}

func TestG15ARunThatEndsItsGoroutineFailsAloneAndCostsNoWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failures []string
		h := start(t, scheduler.Options[string]{
			Concurrency: 1, Retry: retry.Policy{Initial: time.Second, Jitter: retry.NoJitter, MaxAttempts: 1},
			Record: func(_ string, r timeline.Record) { failures = append(failures, r.Err) },
		}, func(_ context.Context, key string, _ scheduler.Run) scheduler.Result {
			if key == "exits" {
				runtime.Goexit()
			}
			return scheduler.Result{}
		})
		h.Offer("exits", event())
		h.Offer("fine", event())
		time.Sleep(time.Minute)
		h.expect(t, "0s exits: manual by test", "0s fine: manual by test", "1s exits: retry 1")
		if err := h.stop(); err != nil {
			t.Error(err)
		}
		if !strings.Contains(failures[0], "Goexit") || failures[1] != "" {
			t.Errorf("failures are %q", failures)
		}
	})
}

func TestG07ARequestedTimeSurvivesRunsThatAreSupersededAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		h := start(t, scheduler.Options[string]{}, func(context.Context, string, scheduler.Run) scheduler.Result {
			switch runs++; runs {
			case 1:
				return scheduler.Result{RescheduleAfter: time.Minute}
			case 2, 3:
				return scheduler.Result{Superseded: true}
			}
			return scheduler.Result{}
		})
		h.Offer("a", event())
		h.expect(t, "0s a: manual by test")
		h.Offer("a", event())
		time.Sleep(2 * time.Minute)
		h.expect(t, "0s a: manual by test", "0s a: manual by test",
			"0s a: rescheduled after 0s", "10ms a: rescheduled after 10ms", "1m0s a: rescheduled after 1m0s")
	})
}

func TestC95ARunIsToldWhatIsLeftOfTheBackOff(t *testing.T) {
	exact := retry.Policy{Initial: time.Second, Factor: 2, Jitter: retry.NoJitter}
	synctest.Test(t, func(t *testing.T) {
		var left []time.Duration
		h := start(t, scheduler.Options[string]{Retry: exact}, func(_ context.Context, _ string, r scheduler.Run) scheduler.Result {
			if left = append(left, r.BackOffLeft); len(left) > 4 {
				return scheduler.Result{}
			}
			return scheduler.Result{Err: errBroken}
		})
		offerAfter := func(d time.Duration) {
			time.Sleep(d)
			h.Offer("a", event())
		}
		offerAfter(0)                       // before the first delay
		offerAfter(400 * time.Millisecond)  // within the first, of 1 s, which comes and fails, too
		offerAfter(1600 * time.Millisecond) // within the next, of 2 s, which succeeds
		offerAfter(time.Minute)
		synctest.Wait()
		h.expect(t, "0s a: manual by test", "400ms a: manual by test", "1s a: retry 1", "2s a: manual by test", "3s a: retry 2", "1m2s a: manual by test")
		if want := []time.Duration{0, 600 * time.Millisecond, 0, time.Second, 0, 0}; !slices.Equal(left, want) {
			t.Errorf("told %v, want %v", left, want)
		}
	})
}
