package safely

import (
	"errors"
	"fmt"
	"time"

	"github.com/evenkeel/evenkeel/internal/author"
	"github.com/evenkeel/evenkeel/scheduler"
	"github.com/evenkeel/evenkeel/trc"
)

// TooLong is how long code of the author's may hang until [framework.Operator.Alive] says so: within a minute.
const TooLong = 45 * time.Second

// Hung is what code of the author's has not returned for longer than some time; nil if there is none.
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

// Try calls code of the author's in this goroutine. What panics there is an error, and the error that it returns is safe
// to handle.
func Try(call func() error) (err error) {
	if panicked := author.Try(func() { err = call() }); panicked != nil {
		return Error(panicked)
	}
	return author.Sound(err)
}

// AskOnce calls a function of the author's, of that name, that is called at registration. Whatever it does instead of
// returning in time is an error, and the error that it returns is safe to handle. What call writes must not be read after
// an error.
func AskOnce(name string, call func() error) error {
	var err error
	if failure := author.Apart(author.Patience, func() { err = call() }); failure != nil {
		return fmt.Errorf("%s: %w", name, Error(failure))
	}
	return author.Sound(err)
}

// About names what a call is about.
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

// Error is what code of the author's did instead of returning, as an error.
func Error(failure *author.Failure) error {
	if failure.Kind == author.Panicked {
		return &scheduler.PanicError{Value: failure.Value, Stack: failure.Stack}
	}
	return failure
}
