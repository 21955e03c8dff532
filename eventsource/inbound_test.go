package eventsource

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/trc"
)

func TestInbound_C104(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		i, err := NewInbound(InboundOptions[thing]{
			Name: "hook", Values: ValuesOptions[thing]{
				ID:     func(t thing) string { return t.ID },
				Filter: func(_, new *thing) bool { return new == nil || new.Version < 100 },
			},
			Fetch: func(_ context.Context, key trc.Key) ([]thing, error) {
				if asked++; key.Name == "z" {
					return nil, errors.New("unheard of")
				}
				return []thing{{"x", 7}}, nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		i.Push(keyOf("a"), thing{"x", 1})
		i.Push(keyOf("a"), thing{"x", 2})
		n := start(t, i)
		n.expect(t, "a hook x initial")
		i.Push(keyOf("a"), thing{"x", 2})
		i.Push(keyOf("a"), thing{"x", 100})
		n.expect(t)
		i.Wrote(keyOf("a"), thing{"y", 3})
		i.Push(keyOf("a"), thing{"y", 3})
		i.Pull(keyOf("a"), "x")
		i.Pull(keyOf("a"), "x")
		i.Trigger(keyOf("b"), "because")
		n.expect(t, "a hook x", "b hook because")
		for range 2 {
			if values, err := i.Fetch(t.Context(), keyOf("c")); err != nil || !slices.Equal(values, []thing{{"x", 7}}) {
				t.Fatalf("read %v, %v", values, err)
			}
		}
		if _, err := i.Fetch(t.Context(), keyOf("z")); err == nil || !strings.Contains(err.Error(), `fetch from "hook" for /z: unheard of`) {
			t.Fatalf("failure: %v", err)
		}
		if _, _ = i.Fetch(t.Context(), keyOf("a")); asked != 2 {
			t.Fatalf("asked %d times", asked)
		}
		n.expect(t)
		for _, name := range []string{"a", "c"} {
			i.PrimaryChanged(primary(name, "u", ""), nil)
		}
		if len(i.primaries) != 0 {
			t.Fatalf("kept: %v", i.primaries)
		}
	})
}

// TestG01APushIsNotTakenBackByTheAnswerToAWriteBefore, nor by a push that comes late, nor by a
// fetch.
func TestG01APushIsNotTakenBackByTheAnswerToAWriteBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i, err := NewInbound(InboundOptions[thing]{Name: "hook", Values: ValuesOptions[thing]{
			Older: func(value, than thing) bool {
				if value.Version == 13 {
					panic("a bug")
				}
				return value.Version < than.Version
			},
		}})
		if err != nil {
			t.Fatal(err)
		}
		n := start(t, i)
		has := func(want int) {
			t.Helper()
			if value, _ := i.Get(keyOf("a"), ""); value.Version != want {
				t.Fatalf("read %v, want version %d", value, want)
			}
		}
		i.Push(keyOf("a"), thing{"", 2})
		n.expect(t, "a hook")
		i.Wrote(keyOf("a"), thing{"", 1})
		has(2)
		i.Push(keyOf("a"), thing{"", 1})
		has(2)
		fetch := i.begin(keyOf("a"))
		i.offer(n, "hook", false, i.end(fetch, keyOf("a"), map[string]thing{"": {"", 1}}, nil))
		has(2)
		n.expect(t)
		i.Push(keyOf("a"), thing{"", 20})
		i.Push(keyOf("a"), thing{"", 13}) // the order is unknown
		n.expect(t, "a hook", "a hook")
		i.Pull(keyOf("a"), "")
		i.Push(keyOf("a"), thing{"", 1}) // it may have been created again
		has(1)
	})
}

