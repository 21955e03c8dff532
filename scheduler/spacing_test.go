package scheduler_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evenkeel/evenkeel/retry"
	"github.com/evenkeel/evenkeel/scheduler"
)

// chatter offers an event every 10 ms for some time.
func (h *harness) chatter(d time.Duration) {
	for range d / (10 * time.Millisecond) {
		h.Offer("a", event())
		time.Sleep(10 * time.Millisecond)
	}
	synctest.Wait()
}

// starts are when the runs of a began.
func (h *harness) starts(t *testing.T) (all []time.Duration) {
	t.Helper()
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, run := range h.runs {
		at, err := time.ParseDuration(run[:strings.Index(run, " ")])
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, at)
	}
	return all
}

func fails(context.Context, string, scheduler.Run) scheduler.Result {
	return scheduler.Result{Err: errBroken}
}

func TestG08OnceTheRetriesAreExhaustedEventsWaitForTheLongestDelay(t *testing.T) {
	for name, c := range map[string]struct {
		policy retry.Policy
		err    error
		last   time.Duration // when the last attempt of the policy is made
		window time.Duration
	}{
		"attempts used up": {retry.Policy{Initial: time.Second, Jitter: retry.NoJitter, Max: time.Minute, MaxAttempts: 2}, errBroken, 3 * time.Second, time.Minute},
		"never":            {retry.Never(), errBroken, 0, 5 * time.Minute},
		"final":            {retry.Policy{Max: 2 * time.Minute}, retry.Final(errBroken), 0, 2 * time.Minute},
		"time used up":     {retry.Policy{Initial: 2 * time.Second, Factor: 1, Jitter: retry.NoJitter, Max: time.Minute, MaxElapsed: 3 * time.Second}, errBroken, 2 * time.Second, 10 * time.Second},
		"JOSDK":            {retry.JOSDK(), errBroken, 18250 * time.Millisecond, 15187 * time.Millisecond},
	} {
		run := func(context.Context, string, scheduler.Run) scheduler.Result { return scheduler.Result{Err: c.err} }
		options := scheduler.Options[string]{Retry: c.policy, MaxInterval: scheduler.NoMaxInterval}
		bubble(t, name+": one run for all of them", func(t *testing.T) {
			h := start(t, options, run)
			h.Offer("a", event())
			time.Sleep(c.last + time.Millisecond)
			synctest.Wait()
			h.runs = nil
			for range 2 {
				h.chatter(c.window)
			}
			time.Sleep(time.Second)
			want := []time.Duration{c.last + c.window, c.last + 2*c.window}
			if got := h.starts(t); !slices.Equal(got, want) {
				t.Errorf("runs at %v, want %v", got, want)
			}
			time.Sleep(time.Hour)
			synctest.Wait()
			if n := h.Len(); n != 0 {
				t.Errorf("state for %d keys is kept, want none", n)
			}
		})
		bubble(t, name+": a renewal passes", func(t *testing.T) {
			h := start(t, options, run)
			h.Offer("a", event())
			time.Sleep(c.last + time.Millisecond)
			h.Offer("a", event())
			synctest.Wait()
			h.runs = nil
			h.Offer("a", renewal())
			h.expect(t, (c.last+time.Millisecond).String()+" a: manual by test, manual by spec")
		})
		bubble(t, name+": no event, no run", func(t *testing.T) {
			h := start(t, options, run)
			h.Offer("a", event())
			time.Sleep(c.last + time.Millisecond)
			n := h.count()
			time.Sleep(time.Hour)
			h.Offer("a", event())
			synctest.Wait()
			if got := h.starts(t)[n:]; !slices.Equal(got, []time.Duration{c.last + time.Millisecond + time.Hour}) {
				t.Errorf("runs at %v, want one for the event an hour later, at once", got)
			}
		})
	}
}

