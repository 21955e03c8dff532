package scheduler_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evenkeel/evenkeel/retry"
	"github.com/evenkeel/evenkeel/scheduler"
	"github.com/evenkeel/evenkeel/timeline"
)

func (h *harness) pause(t *testing.T) {
	t.Helper()
	if err := h.Pause(); err != nil {
		t.Fatal(err)
	}
}

func TestG07APauseHoldsBackAndLosesNothing(t *testing.T) {
	bubble(t, "events and timers wait for the resumption", func(t *testing.T) {
		h := start(t, scheduler.Options[string]{}, func(_ context.Context, key string, r scheduler.Run) scheduler.Result {
			if _, timer := r.Causes[0].(timeline.Timer); key == "timed" && !timer {
				return scheduler.Result{RescheduleAfter: time.Minute}
			}
			return scheduler.Result{}
		})
		h.Offer("timed", event())
		synctest.Wait()
		h.pause(t)
		h.Offer("a", event())
		h.Offer("b", event())
		h.Forget("b")
		time.Sleep(time.Hour)
		h.expect(t, "0s timed: manual by test")
		h.Resume()
		synctest.Wait()
		slices.Sort(h.runs)
		h.expect(t, "0s timed: manual by test", "1h0m0s a: manual by test", "1h0m0s timed: rescheduled after 1m0s")
	})
	bubble(t, "a run that is cut off comes again, with the causes since", func(t *testing.T) {
		h := start(t, scheduler.Options[string]{}, untilCancelled)
		h.Offer("a", event())
		h.Offer("gone", event())
		synctest.Wait()
		h.Offer("a", renewal())
		h.Forget("gone")
		began := time.Now()
		h.pause(t)
		if waited := time.Since(began); waited != time.Second {
			t.Errorf("Pause took %v, want the second that the run takes to end", waited)
		}
		time.Sleep(time.Minute)
		h.runs = nil // of the two, which went first is chance
		h.Resume()
		h.expect(t, "1m1s a: manual by test, manual by spec")
	})
	bubble(t, "before the start, it begins paused", func(t *testing.T) {
		h := prepare(t, scheduler.Options[string]{}, succeed)
		h.Offer("a", event())
		h.pause(t)
		h.run(t)
		time.Sleep(time.Minute)
		h.expect(t)
		h.Resume()
		h.expect(t, "1m0s a: manual by test")
	})
	bubble(t, "before the start, it can be over again", func(t *testing.T) {
		h := prepare(t, scheduler.Options[string]{}, succeed)
		h.pause(t)
		h.Resume()
		h.run(t)
		h.Offer("a", event())
		h.expect(t, "0s a: manual by test")
	})
	bubble(t, "again and again, every time", func(t *testing.T) {
		h := start(t, scheduler.Options[string]{}, untilCancelled)
		h.Offer("a", event())
		for i := range 5 {
			synctest.Wait()
			h.pause(t)
			h.pause(t)
			synctest.Wait()
			if n := len(h.runs); n != i+1 {
				t.Fatalf("%d runs after %d pauses", n, i+1)
			}
			h.Resume()
			h.Resume()
		}
	})
}

// untilCancelled is a run that a second after it was cancelled fails.
func untilCancelled(ctx context.Context, _ string, _ scheduler.Run) scheduler.Result {
	<-ctx.Done()
	time.Sleep(time.Second)
	return scheduler.Result{Err: context.Cause(ctx)}
}

