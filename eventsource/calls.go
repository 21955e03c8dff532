package eventsource

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/evenkeel/evenkeel/internal/author"
)

// failureShows is how long a source's Err tells of a function of the author's that failed.
const failureShows = time.Minute

// calls are the functions of the author's that a source calls.
type calls struct {
	author.Callbacks

	mu     sync.Mutex // guards below; a leaf
	failed map[string]callFailed
}

type callFailed struct {
	about string
	why   error
	at    time.Time
}

func newCalls() *calls {
	c := &calls{failed: map[string]callFailed{}}
	c.Reporter = c
	return c
}

// Failed notes what a function did instead of returning.
func (c *calls) Failed(callback, about string, failure *author.Failure) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed[callback] = callFailed{about, failure, time.Now()}
}

// Slow is nothing that a source tells.
func (c *calls) Slow(string, string, time.Duration) {}

// Returned is nothing either: Err does not tell of the function any more.
func (c *calls) Returned(string, time.Duration) {}

// err names the functions that hang, or failed a moment ago; nil if there are none.
func (c *calls) err(source string) error {
	hung := c.Hung()
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, h := range hung {
		errs = append(errs, fmt.Errorf("eventsource: %q: %s has not returned since %s (about %s)",
			source, h.Callback, h.Since.UTC().Format(time.RFC3339), c.failed[h.Callback].about))
	}
	for callback, f := range c.failed {
		hangs := slices.ContainsFunc(hung, func(h author.Hung) bool { return h.Callback == callback })
		if !hangs && time.Since(f.at) < failureShows {
			errs = append(errs, fmt.Errorf("eventsource: %q: %s about %s: %w", source, callback, f.about, f.why))
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

// called calls a function of the author's that returns something, which is the zero value after a failure.
func called[R any](callback *author.Callback, about func() string, f func() R) (R, *author.Failure) {
	var result, none R
	if failure := callback.Do(about, func() { result = f() }); failure != nil {
		return none, failure
	}
	return result, nil
}
