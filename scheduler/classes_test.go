package scheduler_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evenkeel/evenkeel/retry"
	"github.com/evenkeel/evenkeel/scheduler"
	"github.com/evenkeel/evenkeel/timeline"
)

// failing is a run that returns one error after the other, and nil when none is left.
func failing(errs ...error) scheduler.Func[string] {
	var mu sync.Mutex
	return func(context.Context, string, scheduler.Run) scheduler.Result {
		mu.Lock()
		defer mu.Unlock()
		if len(errs) == 0 {
			return scheduler.Result{}
		}
		var err error
		err, errs = errs[0], errs[1:]
		return scheduler.Result{Err: err}
	}
}

func TestG08ClassesOfFailures(t *testing.T) {
	exact := retry.Policy{Initial: time.Second, Factor: 2, Jitter: retry.NoJitter, MaxAttempts: 2}
	after := func(d time.Duration) error { return fmt.Errorf("call: %w", retry.After(errBroken, d)) }
	bubble(t, "soon consumes no attempt and leaves the back-off as it is", func(t *testing.T) {
		h := start(t, scheduler.Options[string]{Retry: exact}, failing(errBroken, after(0), errBroken, after(0), after(0), errBroken))
		h.Offer("a", event())
		time.Sleep(time.Hour)
		h.expect(t, "0s a: manual by test", "1s a: retry 1", "1s a: rescheduled after 0s",
			"3s a: retry 2", "3s a: rescheduled after 0s", "3.01s a: rescheduled after 10ms")
	})
	bubble(t, "soon, for ever, neither spins nor gives up", func(t *testing.T) {
		h := start(t, scheduler.Options[string]{Retry: exact, MaxInterval: scheduler.NoMaxInterval}, func(context.Context, string, scheduler.Run) scheduler.Result {
			return scheduler.Result{Err: after(0)}
		})
		h.Offer("a", event())
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := len(h.runs); n < 3600 || n > 3610 {
			t.Errorf("%d runs in an hour, want about one a second", n)
		}
	})
	bubble(t, "not before the time it said, not for an event or a timer", func(t *testing.T) {
		h := start(t, scheduler.Options[string]{Retry: exact}, func(_ context.Context, _ string, r scheduler.Run) scheduler.Result {
			if len(r.Causes) > 1 {
				return scheduler.Result{}
			}
			return scheduler.Result{Err: after(30 * time.Second), RescheduleAfter: 10 * time.Second}
		})
		h.Offer("a", event())
		time.Sleep(5 * time.Second)
		h.Offer("a", event())
		time.Sleep(time.Hour)
		h.expect(t, "0s a: manual by test", "30s a: manual by test, rescheduled after 10s, rescheduled after 30s")
	})
	bubble(t, "by the policy, but not before the time it said", func(t *testing.T) {
		classified := exact
		classified.Classify = func(error) retry.Verdict { return retry.Verdict{NotBefore: 90 * time.Second} }
		h := start(t, scheduler.Options[string]{Retry: classified}, failing(errBroken, errBroken, errBroken))
		h.Offer("a", event())
		time.Sleep(time.Second)
		h.Offer("a", event())
		time.Sleep(time.Hour)
		h.expect(t, "0s a: manual by test", "1m30s a: manual by test, retry 1", "3m0s a: retry 2")
	})
	bubble(t, "a classifier that panics is a failure of the key", func(t *testing.T) {
		panicking := exact
		panicking.Classify = func(error) retry.Verdict { panic("unknown") }
		h := start(t, scheduler.Options[string]{Retry: panicking}, failing(errBroken, nil))
		h.Offer("a", event())
		time.Sleep(time.Hour)
		h.expect(t, "0s a: manual by test", "1s a: retry 1")
	})
	bubble(t, "a final one is not retried, though retries were under way", func(t *testing.T) {
		h := start(t, scheduler.Options[string]{Retry: exact}, failing(errBroken, retry.Final(errBroken), errBroken))
		h.Offer("a", event())
		time.Sleep(time.Hour)
		h.Offer("a", event())
		time.Sleep(time.Hour)
		h.expect(t, "0s a: manual by test", "1s a: retry 1", "1h0m0s a: manual by test", "1h0m2s a: retry 2")
	})
}

