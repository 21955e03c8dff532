package scheduler_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/scheduler"
)

// compare applies what has begun and returned, and compares.
func (w *world) compare(t *rapid.T) {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.double != "" {
		t.Fatalf("G06: %s runs twice at a time", w.double)
	}
	for _, s := range w.started {
		w.begun(t, s)
	}
	for _, s := range w.started {
		w.fair(t, s.key)
	}
	w.started = nil
	o := w.oracle
	due := o.count(func(k *modelKey) bool { return k.queued })
	busy := o.count(func(k *modelKey) bool { return k.running })
	if due > 0 && busy < o.workers && !o.paused && !o.stopped {
		t.Fatalf("G07: %d keys are due, %d of %d workers are busy", due, busy, o.workers)
	}
	if want, got := o.tidy(), w.Len(); got != want && !o.stopped {
		t.Fatalf("G16: state for %d keys is kept, want %d", got, want)
	}
	w.compareLoad(t, due, busy)
	w.pauses = slices.DeleteFunc(w.pauses, func(p *modelPause) bool { return w.over(t, p) })
}

// compareLoad compares what is told of the scheduler as a whole.
func (w *world) compareLoad(t *rapid.T, due, busy int) {
	o := w.oracle
	want := scheduler.Load{Workers: o.workers, Running: busy, Due: due, Keys: len(o.keys), Failing: len(o.failing), Paused: o.paused}
	want.Counts = scheduler.Counts{Runs: uint64(w.runs), Retries: o.retries, Queued: o.queued, Needless: uint64(w.needless)}
	for _, k := range o.keys {
		if k.running {
			want.Longest, want.Unfinished = max(want.Longest, o.now.Sub(k.begunAt)), want.Unfinished+o.now.Sub(k.begunAt)
		}
	}
	got := w.Load()
	if o.stopped { // what became of the runs that it cut off is not said
		want.Queued, want.Retries = got.Queued, got.Retries
		want.Due, want.Keys, want.Paused, want.Failing = got.Due, got.Keys, got.Paused, got.Failing
	}
	if got != want {
		t.Fatalf("the load is %+v, want %+v", got, want)
	}
	names, failing := slices.Sorted(slices.Values(w.Failing())), slices.Sorted(maps.Keys(o.failing))
	if !o.stopped && !slices.Equal(names, failing) {
		t.Fatalf("%q fail, want %q", names, failing)
	}
}

// begun compares a run that has begun with what the oracle says of it.
func (w *world) begun(t *rapid.T, s started) {
	if !s.at.Equal(w.oracle.now) {
		t.Fatalf("%s began %v early", s.key, w.oracle.now.Sub(s.at))
	}
	if why := w.oracle.mayBegin(s.key); why != "" {
		t.Fatalf("%s began, but %s", s.key, why)
	}
	w.runs++
	k := w.oracle.keys[s.key]
	causes, want := w.oracle.begin(k)
	var got []string
	for _, c := range s.run.Causes {
		got = append(got, c.String())
	}
	if len(causes) <= 64 { // the order of simultaneous events is not defined
		slices.Sort(causes)
		slices.Sort(got)
	}
	if len(got) != len(causes) || got[len(got)-1] != causes[len(causes)-1] || (len(got) <= 64 && !slices.Equal(got, causes)) {
		t.Fatalf("%s began because of\n\t%q\nwant\n\t%q", s.key, got, causes)
	}
	if s.run.Waited != want.Waited || s.run.Queued != want.Queued || s.run.Attempt != want.Attempt || s.run.LastAttempt != want.LastAttempt ||
		s.run.BackOffLeft != want.BackOffLeft {
		t.Fatalf("G08: %s began as %+v, want %+v", s.key, s.run, want)
	}
}

// fair checks that a key that began overtook none of its lane.
func (w *world) fair(t *rapid.T, key string) {
	k := w.oracle.keys[key]
	for name, other := range w.oracle.keys {
		if other.queued && other.lane == k.lane && other.queuedAt.Before(k.queuedAt) {
			t.Fatalf("%s overtook %s", key, name)
		}
	}
}

// over checks whether a call of Pause has returned the right result, at the right time.
func (w *world) over(t *rapid.T, p *modelPause) bool {
	p.runs = slices.DeleteFunc(p.runs, func(key string) bool {
		k := w.oracle.keys[key]
		return k == nil || !k.running || !k.cutOff
	})
	late := w.oracle.now.Sub(p.at) >= 10*time.Second
	select {
	case err := <-p.returned:
		switch {
		case len(p.runs) == 0 && err == nil:
		case late && err != nil && strings.Contains(err.Error(), fmt.Sprint(p.runs)):
		default:
			t.Fatalf("Pause returned %v after %v; still in flight: %v", err, w.oracle.now.Sub(p.at), p.runs)
		}
		return true
	default:
		if late || len(p.runs) == 0 {
			t.Fatalf("Pause has not returned after %v; still in flight: %v", w.oracle.now.Sub(p.at), p.runs)
		}
		return false
	}
}