// TestG16WhatIsPushedForNobodyIsBounded, and is there for a primary that comes.
func TestG16WhatIsPushedForNobodyIsBounded(t *testing.T) {
	i, err := NewInbound(InboundOptions[int]{Name: "hook", Unclaimed: 100})
	if err != nil {
		t.Fatal(err)
	}
	i.PrimaryChanged(nil, primary("here", "1", ""))
	i.Push(keyOf("here"), 1)
	for n := range 10_000 {
		i.Push(keyOf(fmt.Sprint(n)), n)
		i.Push(keyOf(fmt.Sprint(n)), n+1)
		if n == 5000 {
			i.PrimaryChanged(nil, primary("5000", "2", ""))
		}
	}
	if held := len(i.primaries); held != 102 || len(i.unclaimed.places) != 100 {
		t.Errorf("%d are held, %d of them unclaimed", held, len(i.unclaimed.places))
	}
	for _, name := range []string{"here", "5000", "9900", "9999"} {
		if len(i.Of(keyOf(name))) != 1 {
			t.Errorf("nothing is held for %s", name)
		}
	}
	if values := i.Of(keyOf("9899")); len(values) > 0 {
		t.Errorf("%v is held", values)
	}
	for n := range 10_000 {
		i.PrimaryChanged(primary(fmt.Sprint(n), "2", ""), nil)
	}
	i.PrimaryChanged(primary("here", "1", ""), nil)
	if n := len(i.primaries) + len(i.unclaimed.exist) + len(i.unclaimed.places) + i.unclaimed.order.Len(); n > 0 {
		t.Errorf("%d are kept", n)
	}
}

func TestChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		triggers := make(chan Trigger)
		c, err := NewChannel("jobs", triggers)
		if err != nil {
			t.Fatal(err)
		}
		n := start(t, c)
		triggers <- Trigger{keyOf("a"), "1"}
		synctest.Wait()
		n.expect(t, "a jobs 1")
		close(triggers)
	})
}

func TestTicks_C97(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		every := map[string]time.Duration{"red": time.Hour, "blue": 10 * time.Minute}
		s, err := NewTicks("nightly", func(c *corev1.ConfigMap, after time.Time) time.Time {
			if c.Labels["color"] == "broken" {
				panic("a bug")
			}
			if every[c.Labels["color"]] == 0 {
				return time.Time{}
			}
			return after.Add(every[c.Labels["color"]])
		})
		if err != nil {
			t.Fatal(err)
		}
		a := primary("a", "1", "red")
		s.PrimaryChanged(nil, a)
		n := start(t, s)
		s.PrimaryChanged(nil, primary("b", "2", ""))
		pass(150 * time.Minute)
		if got := n.taken(); len(got) != 2 {
			t.Fatalf("ticks %q", got)
		}
		blue := primary("a", "1", "blue") // sooner
		s.PrimaryChanged(a, blue)
		pass(time.Minute * 35)
		if got := n.taken(); len(got) != 3 {
			t.Fatalf("ticks %q", got)
		}
		s.PrimaryChanged(blue, a) // later
		pass(59 * time.Minute)
		n.expect(t)
		pass(time.Minute)
		if got := n.taken(); len(got) != 1 {
			t.Fatalf("ticks %q", got)
		}
		s.PrimaryChanged(a, primary("a", "1", "broken"))
		if err := s.Err(); err == nil || !strings.Contains(err.Error(), `"nightly": 1 primaries fail, one of them /a: panic: a bug`) {
			t.Fatalf("failure: %v", err)
		}
		s.PrimaryChanged(primary("a", "1", "broken"), nil)
		s.PrimaryChanged(primary("b", "2", ""), nil)
		pass(3 * time.Hour)
		if n.expect(t); s.Err() != nil || len(s.due)+len(s.failed)+len(s.members) > 0 {
			t.Fatalf("kept: %v %v %v", s.due, s.failed, s.members)
		}
	})
}

// TestC97TicksThatAreNotLaterAreAFailure, instead of a loop without a pause; and nothing ticks
// after stop.
func TestC97TicksThatAreNotLaterAreAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := NewTicks("hasty", func(c *corev1.ConfigMap, after time.Time) time.Time {
			if c.Labels["color"] == "red" {
				return after
			}
			return after.Add(time.Hour)
		})
		if err != nil {
			t.Fatal(err)
		}
		red, blue := primary("a", "1", "red"), primary("a", "1", "blue")
		s.PrimaryChanged(nil, red)
		n := &notes{}
		stop, err := s.Start(n)
		if err != nil {
			t.Fatal(err)
		}
		pass(time.Hour)
		if n.expect(t); s.Err() == nil || !strings.Contains(s.Err().Error(), `"hasty": 1 primaries fail, one of them /a: the next time is`) {
			t.Fatalf("failure: %v", s.Err())
		}
		s.PrimaryChanged(red, blue)
		pass(90 * time.Minute)
		if got := n.taken(); len(got) != 1 || s.Err() != nil {
			t.Fatalf("ticks %q, %v", got, s.Err())
		}
		stop()
		pass(3 * time.Hour)
		n.expect(t)
	})
}
