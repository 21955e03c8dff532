package eventsource

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestExpectations_C103(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := NewExpectations[int]("expectations")
		if err != nil {
			t.Fatal(err)
		}
		check := func(by int, wantName string, want ExpectationState) {
			t.Helper()
			if name, state := e.Check(keyOf("a"), by); name != wantName || state != want {
				t.Fatalf("%q %s, want %q %s", name, state, wantName, want)
			}
		}
		expect := func(name string, timeout time.Duration, atLeast int) {
			t.Helper()
			if err := e.Expect(keyOf("a"), name, timeout, func(n int) bool { return n >= atLeast }); err != nil {
				t.Fatal(err)
			}
		}
		n := start(t, e)
		check(9, "", NothingExpected)
		expect("two", time.Minute, 2)
		check(1, "two", Pending)
		check(2, "two", Fulfilled)
		check(2, "", NothingExpected)
		pass(time.Hour)
		n.expect(t)

		expect("two", time.Minute, 2)
		pass(30 * time.Second)
		expect("three", time.Minute, 3) // instead
		pass(time.Minute - 1)
		n.expect(t)
		check(2, "three", Pending)
		pass(1)
		n.expect(t, "a expectations three timed out")
		check(2, "three", TimedOut)
		pass(time.Hour)
		n.expect(t)
		check(2, "three", TimedOut)
		check(3, "three", Fulfilled)

		expect("four", time.Minute, 4)
		if name := e.Expected(keyOf("a")); name != "four" {
			t.Fatalf("expected is %q", name)
		}
		e.PrimaryChanged(primary("a", "1", "red"), primary("a", "1", "blue"))
		check(3, "four", Pending)
		e.PrimaryChanged(primary("a", "1", "red"), primary("a", "2", "red"))
		check(4, "", NothingExpected)
		expect("five", time.Minute, 5)
		e.PrimaryChanged(primary("a", "2", "red"), nil)
		pass(time.Hour)
		if n.expect(t); len(e.all) != 0 {
			t.Fatalf("kept: %v", e.all)
		}
		if err := e.Expect(keyOf("a"), "six", 0, nil); err == nil || !strings.Contains(err.Error(), `expect "six" of /a: timeout 0s: must be positive`) {
			t.Fatalf("refusal: %v", err)
		}
	})
}

func TestExpectationsThatTimeOutWhileNothingRunsAreToldAtTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := NewExpectations[int]("expectations")
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Expect(keyOf("a"), "one", time.Minute, func(int) bool { return false }); err != nil {
			t.Fatal(err)
		}
		pass(time.Hour)
		start(t, e).expect(t, "a expectations one timed out")
	})
}
