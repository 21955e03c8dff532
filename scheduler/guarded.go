package scheduler

import (
	"fmt"
	"sync/atomic"

	"github.com/evenkeel/evenkeel/internal/author"
	"github.com/evenkeel/evenkeel/retry"
	"github.com/evenkeel/evenkeel/timeline"
)

// guardedOptions calls the functions of the options, which may panic or end their goroutine.
type guardedOptions[K comparable] struct {
	Options[K]
	flaw atomic.Pointer[error] // the first failure of a function
}

// recordFlaw records that a function panicked or ended its goroutine.
func (o *guardedOptions[K]) recordFlaw(function string, why error) {
	err := fmt.Errorf("scheduler: %s: %w", function, why)
	o.flaw.CompareAndSwap(nil, &err)
}

// judge returns the verdict about a failure, and the failure. If the classifier does not return, a
// retry by the policy follows, and the failure says so.
func (o *guardedOptions[K]) judge(failure error) (retry.Verdict, error) {
	var verdict retry.Verdict
	why := author.Apart(author.Patience, func() { verdict = o.Retry.Judge(failure) })
	if why == nil {
		return verdict, failure
	}
	o.recordFlaw("Retry.Classify", why)
	if why.Kind == author.Panicked {
		return retry.Verdict{}, &PanicError{Value: why.Value, Stack: why.Stack}
	}
	return retry.Verdict{}, fmt.Errorf("%w (Retry.Classify: %w)", failure, why)
}

// needs reports whether a cause needs a run. If Decide panics, it does.
func (o *guardedOptions[K]) needs(key K, c timeline.Cause) (needed bool) {
	defer func() {
		if value := recover(); value != nil {
			o.recordFlaw("Decide", NewPanicError(value))
			needed = true
		}
	}()
	return o.Decide(key, c)
}

// records reports whether Record is called for a run.
func (o *guardedOptions[K]) records(e *end) bool {
	return o.Record != nil && !e.Unrecorded && (e.Err != nil || !o.RecordFailures)
}
