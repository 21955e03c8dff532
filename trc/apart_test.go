package trc_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/evenkeel/evenkeel/trc"
)

// listener is a subscriber that records what it receives, and blocks, panics or ends its goroutine
// on demand.
type listener struct {
	mu   sync.Mutex
	told []string
	do   map[string]func() // by transition
}

func (l *listener) handle(t trc.Transition) {
	what := describe(t)
	l.mu.Lock()
	l.told = append(l.told, what)
	do := l.do[what]
	l.mu.Unlock()
	if do != nil {
		do()
	}
}

func (l *listener) miss() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told = append(l.told, "missed")
}

func (l *listener) expect(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Equal(l.told, want) {
		t.Errorf("told\n\t%s\nwant\n\t%s", strings.Join(l.told, "\n\t"), strings.Join(want, "\n\t"))
	}
}

func apart(l *listener, of string) trc.Subscriber {
	return trc.Subscriber{Handle: l.handle, Of: of, Apart: true, Missed: l.miss}
}

func TestG15_ASubscriberThatHangsHoldsUpNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		goOn := make(chan struct{})
		stuck, other, inline := &listener{do: map[string]func(){"add a u1@5 initially": func() { <-goOn }}}, &listener{}, &listener{}
		r.SubscribeAs(apart(stuck, "stuck"))
		r.SubscribeAs(apart(other, "other"))
		r.Subscribe(inline.handle)
		r.lists(10, object("a", "u1@5"))
		r.adds(object("b", "u2@11"))
		r.acknowledge(object("b", "u2@12"))
		rest := []string{"add b u2@11", "update b u2@11 u2@12"}
		all := append([]string{"add a u1@5 initially"}, rest...)
		stuck.expect(t, all[0])
		other.expect(t, all...)
		inline.expect(t, all...)

		var order []string
		r.After(func() { order = append(order, "all") })
		r.AfterTo("other", func() { order = append(order, "other") })
		if done := r.DeliveredTo("other"); done != nil {
			<-done
		}
		waits := r.DeliveredTo("stuck")
		if waits == nil || r.Delivered() == nil {
			t.Error("what hangs counts as delivered")
		}
		close(goOn)
		<-waits
		stuck.expect(t, all...)
		if want := []string{"other", "all"}; !slices.Equal(order, want) {
			t.Errorf("the order is %q, want %q", order, want)
		}
	})
}

func TestG15_ASubscriberThatDoesNotReturnMissesWhatItWasToldAndNothingElse(t *testing.T) {
	for name, do := range map[string]func(){"panics": func() { panic("boom") }, "exits": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				all := make(chan struct{}) // are queued, so that c is behind b
				l := &listener{do: map[string]func(){"add a u1@5 initially": func() { <-all }, "add b u2@6 initially": do}}
				r.SubscribeAs(apart(l, ""))
				r.lists(10, object("a", "u1@5"), object("b", "u2@6"), object("c", "u3@7"))
				close(all)
				l.expect(t, "add a u1@5 initially", "add b u2@6 initially", "add c u3@7 initially", "missed")
				r.adds(object("d", "u4@11"))
				l.expect(t, "add a u1@5 initially", "add b u2@6 initially", "add c u3@7 initially", "missed", "add d u4@11")
			})
		})
	}
}

// TestG16_WhatWaitsForASubscriberThatHangsIsBounded: it receives the first and the last state of
// each object, and is notified that it has missed something.
func TestG16_WhatWaitsForASubscriberThatHangsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.lists(10, object("a", "u1@5"), object("b", "u2@6"), object("c", "u3@7"))
		goOn, told, missed := make(chan struct{}), 0, 0
		replay := map[trc.Key]trc.Object{}
		subscription := r.SubscribeAs(trc.Subscriber{
			Apart: true, Missed: func() { missed++ },
			Handle: func(transition trc.Transition) {
				told++
				if err := apply(replay, transition); err != nil {
					t.Error(err)
				}
				if describe(transition) == "add z u9@11" {
					<-goOn
				}
			},
		})
		r.adds(object("z", "u9@11"))
		synctest.Wait()
		early, version := false, 11
		r.After(func() { early = true })
		next := func(uid string) string { version++; return fmt.Sprintf("%s@%d", uid, version) }
		for i := range 10_000 {
			uid := fmt.Sprint("v", i)
			r.adds(object("a", next("u1")))
			r.adds(object("came", next(uid)))
			r.deletes(object("came", next(uid)))
		}
		r.deletes(object("b", next("u2")))
		r.adds(object("b", next("u4"))) // another of that name
		if n := trc.WaitingFor(subscription); n > 5000 || !early {
			t.Errorf("%d transitions wait; what waits for them is called: %v", n, early)
		}
		close(goOn)
		synctest.Wait()
		if told > 5000 || missed != 1 {
			t.Errorf("told %d times, %d times that it has missed something", told, missed)
		}
		if len(replay) != r.Len() {
			t.Errorf("%d objects of %d", len(replay), r.Len())
		}
		for key, o := range replay {
			if r.Get(key) != o {
				t.Errorf("%s is told to be at %s", key, o.GetResourceVersion())
			}
		}
	})
}

// TestWhatKeepsItsPlaceIsCalledInTheOrderOfOneSubscriber: whatever others do.
func TestWhatKeepsItsPlaceIsCalledInTheOrderOfOneSubscriber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.lists(10)
		goOn := make(chan struct{})
		l := &listener{do: map[string]func(){"add a u1@11": func() { <-goOn }}}
		subscription := r.SubscribeAs(apart(l, ""))
		r.adds(object("a", "u1@11"))
		r.adds(object("b", "u2@12"))
		deliver := subscription.Later(func() { l.handle(trc.Transition{New: object("here", "u0@1")}) })
		r.adds(object("c", "u3@13"))
		deliver()
		l.expect(t, "add a u1@11")
		close(goOn)
		l.expect(t, "add a u1@11", "add b u2@12", "add here u0@1", "add c u3@13")
		subscription.End()
		r.adds(object("d", "u4@14"))
		l.expect(t, "add a u1@11", "add b u2@12", "add here u0@1", "add c u3@13")
	})
}
