package scheduler_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evenkeel/evenkeel/retry"
	"github.com/evenkeel/evenkeel/scheduler"
	"github.com/evenkeel/evenkeel/timeline"
)

func TestC67EventsDuringARunCauseOneFurtherRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options[string]{}, func(context.Context, string, scheduler.Run) scheduler.Result {
			time.Sleep(time.Second)
			return scheduler.Result{}
		})
		h.Offer("a", event())
		time.Sleep(100 * time.Millisecond)
		h.Offer("a", event())
		h.Offer("a", renewal())
		time.Sleep(time.Minute)
		h.expect(t, "0s a: manual by test", "1s a: manual by test, manual by spec")
	})
}

func TestG06OneRunPerKeyAtAnyTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		running := map[string]bool{}
		most := 0
		h := start(t, scheduler.Options[string]{Concurrency: 4}, func(_ context.Context, key string, _ scheduler.Run) scheduler.Result {
			mu.Lock()
			if running[key] {
				t.Errorf("%s runs twice at a time", key)
			}
			running[key] = true
			most = max(most, len(running))
			mu.Unlock()
			time.Sleep(10 * time.Millisecond)
			mu.Lock()
			delete(running, key)
			mu.Unlock()
			return scheduler.Result{}
		})
		for i := range 400 {
			key := fmt.Sprint(i % 7)
			h.Offer(key, event())
			if i%5 == 0 {
				h.Forget(key)
				h.Offer(key, event())
			}
			time.Sleep(time.Millisecond)
		}
		synctest.Wait()
		if most != 4 {
			t.Errorf("%d runs at a time, want the 4 that are allowed", most)
		}
	})
}

func TestG08C68C79FailuresFollowTheRetryLaw(t *testing.T) {
	exact := retry.Policy{Initial: time.Second, Factor: 2, Jitter: retry.NoJitter, MaxAttempts: 3}
	fail := func(context.Context, string, scheduler.Run) scheduler.Result { return scheduler.Result{Err: errBroken} }

	bubble(t, "delays double until the attempts are used up, then the max interval applies", func(t *testing.T) {
		h := start(t, scheduler.Options[string]{Retry: exact}, fail)
		h.Offer("a", event())
		time.Sleep(8 * time.Hour)
		h.expect(t, "0s a: manual by test", "1s a: retry 1", "3s a: retry 2", "7s a: retry 3")
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		if len(h.runs) != 5 || !strings.Contains(h.runs[4], "max interval") {
			t.Fatalf("runs are %v, want a fifth one for the max interval", h.runs)
		}
	})
	bubble(t, "events bring runs forward, with pauses, and consume no attempt", func(t *testing.T) {
		h := start(t, scheduler.Options[string]{Retry: exact}, fail)
		h.Offer("a", event())
		for range 4 {
			time.Sleep(200 * time.Millisecond)
			h.Offer("a", event())
		}
		time.Sleep(1500 * time.Millisecond)
		runs := []string{
			"0s a: manual by test", "200ms a: manual by test", "400ms a: manual by test", "600ms a: manual by test",
			"1s a: manual by test, retry 1",
		}
		h.expect(t, runs...)
		time.Sleep(time.Second)
		h.expect(t, append(runs, "3s a: retry 2")...)
	})
	bubble(t, "a renewal runs at once and resets the attempts", func(t *testing.T) {
		h := start(t, scheduler.Options[string]{Retry: exact}, fail)
		h.Offer("a", event())
		time.Sleep(4 * time.Second)
		h.Offer("a", renewal())
		time.Sleep(1500 * time.Millisecond)
		h.expect(t, "0s a: manual by test", "1s a: retry 1", "3s a: retry 2", "4s a: manual by spec", "5s a: retry 1")
	})
	bubble(t, "success resets", func(t *testing.T) {
		calls := 0
		h := start(t, scheduler.Options[string]{Retry: exact}, func(_ context.Context, _ string, r scheduler.Run) scheduler.Result {
			calls++
			if calls == 3 {
				return scheduler.Result{}
			}
			return scheduler.Result{Err: errBroken}
		})
		h.Offer("a", event())
		time.Sleep(time.Minute)
		h.Offer("a", event())
		time.Sleep(1500 * time.Millisecond)
		h.expect(t, "0s a: manual by test", "1s a: retry 1", "3s a: retry 2", "1m0s a: manual by test", "1m1s a: retry 1")
	})
	bubble(t, "a window that ends during its early run makes that run the retry", func(t *testing.T) {
		h := start(t, scheduler.Options[string]{Retry: exact}, func(_ context.Context, _ string, r scheduler.Run) scheduler.Result {
			if _, early := r.Causes[0].(timeline.Manual); early && r.Attempt == 1 {
				time.Sleep(time.Second)
			}
			return scheduler.Result{Err: errBroken}
		})
		h.Offer("a", event())
		time.Sleep(500 * time.Millisecond)
		h.Offer("a", event())
		time.Sleep(5 * time.Second)
		h.expect(t, "0s a: manual by test", "500ms a: manual by test", "3.5s a: retry 2")
	})
}

