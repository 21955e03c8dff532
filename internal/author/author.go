package author

import (
	"fmt"
	"runtime/debug"
	"time"
)

// Kind is what a function did instead of returning.
type Kind int

// The kinds of failures.
const (
	// Panicked: it panicked.
	Panicked Kind = iota
	// Exited: it ended its goroutine.
	Exited
	// Hangs: it has not returned in time, or an earlier call of it has not.
	Hangs
)

// Failure is a function that did not return.
type Failure struct {
	Kind Kind
	// Value is what was passed to panic, Stack the stack at that moment.
	Value any
	Stack []byte
	// After is how long the caller waited for a function that hangs.
	After time.Duration
	// Skipped says that it was not called, as an earlier call hangs.
	Skipped bool
}

// Error says what happened, on one line.
func (f *Failure) Error() string {
	switch {
	case f.Kind == Panicked:
		return "panic: " + Sprint(f.Value)
	case f.Kind == Exited:
		return "it ended its goroutine (runtime.Goexit)"
	case f.Skipped:
		return "it is not called, as an earlier call of it has not returned"
	}
	return fmt.Sprintf("it has not returned after %v", f.After)
}

// Try calls f in the caller's goroutine, and returns nil if f returned, or what it panicked with. If f ends the
// goroutine, Try does not return either: only deferred functions run then.
func Try(f func()) (failure *Failure) {
	defer func() {
		if value := recover(); value != nil {
			failure = &Failure{Kind: Panicked, Value: value, Stack: debug.Stack()}
		}
	}()
	f()
	return nil
}

// Apart calls f in a goroutine of its own, and returns nil once f has returned, or what it did instead. It waits for
// f as long as patience says. What f writes must not be read after a failure that says that it hangs.
func Apart(patience time.Duration, f func()) *Failure {
	failure, _ := apart(patience, f)
	return failure
}

// apart returns what closes when f ends, too.
func apart(patience time.Duration, f func()) (*Failure, <-chan struct{}) {
	var failure *Failure
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		failure = &Failure{Kind: Exited}
		failure = Try(f)
	}()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-ended:
		return failure, ended
	case <-timer.C:
		return &Failure{Kind: Hangs, After: patience}, ended
	}
}
