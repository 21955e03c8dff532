package scheduler_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evenkeel/evenkeel/scheduler"
	"github.com/evenkeel/evenkeel/timeline"
)

// TestARunIsImminentOnlyIfItWillCome: a caller that leaves a write to the next run must not wait
// for it in vain.
func TestARunIsImminentOnlyIfItWillCome(t *testing.T) {
	bubble(t, "not before anything has happened, then at once, and not for another key", func(t *testing.T) {
		var h *harness
		var said []bool
		h = start(t, scheduler.Options[string]{MaxInterval: scheduler.NoMaxInterval}, func(_ context.Context, key string, _ scheduler.Run) scheduler.Result {
			if key == "a" && h.count() == 1 {
				before := h.Imminent(key)
				h.Offer("other", event())
				other := h.Imminent(key)
				h.Offer(key, event())
				said = []bool{before, other, h.Imminent(key)}
			}
			return scheduler.Result{}
		})
		h.Offer("a", event())
		time.Sleep(time.Minute)
		synctest.Wait()
		if !slices.Equal(said, []bool{false, false, true}) {
			t.Errorf("said %v", said)
		}
		if h.Imminent("a") || h.Imminent("unknown") {
			t.Error("a run is imminent at rest")
		}
	})
	bubble(t, "not for what the run itself has explained since it arrived", func(t *testing.T) {
		var h *harness
		explained := false
		options := scheduler.Options[string]{Decide: func(_ string, c timeline.Cause) bool { return !explained || c != event().Cause }}
		h = start(t, options, func(_ context.Context, key string, r scheduler.Run) scheduler.Result {
			if len(r.Causes) > 1 {
				return scheduler.Result{}
			}
			explained = false
			h.Offer(key, event())
			if !h.Imminent(key) {
				t.Error("no run is imminent, though nothing explains the event yet")
			}
			if explained = true; h.Imminent(key) {
				t.Error("a run is imminent that will not come")
			}
			if h.count() == 2 {
				h.Offer(key, renewal())
				h.Offer(key, renewal())
				if !h.Imminent(key) {
					t.Error("no run is imminent, though one of the causes is not explained")
				}
			}
			return scheduler.Result{}
		})
		h.Offer("a", event())
		time.Sleep(time.Minute)
		h.expect(t, "0s a: manual by test")
		explained = false
		h.Offer("a", event())
		time.Sleep(time.Minute)
		h.expect(t, "0s a: manual by test", "1m0s a: manual by test", "1m0s a: manual by spec, manual by spec")
	})
	bubble(t, "not for many causes that the run has explained since", func(t *testing.T) {
		var h *harness
		explained := false
		options := scheduler.Options[string]{Decide: func(string, timeline.Cause) bool { return !explained }}
		h = start(t, options, func(_ context.Context, key string, r scheduler.Run) scheduler.Result {
			for range 500 {
				h.Offer(key, event())
			}
			if !h.Imminent(key) {
				t.Error("no run is imminent, though nothing explains the events yet")
			}
			if explained = true; h.Imminent(key) {
				t.Error("a run is imminent that will not come")
			}
			return scheduler.Result{}
		})
		h.Offer("a", event())
		time.Sleep(time.Minute)
		h.expect(t, "0s a: manual by test")
	})
	bubble(t, "for causes that were only counted, which nobody can explain", func(t *testing.T) {
		var h *harness
		explained := false
		options := scheduler.Options[string]{Decide: func(string, timeline.Cause) bool { return !explained }}
		h = start(t, options, func(_ context.Context, key string, r scheduler.Run) scheduler.Result {
			if h.count() == 1 {
				for range 20_000 {
					h.Offer(key, event())
				}
				if explained = true; !h.Imminent(key) {
					t.Error("no run is imminent")
				}
			}
			return scheduler.Result{}
		})
		h.Offer("a", event())
		time.Sleep(time.Minute)
		if n := h.count(); n != 2 {
			t.Errorf("%d runs", n)
		}
	})
}
