package scheduler_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evenkeel/evenkeel/retry"
	"github.com/evenkeel/evenkeel/scheduler"
	"github.com/evenkeel/evenkeel/timeline"
)

// An event may turn out to be needless when it arrives, when the causes of a running key are
// reviewed, and when its run ends. It counts once.
func TestLoadCountsEachNeedlessEventOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var explained atomic.Bool
		h := start(t, scheduler.Options[string]{
			Decide: func(_ string, c timeline.Cause) bool { return c != own || !explained.Load() },
		}, func(context.Context, string, scheduler.Run) scheduler.Result {
			time.Sleep(time.Second)
			return scheduler.Result{}
		})
		needless := func(want uint64) {
			t.Helper()
			synctest.Wait()
			if got := h.Load().Needless; got != want {
				t.Errorf("after %v: %d needless events, want %d", time.Since(h.start), got, want)
			}
		}
		h.Offer("a", event())
		synctest.Wait()
		for range 63 {
			h.Offer("a", scheduler.Event{Cause: own})
		}
		needless(0)
		explained.Store(true)
		h.Offer("a", event()) // the 64th: all are reviewed
		needless(63)
		explained.Store(false)
		h.Offer("a", scheduler.Event{Cause: own})
		explained.Store(true)
		if !h.Imminent("a") {
			t.Error("no run is imminent")
		}
		needless(63)
		time.Sleep(2 * time.Second)
		needless(64)
		h.Offer("a", scheduler.Event{Cause: own})
		needless(65)
	})
}

func TestLoadTellsWhatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // guards result and records
		var result scheduler.Result
		var records []timeline.Record
		next := func(r scheduler.Result) {
			mu.Lock()
			defer mu.Unlock()
			result = r
		}
		h := start(t, scheduler.Options[string]{
			Retry:       retry.Policy{MaxAttempts: 1, Initial: time.Second, Factor: 2, Jitter: retry.NoJitter},
			MaxInterval: scheduler.NoMaxInterval,
			Record: func(_ string, r timeline.Record) {
				mu.Lock()
				defer mu.Unlock()
				records = append(records, r)
			},
		}, func(context.Context, string, scheduler.Run) scheduler.Result {
			mu.Lock()
			defer mu.Unlock()
			return result
		})
		failing := func(retries uint64, want ...string) {
			t.Helper()
			synctest.Wait()
			l := h.Load()
			if got := slices.Sorted(slices.Values(h.Failing())); !slices.Equal(got, want) || l.Failing != len(want) || l.Retries != retries {
				t.Errorf("%q fail (%d), %d retries; want %q and %d", got, l.Failing, l.Retries, want, retries)
			}
		}
		failing(0)
		next(scheduler.Result{Err: errBroken})
		h.Offer("b", event())
		h.Offer("a", event())
		failing(2, "a", "b")
		time.Sleep(time.Hour) // no retry is left, and nothing else is kept of them
		if failing(2, "a", "b"); h.Len() != 0 {
			t.Errorf("%d keys have state", h.Len())
		}
		next(scheduler.Result{})
		h.Offer("a", event())
		failing(2, "b")
		h.Forget("b")
		failing(2)
		next(scheduler.Result{Err: retry.Final(errBroken)})
		h.Offer("a", event())
		failing(2, "a")
		mu.Lock()
		if last := records[len(records)-1]; !last.Final || records[0].Final {
			t.Errorf("the last record is %+v, the first %+v", last, records[0])
		}
		mu.Unlock()
		next(scheduler.Result{Gone: true})
		time.Sleep(time.Hour)
		h.Offer("a", event())
		failing(2)
	})
}

func TestRecordsSayWhetherTheRunAskedForAnother(t *testing.T) {
	for want, results := range map[bool][]scheduler.Result{
		true:  {{RescheduleNow: true}, {RescheduleAfter: time.Minute}, {Superseded: true}},
		false: {{}, {Err: errBroken}, {Gone: true}},
	} {
		for _, result := range results {
			synctest.Test(t, func(t *testing.T) {
				var first atomic.Pointer[timeline.Record]
				h := start(t, scheduler.Options[string]{Record: func(_ string, r timeline.Record) {
					first.CompareAndSwap(nil, &r)
				}}, func(_ context.Context, _ string, r scheduler.Run) scheduler.Result {
					if r.Causes[0] == (timeline.Manual{By: "test"}) {
						return result
					}
					return scheduler.Result{}
				})
				h.Offer("a", event())
				synctest.Wait()
				if got := first.Load().Rescheduled; got != want {
					t.Errorf("%+v: Rescheduled is %v", result, got)
				}
			})
		}
	}
}
