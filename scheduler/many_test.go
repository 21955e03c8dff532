package scheduler_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evenkeel/evenkeel/retry"
	"github.com/evenkeel/evenkeel/scheduler"
	"github.com/evenkeel/evenkeel/timeline"
)

// explanations are the causes that a run has explained so far.
type explanations struct {
	mu    sync.Mutex // guards below
	known map[string]bool
	asked int
}

func (e *explanations) explain(by string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.known == nil {
		e.known = map[string]bool{}
	}
	e.known[by] = true
}

func (e *explanations) needed(_ string, c timeline.Cause) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked++
	manual, ok := c.(timeline.Manual)
	return !ok || !e.known[manual.By]
}

func (e *explanations) questions() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.asked
}

func written(i int) string { return fmt.Sprint("write ", i) }

// TestG05ManyCausesThatARunExplainsAfterTheyArriveBringNoFurtherRun: each write's event arrives
// before its answer explains it.
func TestG05ManyCausesThatARunExplainsAfterTheyArriveBringNoFurtherRun(t *testing.T) {
	for name, writes := range map[string]struct {
		n  int
		by func(h *harness, e *explanations, key string, i, n int)
	}{
		"64 at a time":        {64, atOnce},
		"65 at a time":        {65, atOnce},
		"500 at a time":       {500, atOnce},
		"10,000 at a time":    {10_000, atOnce},
		"500 one by one":      {500, oneByOne},
		"100,000 one by one":  {100_000, oneByOne},
		"20,000 ten by ten":   {20_000, tenByTen},
		"500 in other orders": {500, backwards},
	} {
		bubble(t, name, func(t *testing.T) {
			var h *harness
			var explained explanations
			h = start(t, scheduler.Options[string]{Decide: explained.needed}, func(_ context.Context, key string, _ scheduler.Run) scheduler.Result {
				for i := range writes.n {
					h.Offer(key, scheduler.Event{Cause: timeline.Manual{By: written(i)}, Renews: i%3 == 0})
					writes.by(h, &explained, key, i, writes.n)
				}
				return scheduler.Result{}
			})
			h.Offer("a", event())
			time.Sleep(time.Minute)
			h.expect(t, "0s a: manual by test")
			if asked := explained.questions(); asked > 5*writes.n+100 {
				t.Errorf("%d causes were asked about %d times", writes.n, asked)
			}
		})
	}
}

func oneByOne(_ *harness, e *explanations, _ string, i, _ int) { e.explain(written(i)) }

func tenByTen(_ *harness, e *explanations, _ string, i, _ int) {
	if i%10 == 9 {
		for j := i - 9; j <= i; j++ {
			e.explain(written(j))
		}
	}
}

func atOnce(_ *harness, e *explanations, _ string, i, n int) {
	if i == n-1 {
		for j := range n {
			e.explain(written(j))
		}
	}
}

func backwards(_ *harness, e *explanations, _ string, i, n int) {
	if i >= n/2 {
		e.explain(written(n - 1 - i))
		e.explain(written(i))
	}
}

// TestG04MoreCausesThanAreKeptBringARun: counted causes cannot be decided again, so they count as
// needed, even if all others are not.
func TestG04MoreCausesThanAreKeptBringARun(t *testing.T) {
	const kept = 1 << 14
	for n, want := range map[int]int{kept: 1, kept + 1: 2, 2 * kept: 2} {
		bubble(t, fmt.Sprint(n, " causes"), func(t *testing.T) {
			var h *harness
			var explained explanations
			h = start(t, scheduler.Options[string]{Decide: explained.needed}, func(_ context.Context, key string, r scheduler.Run) scheduler.Result {
				if h.count() > 1 {
					if over, is := r.Causes[len(r.Causes)-1].(timeline.Overflow); !is || over.Count != n-kept {
						t.Errorf("told of %v", r.Causes)
					}
					return scheduler.Result{}
				}
				for i := range n {
					h.Offer(key, scheduler.Event{Cause: timeline.Manual{By: written(i)}})
				}
				atOnce(h, &explained, key, n-1, n)
				return scheduler.Result{}
			})
			h.Offer("a", event())
			time.Sleep(time.Minute)
			if runs := h.count(); runs != want {
				t.Errorf("%d runs, want %d", runs, want)
			}
		})
	}
}

// TestG04OneForeignCauseAmongManyOwnOnesBringsARun: wherever it stands.
func TestG04OneForeignCauseAmongManyOwnOnesBringsARun(t *testing.T) {
	for _, at := range []int{0, 63, 64, 65, 127, 128, 499} {
		bubble(t, fmt.Sprint("as number ", at), func(t *testing.T) {
			var h *harness
			var explained explanations
			options := scheduler.Options[string]{
				Retry: retry.Policy{Initial: 10 * time.Second, Jitter: retry.NoJitter}, Decide: explained.needed,
			}
			h = start(t, options, func(_ context.Context, key string, r scheduler.Run) scheduler.Result {
				if h.count() > 1 {
					if r.Attempt != 0 || r.BackOffLeft != 0 {
						t.Errorf("the renewal was lost: attempt %d, %v of the back-off left", r.Attempt, r.BackOffLeft)
					}
					return scheduler.Result{}
				}
				for i := range 500 {
					if i == at {
						h.Offer(key, renewal())
					}
					h.Offer(key, scheduler.Event{Cause: timeline.Manual{By: written(i)}})
				}
				atOnce(h, &explained, key, 499, 500)
				return scheduler.Result{Err: errBroken}
			})
			h.Offer("a", event())
			time.Sleep(time.Minute)
			h.expect(t, "0s a: manual by test", "0s a: manual by spec")
		})
	}
}

// TestG04CausesThatNobodyExplainsAreBounded: a run that hangs while others write all the time.
func TestG04CausesThatNobodyExplainsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h *harness
		var explained explanations
		var told []timeline.Cause
		h = start(t, scheduler.Options[string]{Decide: explained.needed}, func(_ context.Context, key string, r scheduler.Run) scheduler.Result {
			if told = r.Causes; h.count() == 1 {
				for range 100_000 {
					h.Offer(key, event())
				}
			}
			return scheduler.Result{}
		})
		h.Offer("a", event())
		time.Sleep(time.Minute)
		if n := h.count(); n != 2 {
			t.Fatalf("%d runs, want 2", n)
		}
		if len(told) != 65 || told[64] != timeline.Cause(timeline.Overflow{Count: 99_936}) {
			t.Errorf("told of %d causes, the last %v; want 64 and 99936 more", len(told), told[len(told)-1])
		}
		if asked := explained.questions(); asked > 300_000 {
			t.Errorf("asked %d times about 100,000 causes", asked)
		}
	})
}
