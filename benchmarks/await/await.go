// Package await waits for what has no event of its own, in measurements against a real control
// plane: it asks every 100 ms, and fails the test after 5 minutes.
//
//	await.NoError(t, "all pages are ready", func() error { return await.AtLeast(ready(), 1000) })
//	await.Quiet(t, func() wire.Counts { return counter.Counts() })
//
// # Concurrency
//
// What is asked is called by the goroutine of the test, which must be the one that calls. Nothing
// is kept.
//
// # What it does not do
//
// It measures nothing: what is to be timed is timed by events.
//
// # Debugging
//
// The test fails with the last error that was answered.
package await

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	period = 100 * time.Millisecond
	limit  = 5 * time.Minute
	rest   = time.Second
)

// NoError asks until there is no more error. what is said if that does not come.
func NoError(t testing.TB, what string, ask func() error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), period, limit, true, func(context.Context) (bool, error) {
		last = ask()
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("%s: %v", what, last)
	}
}

// AtLeast is an error as long as there is less than is wanted.
func AtLeast[N int | int64](now, wanted N) error {
	if now < wanted {
		return fmt.Errorf("%d of %d", now, wanted)
	}
	return nil
}

// Quiet returns once the state has been the same for a second.
func Quiet[S comparable](t testing.TB, state func() S) {
	t.Helper()
	last, at := state(), time.Now()
	NoError(t, "it becomes quiet", func() error {
		if now := state(); now != last {
			last, at = now, time.Now()
		}
		if time.Since(at) < rest {
			return fmt.Errorf("at %v", last)
		}
		return nil
	})
}