func TestG08PresetsAreExact(t *testing.T) {
	for name, c := range map[string]struct {
		policy retry.Policy
		want   []float64 // seconds, the first ones
	}{
		"JOSDK":             {retry.JOSDK(), []float64{0, 2, 4, 7, 11.5, 18.25}},
		"ControllerRuntime": {retry.ControllerRuntime(), []float64{0, 0.005, 0.015, 0.035, 0.075, 0.155, 0.315, 0.635, 1.275}},
		"Never":             {retry.Never(), []float64{0}},
	} {
		bubble(t, name, func(t *testing.T) {
			var last scheduler.Run
			h := start(t, scheduler.Options[string]{Retry: c.policy, MaxInterval: scheduler.NoMaxInterval}, func(_ context.Context, _ string, r scheduler.Run) scheduler.Result {
				last = r
				return scheduler.Result{Err: errBroken}
			})
			h.Offer("a", event())
			time.Sleep(time.Hour)
			if err := h.stop(); err != nil {
				t.Fatal(err)
			}
			if end := len(c.want); c.policy.MaxAttempts != 0 && (len(h.runs) != end || !last.LastAttempt) {
				t.Errorf("runs are %v, the last %+v; want %d, and the last one to know", h.runs, last, end)
			}
			for i, seconds := range c.want {
				if at := time.Duration(seconds * float64(time.Second)).Round(time.Millisecond); !strings.HasPrefix(h.runs[i], at.String()+" ") {
					t.Errorf("run %d is %q, want it at %v", i, h.runs[i], at)
				}
			}
		})
	}
}

func TestG07C71C78TimersAreNotLost(t *testing.T) {
	bubble(t, "a reschedule survives events", func(t *testing.T) {
		asked := false
		h := start(t, scheduler.Options[string]{}, func(context.Context, string, scheduler.Run) scheduler.Result {
			if asked {
				return scheduler.Result{}
			}
			asked = true
			return scheduler.Result{RescheduleAfter: time.Minute}
		})
		h.Offer("a", event())
		time.Sleep(time.Second)
		h.Offer("a", event())
		time.Sleep(time.Hour)
		h.expect(t, "0s a: manual by test", "1s a: manual by test", "1m0s a: rescheduled after 1m0s")
	})
	bubble(t, "an instant reschedule runs at once", func(t *testing.T) {
		h := start(t, scheduler.Options[string]{}, func(_ context.Context, _ string, r scheduler.Run) scheduler.Result {
			_, again := r.Causes[0].(timeline.Timer)
			return scheduler.Result{RescheduleNow: !again}
		})
		h.Offer("a", event())
		h.expect(t, "0s a: manual by test", "0s a: rescheduled after 0s")
	})
	bubble(t, "the max interval comes within its promise", func(t *testing.T) {
		h := start(t, scheduler.Options[string]{MaxInterval: time.Hour}, succeed)
		h.Offer("a", event())
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(h.runs) != 2 {
			t.Fatalf("runs are %v, want a second one within the hour", h.runs)
		}
	})
}