func TestG08APauseConsumesNoAttempt(t *testing.T) {
	exact := retry.Policy{Initial: time.Minute, Factor: 2, Jitter: retry.NoJitter, MaxAttempts: 3}
	bubble(t, "of a first run, nor of a retry", func(t *testing.T) {
		runs := make(chan scheduler.Run, 10)
		h := start(t, scheduler.Options[string]{Retry: exact}, func(ctx context.Context, _ string, r scheduler.Run) scheduler.Result {
			runs <- r
			select {
			case <-ctx.Done():
			case <-time.After(10 * time.Second):
			}
			return scheduler.Result{Err: errBroken}
		})
		h.Offer("a", event())
		for range 2 { // at the start, and in the first retry
			time.Sleep(5 * time.Second)
			h.pause(t)
			h.Resume()
			time.Sleep(70 * time.Second)
		}
		h.expect(t, "0s a: manual by test", "5s a: manual by test", "1m15s a: retry 1", "1m20s a: retry 1")
		for range 3 {
			<-runs
		}
		if last := <-runs; last.Attempt != 1 || last.Waited != 5*time.Second {
			t.Errorf("the retry is %+v, want it to be the first, 5s after it was due", last)
		}
		time.Sleep(60 * time.Second)
		h.expect(t, "0s a: manual by test", "5s a: manual by test", "1m15s a: retry 1", "1m20s a: retry 1", "3m30s a: retry 2")
	})
	bubble(t, "and an early run is still to be had", func(t *testing.T) {
		h := start(t, scheduler.Options[string]{Retry: exact}, func(ctx context.Context, _ string, r scheduler.Run) scheduler.Result {
			if len(r.Causes) == 1 && r.Attempt == 1 { // the early run, the first time
				<-ctx.Done()
			}
			return scheduler.Result{Err: errBroken}
		})
		h.Offer("a", event())
		time.Sleep(10 * time.Second)
		h.Offer("a", event())
		synctest.Wait()
		h.Offer("a", renewalOf("another event", false))
		h.pause(t)
		h.Resume()
		time.Sleep(40 * time.Second)
		h.expect(t, "0s a: manual by test", "10s a: manual by test", "10s a: manual by test, manual by another event")
	})
	bubble(t, "and what it returned does not count", func(t *testing.T) {
		h := start(t, scheduler.Options[string]{Retry: exact, MaxInterval: scheduler.NoMaxInterval}, func(ctx context.Context, _ string, r scheduler.Run) scheduler.Result {
			if r.Attempt == 0 {
				return scheduler.Result{Err: errBroken}
			}
			<-ctx.Done()
			return scheduler.Result{RescheduleAfter: time.Hour}
		})
		h.Offer("a", event())
		time.Sleep(61 * time.Second)
		h.pause(t)
		h.Resume()
		time.Sleep(time.Second)
		h.pause(t)
		h.expect(t, "0s a: manual by test", "1m0s a: retry 1", "1m1s a: retry 1")
	})
}

func renewalOf(by string, renews bool) scheduler.Event {
	return scheduler.Event{Cause: timeline.Manual{By: by}, Renews: renews}
}

func TestG06ARunThatIgnoresThePauseIsNamedAndStaysTheOnlyOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		h := start(t, scheduler.Options[string]{}, func(_ context.Context, key string, _ scheduler.Run) scheduler.Result {
			if key == "stubborn" {
				<-release
			}
			return scheduler.Result{}
		})
		h.Offer("stubborn", event())
		synctest.Wait()
		resumed := make(chan error)
		go func() { resumed <- h.Pause() }()
		time.Sleep(time.Second)
		h.Resume() // does not shorten the wait of the other
		h.Offer("stubborn", event())
		h.Offer("b", event())
		synctest.Wait()
		for _, err := range []error{h.Pause(), <-resumed} {
			if err == nil || !strings.Contains(err.Error(), "1 runs") || !strings.Contains(err.Error(), "[stubborn]") {
				t.Errorf("error is %v, want one that names the key", err)
			}
		}
		h.Resume()
		h.expect(t, "0s stubborn: manual by test", "1s b: manual by test")
		close(release)
		h.expect(t, "0s stubborn: manual by test", "1s b: manual by test", "11s stubborn: manual by test, manual by test")
	})
}

func TestG19APauseCutsTheGraceShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options[string]{Grace: time.Hour}, untilCancelled)
		h.Offer("a", event())
		synctest.Wait()
		stopped := make(chan error)
		go func() { stopped <- h.stop() }()
		time.Sleep(time.Minute)
		if err := h.Pause(); err != nil {
			t.Error(err)
		}
		if err := <-stopped; err != nil || time.Since(h.start) != 61*time.Second {
			t.Errorf("stopped after %v with %v, want 1m1s", time.Since(h.start), err)
		}
		h.Resume()
		h.pause(t)
		time.Sleep(time.Hour)
		h.expect(t, "0s a: manual by test")
	})
}

func TestG07PausesAtAnyMomentLoseNoEvent(t *testing.T) {
	for seed := range 50 {
		synctest.Test(t, func(t *testing.T) {
			seen := map[string]bool{}
			h := start(t, scheduler.Options[string]{Concurrency: 1}, func(ctx context.Context, _ string, r scheduler.Run) scheduler.Result {
				select {
				case <-ctx.Done():
					return scheduler.Result{Err: ctx.Err()}
				case <-time.After(time.Duration(1+seed%5) * time.Millisecond):
				}
				for _, c := range r.Causes {
					seen[c.String()] = true
				}
				return scheduler.Result{}
			})
			for i := range 40 {
				h.Offer(fmt.Sprint(i%3), renewalOf(fmt.Sprint(i), i%7 == 0))
				time.Sleep(time.Duration(i*seed%3) * time.Millisecond)
				switch (i * (seed + 1)) % 5 {
				case 0:
					h.pause(t)
				case 1, 2:
					h.Resume()
				}
			}
			h.Resume()
			time.Sleep(time.Second)
			synctest.Wait()
			if len(seen) != 40 {
				t.Errorf("seed %d: %d of 40 events led to a run", seed, len(seen))
			}
		})
	}
}