func TestC77C96TheRateLimitHoldsBack(t *testing.T) {
	twice := scheduler.Options[string]{
		RateLimit: scheduler.RateLimit{Runs: 2, Period: time.Minute}, MaxInterval: scheduler.NoMaxInterval,
		Retry: retry.Policy{Initial: time.Second, Factor: 2, Jitter: retry.NoJitter},
	}
	bubble(t, "events, until the period is over, and merges them", func(t *testing.T) {
		h := start(t, twice, succeed)
		for range 5 {
			time.Sleep(time.Second)
			h.Offer("a", event())
			synctest.Wait()
		}
		h.Offer("b", event())
		time.Sleep(time.Hour)
		h.expect(t, "1s a: manual by test", "2s a: manual by test", "5s b: manual by test",
			"1m1s a: manual by test, manual by test, manual by test")
		if n := h.Len(); n != 0 {
			t.Errorf("state for %d keys is kept after their periods, want none", n)
		}
	})
	bubble(t, "renewals, retries, reschedules; and the renewal resets all the same", func(t *testing.T) {
		h := start(t, twice, failing(errBroken, errBroken, errBroken, errBroken))
		h.Offer("a", event())
		time.Sleep(10 * time.Second)
		h.Offer("a", renewal())
		time.Sleep(55 * time.Second)
		h.expect(t, "0s a: manual by test", "1s a: retry 1", "1m0s a: retry 2, manual by spec", "1m1s a: retry 1")
	})
	bubble(t, "a new period begins with a run", func(t *testing.T) {
		h := start(t, twice, succeed)
		for range 6 {
			h.Offer("a", event())
			time.Sleep(40 * time.Second)
		}
		h.expect(t, "0s a: manual by test", "40s a: manual by test", "1m20s a: manual by test",
			"2m0s a: manual by test", "2m40s a: manual by test", "3m20s a: manual by test")
	})
	bubble(t, "but not a resource of the same name", func(t *testing.T) {
		h := start(t, twice, succeed)
		for range 4 {
			h.Offer("a", event())
			synctest.Wait()
		}
		h.Forget("a")
		h.Offer("a", event())
		h.expect(t, "0s a: manual by test", "0s a: manual by test", "0s a: manual by test")
	})
}

func TestTheRecordSaysWhatHeldTheRunBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gates []string
		h := start(t, scheduler.Options[string]{
			Concurrency: 1, RateLimit: scheduler.RateLimit{Runs: 6, Period: time.Hour},
			Retry: retry.Policy{Initial: time.Minute, Jitter: retry.NoJitter},
			Record: func(key string, r timeline.Record) {
				gates = append(gates, fmt.Sprintf("%s %v %v", key, r.Waited, r.Gate))
			},
		}, func(ctx context.Context, key string, r scheduler.Run) scheduler.Result {
			switch key {
			case "slow":
				time.Sleep(time.Second)
			case "fails":
				return scheduler.Result{Err: errBroken}
			case "stormy":
				return scheduler.Result{Superseded: true}
			case "refused":
				return scheduler.Result{Err: retry.After(errBroken, 20*time.Second)}
			}
			return scheduler.Result{}
		})
		offer := func(key string, e scheduler.Event) { h.Offer(key, e); synctest.Wait() }
		offer("slow", event())
		offer("waits", event())
		time.Sleep(2 * time.Second)
		offer("fails", event())
		offer("fails", event())
		offer("fails", event())
		time.Sleep(time.Second)
		h.pause(t)
		offer("paused", event())
		time.Sleep(time.Second)
		h.Resume()
		synctest.Wait()
		offer("refused", event())
		offer("refused", event())
		time.Sleep(time.Minute)
		synctest.Wait()
		h.Forget("refused")
		offer("stormy", event())
		offer("stormy", event())
		time.Sleep(80 * time.Minute)
		synctest.Wait()
		slices.Sort(gates)
		gates = slices.Compact(gates)
		want := []string{
			"fails 0s ", "fails 100ms back-off", "fails 48m0s rate limit",
			"paused 1s pause", "refused 0s ", "refused 20s refusal",
			"slow 0s ",
			"stormy 0s ", "stormy 10ms storm", "stormy 59m59.69s rate limit",
			"waits 1s workers",
		}
		if !slices.Equal(gates, want) {
			t.Errorf("gates are\n%q\nwant\n%q", gates, want)
		}
	})
}