func TestForgetLeavesNothing(t *testing.T) {
	bubble(t, "timers and attempts go", func(t *testing.T) {
		h := start(t, scheduler.Options[string]{}, func(context.Context, string, scheduler.Run) scheduler.Result {
			return scheduler.Result{Err: errBroken}
		})
		h.Offer("a", event())
		synctest.Wait()
		h.Forget("a")
		time.Sleep(20 * time.Hour)
		h.expect(t, "0s a: manual by test")
		if n := h.Len(); n != 0 {
			t.Errorf("state for %d keys is kept, want none", n)
		}
	})
	bubble(t, "during a run it drains at the end, and a re-created resource runs after it", func(t *testing.T) {
		h := start(t, scheduler.Options[string]{}, func(context.Context, string, scheduler.Run) scheduler.Result {
			time.Sleep(time.Second)
			return scheduler.Result{Err: errBroken}
		})
		h.Offer("a", event())
		h.Offer("b", event())
		time.Sleep(100 * time.Millisecond)
		h.Offer("a", event())
		h.Forget("a")
		h.Forget("b")
		h.Offer("b", renewal())
		time.Sleep(1500 * time.Millisecond)
		h.Forget("b")
		time.Sleep(time.Hour)
		synctest.Wait()
		slices.Sort(h.runs)
		h.expect(t, "0s a: manual by test", "0s b: manual by test", "1s b: manual by spec")
		if n := h.Len(); n != 0 {
			t.Errorf("state for %d keys is kept, want none", n)
		}
	})
}

func TestG15PanicIsAFailureOfItsKeyAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		records := map[string]timeline.Record{}
		h := start(t, scheduler.Options[string]{
			Concurrency: 1,
			Record:      func(key string, r timeline.Record) { records[key] = r },
		}, func(_ context.Context, key string, _ scheduler.Run) scheduler.Result {
			if key == "bad" {
				panic("no such page")
			}
			return scheduler.Result{Requests: []timeline.Request{{Text: "apply ConfigMap"}}, ReadsAhead: 3}
		})
		h.Offer("bad", event())
		h.Offer("good", event())
		h.expect(t, "0s bad: manual by test", "0s good: manual by test")
		if r := records["bad"]; r.Outcome != timeline.Panicked || r.Err != "panic: no such page" || r.Next == 0 {
			t.Errorf("record of the panic is %+v", r)
		}
		if r := records["good"]; r.Outcome != timeline.Succeeded || len(r.Requests) != 1 || r.ReadsAhead != 3 {
			t.Errorf("record of the success is %+v", r)
		}
	})
}

func TestLiveChangesOvertakeTheInitialListWhichStillGetsItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		h := start(t, scheduler.Options[string]{Concurrency: 1}, func(_ context.Context, key string, _ scheduler.Run) scheduler.Result {
			time.Sleep(time.Second)
			order = append(order, key)
			return scheduler.Result{}
		})
		h.Offer("first", event())
		synctest.Wait()
		for i := range 3 {
			h.Offer(fmt.Sprintf("bulk%d", i), scheduler.Event{Cause: timeline.Manual{}, Lane: scheduler.BulkLane})
		}
		for i := range 10 {
			h.Offer(fmt.Sprintf("live%d", i), event())
		}
		h.Offer("bulk2", event()) // becomes live
		time.Sleep(time.Minute)
		synctest.Wait()
		want := []string{
			"first", "live0", "live1", "live2", "live3", "live4", "live5", "live6", "bulk0",
			"live7", "live8", "live9", "bulk2", "bulk1",
		}
		if !slices.Equal(order, want) {
			t.Errorf("order is %v, want %v", order, want)
		}
	})
}

func TestC74EventsBeforeTheStartRunAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran := make(chan string, 1)
		s, err := scheduler.New(func(_ context.Context, key string, _ scheduler.Run) scheduler.Result {
			ran <- key
			return scheduler.Result{}
		}, scheduler.Options[string]{})
		if err != nil {
			t.Fatal(err)
		}
		s.Offer("a", event())
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Run(ctx) }()
		if key := <-ran; key != "a" {
			t.Errorf("ran %s", key)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := s.Run(t.Context()); err == nil {
			t.Error("a second Run is not refused")
		}
	})
}

func TestG19C72StopIsBounded(t *testing.T) {
	bubble(t, "a run may finish within the grace period, nothing new starts", func(t *testing.T) {
		finished := false
		h := start(t, scheduler.Options[string]{Concurrency: 1, Grace: 10 * time.Second}, func(ctx context.Context, _ string, _ scheduler.Run) scheduler.Result {
			time.Sleep(5 * time.Second)
			finished = ctx.Err() == nil
			return scheduler.Result{}
		})
		h.Offer("a", event())
		synctest.Wait()
		h.Offer("b", event())
		if err := h.stop(); err != nil || !finished {
			t.Errorf("stopped with %v; finished undisturbed: %v", err, finished)
		}
		h.expect(t, "0s a: manual by test")
		h.Offer("a", event())
		time.Sleep(time.Hour)
		h.expect(t, "0s a: manual by test")
	})
	bubble(t, "then its context is cancelled", func(t *testing.T) {
		h := start(t, scheduler.Options[string]{Grace: 2 * time.Second}, func(ctx context.Context, _ string, _ scheduler.Run) scheduler.Result {
			<-ctx.Done()
			return scheduler.Result{Err: ctx.Err()}
		})
		h.Offer("a", event())
		synctest.Wait()
		if err := h.stop(); err != nil || time.Since(h.start) != 2*time.Second {
			t.Errorf("stopped after %v with %v, want 2s", time.Since(h.start), err)
		}
	})
	bubble(t, "a run that ignores it is named", func(t *testing.T) {
		release := make(chan struct{})
		h := start(t, scheduler.Options[string]{Grace: -1}, func(context.Context, string, scheduler.Run) scheduler.Result {
			<-release
			return scheduler.Result{}
		})
		h.Offer("stubborn", event())
		synctest.Wait()
		if err := h.stop(); err == nil || !strings.Contains(err.Error(), "stubborn") {
			t.Errorf("error is %v, want one that names the key", err)
		}
		close(release)
	})
}

func TestCausesBeyondTheBoundAreCounted(t *testing.T) {
	expectOverflowCounted(t, scheduler.Options[string]{})
}

// expectOverflowCounted offers 1001 causes to a running key and checks the causes of its second
// run.
func expectOverflowCounted(t *testing.T, options scheduler.Options[string]) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var last []timeline.Cause
		h := start(t, options, func(_ context.Context, _ string, r scheduler.Run) scheduler.Result {
			last = r.Causes
			time.Sleep(time.Second)
			return scheduler.Result{}
		})
		for range 1001 {
			h.Offer("a", event())
			synctest.Wait()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(last) != 65 || last[64] != timeline.Cause(timeline.Overflow{Count: 936}) {
			t.Errorf("%d causes, the last %v; want 64 and 936 more", len(last), last[len(last)-1])
		}
	})
}

func TestNewNamesEveryBadOption(t *testing.T) {
	_, err := scheduler.New[string](nil, scheduler.Options[string]{Concurrency: -3, MaxInterval: -5, Retry: retry.Policy{Factor: 0.1}, RateLimit: scheduler.RateLimit{Runs: 3}})
	for _, want := range []string{"no run function", "Concurrency -3", "MaxInterval -5ns", "Factor 0.1", "RateLimit 3 runs per 0s"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not name %q", err, want)
		}
	}
}