// TestG07TimesThatWereAskedForComeThoughTheRetriesAreExhausted: they are not what chatters.
func TestG07TimesThatWereAskedForComeThoughTheRetriesAreExhausted(t *testing.T) {
	options := scheduler.Options[string]{Retry: retry.Never(), MaxInterval: 2 * time.Minute}
	bubble(t, "a reschedule and the max interval", func(t *testing.T) {
		h := prepare(t, options, func(_ context.Context, _ string, r scheduler.Run) scheduler.Result {
			if r.Causes[0] == renewal().Cause {
				return scheduler.Result{RescheduleAfter: time.Minute}
			}
			return scheduler.Result{Err: errBroken}
		})
		h.ExactIntervals()
		h.run(t)
		h.Offer("a", renewal())
		time.Sleep(30 * time.Second)
		h.Offer("a", event()) // fails
		synctest.Wait()
		h.Offer("a", event())
		time.Sleep(3 * time.Minute)
		h.expect(t, "0s a: manual by spec", "30s a: manual by test",
			"1m0s a: manual by test, rescheduled after 1m0s", "3m0s a: max interval 2m0s")
	})
}

// TestG08EarlyRunsAreSpacedByAShortPauseWhateverTheBackOff: who fails for one reason may have been
// healed of another.
func TestG08EarlyRunsAreSpacedByAShortPauseWhateverTheBackOff(t *testing.T) {
	long := retry.Policy{Initial: 5 * time.Minute, Jitter: retry.NoJitter}
	bubble(t, "it grows to 10 s, and events do not defeat it", func(t *testing.T) {
		h := start(t, scheduler.Options[string]{Retry: long}, fails)
		h.Offer("a", event())
		time.Sleep(time.Second)
		synctest.Wait()
		h.runs = nil
		h.chatter(50 * time.Second)
		want := []time.Duration{0, 100, 300, 700, 1500, 3100, 6300, 12700, 22700, 32700, 42700}
		for i := range want {
			want[i] = time.Second + want[i]*time.Millisecond
		}
		if got := h.starts(t); !slices.Equal(got, want) {
			t.Errorf("runs at %v, want %v", got, want)
		}
	})
	bubble(t, "the retry comes at its time, and the pause goes on growing after it", func(t *testing.T) {
		h := start(t, scheduler.Options[string]{Retry: retry.Policy{Initial: time.Second, Jitter: retry.NoJitter}}, fails)
		h.Offer("a", event())
		for range 8 {
			time.Sleep(160 * time.Millisecond)
			h.Offer("a", event())
		}
		time.Sleep(time.Second)
		h.expect(t,
			"0s a: manual by test", "160ms a: manual by test", "320ms a: manual by test",
			"520ms a: manual by test", "920ms a: manual by test, manual by test",
			"1s a: manual by test, retry 1", "1.72s a: manual by test, manual by test")
	})
	bubble(t, "an event that comes after it is at once", func(t *testing.T) {
		h := start(t, scheduler.Options[string]{Retry: long}, fails)
		for range 10 {
			h.Offer("a", event())
			time.Sleep(11 * time.Second)
		}
		for i, at := range h.starts(t) {
			if at != time.Duration(i)*11*time.Second {
				t.Errorf("run %d at %v", i, at)
			}
		}
	})
	bubble(t, "it counts from the end of the early run", func(t *testing.T) {
		h := start(t, scheduler.Options[string]{Retry: long}, func(context.Context, string, scheduler.Run) scheduler.Result {
			time.Sleep(time.Second)
			return scheduler.Result{Err: errBroken}
		})
		h.Offer("a", event())
		h.chatter(3 * time.Second)
		h.expectStarts(t, 0, time.Second, 2100*time.Millisecond)
	})
	for name, end := range map[string]func(h *harness){
		"a success": func(h *harness) { h.Offer("a", scheduler.Event{Cause: own}) },
		"a renewal": func(h *harness) { h.Offer("a", renewal()) },
	} {
		bubble(t, name+" ends it", func(t *testing.T) {
			h := start(t, scheduler.Options[string]{Retry: long}, func(_ context.Context, _ string, r scheduler.Run) scheduler.Result {
				if slices.Contains(r.Causes, own) {
					return scheduler.Result{}
				}
				return scheduler.Result{Err: errBroken}
			})
			h.Offer("a", event())
			h.chatter(20 * time.Second)
			time.Sleep(20 * time.Second)
			end(h)
			synctest.Wait()
			h.Offer("a", event()) // fails, or is the first early run
			synctest.Wait()
			n := h.count()
			h.chatter(time.Second)
			if again := h.count() - n; again < 3 {
				t.Errorf("%d early runs in the next second", again)
			}
		})
	}
	bubble(t, "it consumes no attempt", func(t *testing.T) {
		var attempts []int
		h := start(t, scheduler.Options[string]{Retry: long}, func(_ context.Context, _ string, r scheduler.Run) scheduler.Result {
			attempts = append(attempts, r.Attempt)
			return scheduler.Result{Err: errBroken}
		})
		h.Offer("a", event())
		h.chatter(time.Minute)
		synctest.Wait()
		if want := append([]int{0}, slices.Repeat([]int{1}, len(attempts)-1)...); !slices.Equal(attempts, want) {
			t.Errorf("attempts %v, want %v", attempts, want)
		}
	})
}

