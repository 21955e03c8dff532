package scheduler_test

import (
	"context"
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
