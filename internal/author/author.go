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
	// Panicked means that it panicked.
	Panicked Kind = iota
	// Exited means that it ended its goroutine.
	Exited
	// Hangs means that it, or an earlier call of it, has not returned in time.
	Hangs
)

// Failure describes a function that did not return.
type Failure struct {
	Kind Kind
	// Value is the value passed to panic, Stack the stack at that moment.
	Value any
	Stack []byte
	// After is how long the caller waited for a function that hangs.
	After time.Duration
	// Skipped says that it was not called, because an earlier call hangs.
	Skipped bool
}

// Error returns what happened, in one line.
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

// Try calls f in the caller's goroutine. It returns nil if f returned, or a failure if it panicked.
// If f ends the goroutine, Try does not return either: only deferred functions run then.
func Try(f func()) (failure *Failure) {
	defer func() {
		if value := recover(); value != nil {
			failure = &Failure{Kind: Panicked, Value: value, Stack: debug.Stack()}
		}
	}()
	f()
	return nil
}

// Apart calls f in a separate goroutine. It returns nil once f has returned, or a failure if f
// panicked, ended its goroutine or did not return within patience. In the last case, what f writes
// must not be read.
func Apart(patience time.Duration, f func()) *Failure {
	failure, _ := apart(patience, f)
	return failure
}

// apart also returns a channel that is closed when f ends.
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