func (h *harness) expectStarts(t *testing.T, want ...time.Duration) {
	t.Helper()
	if got := h.starts(t); !slices.Equal(got, want) {
		t.Errorf("runs at %v, want %v", got, want)
	}
}

// TestG08ARenewalPassesTheTimeOfARefusal, because what was refused may have nothing to do with it.
// Several in a row are spaced, because the server asked for time.
func TestG08ARenewalPassesTheTimeOfARefusal(t *testing.T) {
	refused := func(context.Context, string, scheduler.Run) scheduler.Result {
		return scheduler.Result{Err: retry.After(errBroken, 24*time.Hour)}
	}
	options := scheduler.Options[string]{MaxInterval: scheduler.NoMaxInterval}
	bubble(t, "once each", func(t *testing.T) {
		h := start(t, options, refused)
		h.Offer("a", event())
		time.Sleep(time.Second)
		h.Offer("a", event())
		h.Offer("a", renewal())
		time.Sleep(time.Minute)
		h.Offer("a", event())
		h.Offer("a", renewal())
		time.Sleep(time.Hour)
		h.expect(t, "0s a: manual by test", "1s a: manual by test, manual by spec", "1m1s a: manual by test, manual by spec")
		time.Sleep(24 * time.Hour)
		h.expect(t, "0s a: manual by test", "1s a: manual by test, manual by spec", "1m1s a: manual by test, manual by spec",
			"24h1m1s a: rescheduled after 24h0m0s")
	})
	bubble(t, "not each of many at once", func(t *testing.T) {
		h := start(t, options, refused)
		h.Offer("a", event())
		time.Sleep(time.Second)
		for range 1000 {
			h.Offer("a", renewal())
			time.Sleep(10 * time.Millisecond)
		}
		h.expectStarts(t, 0, time.Second, 1100*time.Millisecond, 1300*time.Millisecond, 1700*time.Millisecond,
			2500*time.Millisecond, 4100*time.Millisecond, 7300*time.Millisecond)
	})
	bubble(t, "that came during the refused run, too", func(t *testing.T) {
		h := start(t, options, func(ctx context.Context, key string, r scheduler.Run) scheduler.Result {
			time.Sleep(time.Second)
			return refused(ctx, key, r)
		})
		h.Offer("a", event())
		time.Sleep(100 * time.Millisecond)
		h.Offer("a", renewal())
		time.Sleep(time.Hour)
		h.expect(t, "0s a: manual by test", "1s a: manual by spec")
	})
	bubble(t, "and the run that it brings ends the wait if it succeeds", func(t *testing.T) {
		h := start(t, options, failing(retry.After(errBroken, time.Hour)))
		h.Offer("a", event())
		time.Sleep(time.Second)
		h.Offer("a", renewal())
		time.Sleep(time.Second)
		h.Offer("a", event())
		time.Sleep(24 * time.Hour)
		h.expect(t, "0s a: manual by test", "1s a: manual by spec", "2s a: manual by test")
		if n := h.Len(); n != 0 {
			t.Errorf("state for %d keys is kept, want none", n)
		}
	})
}

