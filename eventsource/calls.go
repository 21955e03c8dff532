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

// failureShows is how long a source's Err reports that an author's function failed.
const failureShows = time.Minute

// calls holds the author's functions that a source calls.
type calls struct {
	author.Callbacks

	mu     sync.Mutex // guards the fields below; a leaf
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

// Failed records that a function did not return.
func (c *calls) Failed(callback, about string, failure *author.Failure) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed[callback] = callFailed{about, failure, time.Now()}
}

// Slow does nothing: a source does not report slow calls.
func (c *calls) Slow(string, string, time.Duration) {}

// Returned does nothing: Err stops reporting the function by itself.
func (c *calls) Returned(string, time.Duration) {}

// err returns an error that names the functions that hang or have failed recently, or nil.
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

// callValue calls an author's function that returns a value, and returns the zero value after a
// failure.
func callValue[R any](callback *author.Callback, about func() string, f func() R) (R, *author.Failure) {
	var result, none R
	if failure := callback.Do(about, func() { result = f() }); failure != nil {
		return none, failure
	}
	return result, nil
}
