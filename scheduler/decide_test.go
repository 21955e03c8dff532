package scheduler_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evenkeel/evenkeel/retry"
	"github.com/evenkeel/evenkeel/scheduler"
	"github.com/evenkeel/evenkeel/timeline"
)

var own = timeline.Cause(timeline.Manual{By: "own"})

func TestG05WhatExplainsIsKeptUntilTheCausesAreDecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var explained atomic.Bool
		h := start(t, scheduler.Options[string]{
			Decide: func(_ string, c timeline.Cause) bool { return c != own || !explained.Load() },
		}, func(context.Context, string, scheduler.Run) scheduler.Result {
			time.Sleep(time.Second)
			explained.Store(true)
			return scheduler.Result{Decided: func() { explained.Store(false) }}
		})
		h.Offer("a", event())
		time.Sleep(100 * time.Millisecond)
		h.Offer("a", scheduler.Event{Cause: own})
		time.Sleep(time.Minute)
		h.expect(t, "0s a: manual by test")
		if explained.Load() {
			t.Error("the run was never told that its causes are decided")
		}
	})
}

func TestG05ACauseIsDecidedAnewIfARunEndsBetweenTheAnswerAndItsArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, ended := make(chan struct{}), make(chan struct{})
		var once sync.Once
		asked := 0
		h := start(t, scheduler.Options[string]{
			Decide: func(_ string, c timeline.Cause) bool {
				if c != own {
					return true
				}
				if asked++; asked == 1 {
					close(release) // the run that is to explain it ends only now
					<-ended
					return true
				}
				return false
			},
			Record: func(string, timeline.Record) { once.Do(func() { close(ended) }) },
		}, func(context.Context, string, scheduler.Run) scheduler.Result {
			<-release
			return scheduler.Result{}
		})
		h.Offer("a", event())
		synctest.Wait()
		h.Offer("a", scheduler.Event{Cause: own})
		time.Sleep(time.Minute)
		h.expect(t, "0s a: manual by test")
	})
}

func TestG08ARenewalThatIsDecidedAwayLeavesTheAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told atomic.Bool
		h := start(t, scheduler.Options[string]{
			Retry:  retry.Policy{Initial: 10 * time.Second, Factor: 2, Jitter: retry.NoJitter},
			Decide: func(_ string, c timeline.Cause) bool { return c != own || !told.Load() },
		}, func(_ context.Context, _ string, r scheduler.Run) scheduler.Result {
			time.Sleep(time.Second)
			told.Store(r.Attempt == 1)
			return scheduler.Result{Err: errBroken}
		})
		h.Offer("a", event())
		time.Sleep(11*time.Second + 500*time.Millisecond) // the first retry is running
		h.Offer("a", scheduler.Event{Cause: own, Renews: true})
		time.Sleep(30 * time.Second)
		h.expect(t, "0s a: manual by test", "11s a: retry 1", "32s a: retry 2")
	})
}

func TestDecideDropsCauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told atomic.Bool
		late := timeline.Cause(timeline.Manual{By: "own, as the run will tell"})
		h := start(t, scheduler.Options[string]{
			Decide: func(_ string, c timeline.Cause) bool {
				return c != timeline.Cause(timeline.Manual{By: "own"}) && (c != late || !told.Load())
			},
		}, func(context.Context, string, scheduler.Run) scheduler.Result {
			time.Sleep(time.Second)
			told.Store(true)
			return scheduler.Result{}
		})
		own := scheduler.Event{Cause: timeline.Manual{By: "own"}}
		h.Offer("a", own) // while idle
		h.Offer("a", event())
		time.Sleep(100 * time.Millisecond)
		h.Offer("a", own) // while running
		h.Offer("a", scheduler.Event{Cause: late})
		h.Offer("b", event())
		time.Sleep(100 * time.Millisecond)
		h.Offer("b", own)
		h.Offer("b", renewal())
		time.Sleep(time.Hour)
		h.expect(t, "0s a: manual by test", "100ms b: manual by test", "1.1s b: manual by spec")
	})
}

func TestG08ARenewalThatIsDecidedAwayRenewsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := timeline.Cause(timeline.Manual{By: "own generation"})
		var told atomic.Bool
		h := start(t, scheduler.Options[string]{
			Retry:  retry.Policy{Initial: 10 * time.Second, Factor: 1, Jitter: retry.NoJitter},
			Decide: func(_ string, c timeline.Cause) bool { return c != own || !told.Load() },
		}, func(context.Context, string, scheduler.Run) scheduler.Result {
			time.Sleep(time.Second)
			told.Store(true)
			return scheduler.Result{Err: errors.New("no")}
		})
		h.Offer("a", event())
		time.Sleep(100 * time.Millisecond)
		h.Offer("a", scheduler.Event{Cause: own, Renews: true})
		h.Offer("a", event())
		time.Sleep(15 * time.Second)
		h.expect(t, "0s a: manual by test", "1s a: manual by test", "11s a: retry 1")
	})
}

func TestAFinalFailureIsNotRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options[string]{MaxInterval: scheduler.NoMaxInterval}, func(context.Context, string, scheduler.Run) scheduler.Result {
			return scheduler.Result{Err: retry.Final(errors.New("too large"))}
		})
		h.Offer("a", event())
		time.Sleep(time.Hour)
		h.Offer("a", event())
		time.Sleep(time.Hour)
		h.expect(t, "0s a: manual by test", "1h0m0s a: manual by test")
		if n := h.Len(); n != 0 {
			t.Errorf("state for %d keys is kept, want none", n)
		}
	})
}