// turning is a run that takes 10 ms and asks for another one at once.
func turning(context.Context, string, scheduler.Run) scheduler.Result {
	time.Sleep(10 * time.Millisecond)
	return scheduler.Result{RescheduleNow: true}
}

// TestG15WhoAsksForARunAtOnceAgainAndAgainIsSlowedButNeverStopped.
func TestG15WhoAsksForARunAtOnceAgainAndAgainIsSlowedButNeverStopped(t *testing.T) {
	for name, run := range map[string]scheduler.Func[string]{
		"at once": turning,
		"so soon that it is at once": func(context.Context, string, scheduler.Run) scheduler.Result {
			time.Sleep(10 * time.Millisecond)
			return scheduler.Result{RescheduleAfter: time.Nanosecond}
		},
		"both": func(context.Context, string, scheduler.Run) scheduler.Result {
			time.Sleep(10 * time.Millisecond)
			return scheduler.Result{RescheduleNow: true, RescheduleAfter: time.Millisecond}
		},
	} {
		bubble(t, name, func(t *testing.T) {
			h := start(t, scheduler.Options[string]{}, run)
			h.Offer("a", event())
			time.Sleep(5 * time.Second)
			if n := h.count(); n < 10 || n > 20 {
				t.Errorf("%d runs in 5 s", n)
			}
			n := h.count()
			time.Sleep(100 * time.Second)
			if more := h.count() - n; more < 95 || more > 100 {
				t.Errorf("%d runs in the next 100 s, want about one a second", more)
			}
		})
	}
	bubble(t, "a few steps are at once", func(t *testing.T) {
		h := start(t, scheduler.Options[string]{}, turning)
		h.Offer("a", event())
		time.Sleep(time.Second)
		ms := time.Millisecond
		want := []time.Duration{0, 10 * ms, 20 * ms, 30 * ms, 40 * ms, 60 * ms, 90 * ms, 140 * ms, 230 * ms, 400 * ms, 730 * ms}
		h.expectStarts(t, want...)
	})
	bubble(t, "something else is not slowed, and begins anew", func(t *testing.T) {
		h := start(t, scheduler.Options[string]{}, turning)
		h.Offer("a", event())
		time.Sleep(10*time.Second + 500*time.Millisecond)
		synctest.Wait()
		h.runs = nil
		at := time.Since(h.start)
		h.Offer("a", event())
		time.Sleep(35 * time.Millisecond)
		ms := time.Millisecond
		h.expectStarts(t, at, at+10*ms, at+20*ms, at+30*ms)
	})
	bubble(t, "a longer time that was asked for is exact, and a pause between ends it", func(t *testing.T) {
		h := start(t, scheduler.Options[string]{}, func(context.Context, string, scheduler.Run) scheduler.Result {
			return scheduler.Result{RescheduleAfter: 10 * time.Millisecond}
		})
		h.Offer("a", event())
		time.Sleep(time.Second + time.Millisecond)
		if n := h.count(); n != 101 {
			t.Errorf("%d runs in a second", n)
		}
	})
	bubble(t, "nothing of it is lost to a run between", func(t *testing.T) {
		h := start(t, scheduler.Options[string]{MaxInterval: scheduler.NoMaxInterval}, func(_ context.Context, _ string, r scheduler.Run) scheduler.Result {
			return scheduler.Result{RescheduleNow: !slices.Contains(r.Causes, own)}
		})
		h.Offer("a", event())
		time.Sleep(10*time.Second + 500*time.Millisecond)
		n := h.count()
		h.Offer("a", scheduler.Event{Cause: own})
		time.Sleep(time.Hour)
		if h.count() != n+1 || h.Len() != 0 {
			t.Errorf("%d runs after the one that asked for none, and %d keys are kept", h.count()-n-1, h.Len())
		}
	})
}

