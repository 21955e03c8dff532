package author

import (
	"errors"
	"fmt"
	"time"
)

// textTime is how long the methods of an error, or of a value, may take.
const textTime = time.Second

// Sprint is fmt.Sprint for a value whose methods may panic in any way: fmt fails if the value of a
// panic panics when it is printed. The methods must not hang.
func Sprint(value any) string {
	var text string
	if failure := Try(func() { text = fmt.Sprint(value) }); failure != nil {
		return fmt.Sprintf("%T, which cannot be printed", value)
	}
	return text
}

// Text returns the text of an error. If its Error method panics, ends its goroutine or hangs, Text
// describes that instead. It returns "" for nil.
func Text(err error) string {
	if err == nil {
		return ""
	}
	var text string
	if failure := Apart(textTime, func() { text = err.Error() }); failure != nil {
		return describe(err, "Error", failure)
	}
	return text
}

// Is is errors.Is for errors whose methods may fail: it returns false if they do not return.
func Is(err, target error) bool {
	var is bool
	return err != nil && Apart(textTime, func() { is = errors.Is(err, target) }) == nil && is
}

// As is errors.As for errors whose methods may fail: it finds nothing if they do not return.
func As[E error](err error) (found E, ok bool) {
	if err == nil {
		return found, false
	}
	var as E
	var is bool
	if Apart(textTime, func() { is = errors.As(err, &as) }) != nil || !is {
		return found, false
	}
	return as, true
}

// Sound returns an error that is safe to handle: err itself if its methods (Error, Unwrap, Is, As)
// return, and otherwise an error that describes what they did and wraps a [Failure]. Use it for
// errors from an author's code: an error that is sound then is assumed to stay so.
func Sound(err error) error {
	if err == nil {
		return nil
	}
	if failure := Apart(textTime, func() { _ = err.Error() }); failure != nil {
		return &unsound{text: describe(err, "Error", failure), failure: failure}
	}
	if failure := Apart(textTime, func() { probe(err) }); failure != nil {
		return &unsound{text: describe(err, "Is, As or Unwrap", failure), failure: failure}
	}
	return err
}

// nothing is a type that no error has.
type nothing struct{ error }

var errNothing = &nothing{errors.New("nothing")}

// probe calls the methods that errors.Is and errors.As call.
func probe(err error) {
	_ = errors.Is(err, errNothing)
	var found *nothing
	_ = errors.As(err, &found)
}

// unsound replaces an error whose methods do not return.
type unsound struct {
	text    string
	failure *Failure
}

func (u *unsound) Error() string { return u.text }
func (u *unsound) Unwrap() error { return u.failure }

func describe(value any, method string, failure *Failure) string {
	return fmt.Sprintf("an error of type %T, whose method %s does not return: %s", value, method, failure.Error())
}
