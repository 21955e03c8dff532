package safely

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/evenkeel/evenkeel/internal/author"
	"github.com/evenkeel/evenkeel/scheduler"
	"github.com/evenkeel/evenkeel/trc"
)

// TooLong is how long the author's code may hang before [framework.Operator.Alive] reports it:
// within a minute.
const TooLong = 45 * time.Second

// Hung returns an error that names the calls of the author's code that have not returned for longer
// than some time, or nil.
func Hung(longer time.Duration, of ...*author.Callbacks) error {
	var errs []error
	var all []author.Hung
	for _, calls := range of {
		all = append(all, calls.Hung()...)
	}
	named := map[string]bool{}
	for _, h := range all {
		if since := time.Since(h.Since); since >= longer && !named[h.Callback] {
			named[h.Callback] = true
			errs = append(errs, fmt.Errorf("framework: %s has not returned for %v", h.Callback, since.Round(time.Second)))
		}
	}
	return errors.Join(errs...)
}

// Try calls the author's code in this goroutine. A panic becomes an error, and the error that it
// returns is safe to handle.
func Try(call func() error) (err error) {
	if panicked := author.Try(func() { err = call() }); panicked != nil {
		return Error(panicked)
	}
	return author.Sound(err)
}

// Apart calls the author's code in a goroutine of its own, for as long as that takes. It returns an
// error if the call panics or ends its goroutine.
func Apart(call func()) error {
	if failure := author.Apart(math.MaxInt64, call); failure != nil {
		return Error(failure)
	}
	return nil
}

// AskOnce calls the named function of the author at registration. If it panics, ends its goroutine
// or does not return in time, that is an error. The returned error is safe to handle. What call
// writes must not be read after an error.
func AskOnce(name string, call func() error) error {
	var err error
	if failure := author.Apart(author.Patience, func() { err = call() }); failure != nil {
		return fmt.Errorf("%s: %w", name, Error(failure))
	}
	return author.Sound(err)
}

// About returns a function that names the object of a call: the first one that is not nil.
func About(all ...trc.Object) func() string {
	return func() string {
		for _, o := range all {
			if o != nil {
				return trc.KeyOf(o).String()
			}
		}
		return ""
	}
}

// HasFailed reports whether an error says that the author's code did not return: see [Error].
func HasFailed(err error) bool {
	var panicked *scheduler.PanicError
	var failed *author.Failure
	return errors.As(err, &panicked) || errors.As(err, &failed)
}

// Error returns the error for a call of the author's code that did not return.
func Error(failure *author.Failure) error {
	if failure.Kind == author.Panicked {
		return &scheduler.PanicError{Value: failure.Value, Stack: failure.Stack}
	}
	return failure
}
