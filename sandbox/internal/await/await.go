// Package await waits in tests for what happens in other processes, which do not tell us.
//
//	await.Success(t, 30*time.Second, func() error { return ask(plane) })
//
// # Concurrency
//
// [Success] may be called from the test's own goroutine only, as it may end the test.
//
// # What it does not do
//
// It is for other processes: what happens in this one is waited for with channels.
//
// # Debugging
//
// The test fails with the error that the last look returned.
package await

import (
	"testing"
	"time"
)

// interval is the pause between two looks.
const interval = 50 * time.Millisecond

// Success repeats check until it returns nil, and fails the test if it has not after limit.
func Success(t testing.TB, limit time.Duration, check func() error) {
	t.Helper()
	late := time.After(limit)
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-late:
			t.Fatalf("not after %s: %v", limit, err)
		case <-tick.C:
		}
	}
}