func TestARunThatMakesItsKeyDueItselfMayRest(t *testing.T) {
	options := scheduler.Options[string]{MaxInterval: scheduler.NoMaxInterval}
	rests := func(context.Context, string, scheduler.Run) scheduler.Result {
		return scheduler.Result{Rest: time.Minute}
	}
	bubble(t, "events wait and are merged, a renewal does not", func(t *testing.T) {
		h := start(t, options, rests)
		h.Offer("a", event())
		time.Sleep(time.Second)
		h.Offer("a", event())
		h.Offer("a", event())
		time.Sleep(time.Minute)
		h.Offer("a", renewal())
		h.expect(t, "0s a: manual by test", "1m0s a: manual by test, manual by test", "1m1s a: manual by spec")
		time.Sleep(time.Hour)
		synctest.Wait()
		if h.count() != 3 || h.Len() != 0 {
			t.Errorf("%d runs, %d keys are kept: a rest brings no run", h.count(), h.Len())
		}
	})
	bubble(t, "what comes during the run waits as well, and a time that was asked for does not", func(t *testing.T) {
		var h *harness
		h = start(t, options, func(_ context.Context, key string, _ scheduler.Run) scheduler.Result {
			h.Offer(key, event())
			return scheduler.Result{Rest: time.Minute, RescheduleAfter: 50 * time.Second}
		})
		h.Offer("a", event())
		time.Sleep(115 * time.Second)
		h.expect(t, "0s a: manual by test", "50s a: manual by test, rescheduled after 50s", "1m40s a: manual by test, rescheduled after 50s")
	})
	bubble(t, "a run at once that was asked for waits, too", func(t *testing.T) {
		h := start(t, options, func(_ context.Context, _ string, r scheduler.Run) scheduler.Result {
			return scheduler.Result{Rest: time.Minute, RescheduleNow: r.Causes[0] == event().Cause}
		})
		h.Offer("a", event())
		time.Sleep(time.Hour)
		h.expect(t, "0s a: manual by test", "1m0s a: rescheduled after 0s")
	})
	bubble(t, "not after a failure", func(t *testing.T) {
		h := start(t, scheduler.Options[string]{Retry: retry.Policy{Initial: time.Second, Jitter: retry.NoJitter}}, func(context.Context, string, scheduler.Run) scheduler.Result {
			return scheduler.Result{Rest: time.Minute, Err: errBroken}
		})
		h.Offer("a", event())
		synctest.Wait()
		h.Offer("a", event())
		time.Sleep(1500 * time.Millisecond)
		h.expect(t, "0s a: manual by test", "0s a: manual by test", "1s a: retry 1")
	})
}

// TestG16AKeyThatIsGoneLeavesNoRowOfRunsAtOnce, though a time that it asked for comes while its
// last run goes on.
func TestG16AKeyThatIsGoneLeavesNoRowOfRunsAtOnce(t *testing.T) {
	bubble(t, "the next of its name begins anew", func(t *testing.T) {
		var h *harness
		h = start(t, scheduler.Options[string]{}, func(context.Context, string, scheduler.Run) scheduler.Result {
			switch h.count() {
			case 1:
				return scheduler.Result{RescheduleNow: true, RescheduleAfter: 5 * time.Second}
			case 9:
				time.Sleep(10 * time.Second)
				return scheduler.Result{Gone: true}
			case 10, 11, 12:
				return scheduler.Result{RescheduleNow: true}
			case 13:
				return scheduler.Result{}
			}
			return scheduler.Result{RescheduleNow: true}
		})
		h.Offer("a", event())
		time.Sleep(time.Minute)
		ends := 10*time.Second + 150*time.Millisecond
		all := h.starts(t)
		if len(all) != 13 || !slices.Equal(all[9:], []time.Duration{ends, ends, ends, ends}) {
			t.Errorf("runs at %v", all)
		}
	})
}
