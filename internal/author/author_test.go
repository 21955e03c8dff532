package author_test

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evenkeel/evenkeel/internal/author"
)

// rude is an error whose methods do not return.
type rude struct {
	in string
	do func()
}

func (r *rude) may(method string) {
	if r.in == method {
		r.do()
	}
}

func (r *rude) Error() string { r.may("Error"); return "rude" }
func (r *rude) Is(error) bool { r.may("Is"); return false }
func (r *rude) As(any) bool   { r.may("As"); return false }
func (r *rude) Unwrap() error { r.may("Unwrap"); return nil }

// spiral panics with itself, and so does its printing.
type spiral struct{}

func (s spiral) Error() string  { panic(s) }
func (s spiral) String() string { panic(s) }

type typedNil struct{ text string }

func (n typedNil) Error() string { return n.text }

func TestAnErrorIsMadeSound(t *testing.T) {
	hang := make(chan struct{})
	deeds := map[string]func(){"panics": func() { panic(spiral{}) }, "exits": runtime.Goexit, "hangs": func() { <-hang }}
	synctest.Test(t, func(t *testing.T) {
		hang = make(chan struct{})
		for _, method := range []string{"Error", "Is", "As", "Unwrap"} {
			for name, do := range deeds {
				failing := errors.Join(errors.New("other"), &rude{method, do})
				if method != "Error" { // which fmt calls
					failing = fmt.Errorf("node: %w", failing)
				}
				sound := author.Sound(failing)
				if sound == failing {
					t.Errorf("%s that %s counts as sound", method, name)
					continue
				}
				if text := sound.Error(); !strings.Contains(text, method) {
					t.Errorf("%s that %s: %q", method, name, text)
				}
				if _, is := author.As[*author.Failure](sound); !is {
					t.Errorf("%s that %s: %v wraps no Failure", method, name, sound)
				}
				if author.Text(failing) == "" || author.Is(failing, errors.ErrUnsupported) {
					t.Errorf("%s that %s: the text is empty, or it is what it is not", method, name)
				}
			}
		}
		close(hang)
	})
	for _, fine := range []error{nil, errors.New("a"), errors.Join(errors.New("a"), errors.New("b")), fmt.Errorf("c: %w", errors.ErrUnsupported)} {
		if author.Sound(fine) != fine {
			t.Errorf("%v counts as unsound", fine)
		}
	}
	var none *typedNil
	for _, broken := range []error{none, spiral{}, errors.Join(none)} {
		if sound := author.Sound(broken); sound == broken || !strings.Contains(sound.Error(), "Error") {
			t.Errorf("%T is made %v", broken, sound)
		}
	}
	if text := author.Sprint(spiral{}); !strings.Contains(text, "spiral") {
		t.Errorf("printed as %q", text)
	}
}

// told records what callbacks report.
type told struct {
	mu  sync.Mutex
	all []string
}

func (r *told) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, fmt.Sprintf(format, args...))
}

func (r *told) Failed(callback, about string, f *author.Failure) {
	r.note("%s about %s: %v", callback, about, f)
}

func (r *told) Slow(callback, about string, took time.Duration) {
	r.note("%s about %s took %v", callback, about, took)
}

func (r *told) Returned(callback string, took time.Duration) {
	r.note("%s is back after %v", callback, took)
}

func TestACallbackIsMeasuredAndNamedAndNotCalledWhileItHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		report := &told{}
		callbacks := &author.Callbacks{Reporter: report}
		c := callbacks.New("Filter")
		about := func() string { return "a" }
		var calls atomic.Int32
		do := func(f func()) *author.Failure { return c.Do(about, func() { calls.Add(1); f() }) }

		_ = do(func() {})
		_ = do(func() { time.Sleep(2 * time.Second) })
		_ = do(func() { time.Sleep(3 * time.Second) }) // reported a moment ago
		_ = do(func() { panic("boom") })
		_ = do(runtime.Goexit)
		goOn, back := make(chan struct{}), make(chan struct{})
		began := time.Now()
		if f := do(func() { <-goOn }); f == nil || f.Kind != author.Hangs || f.Skipped || time.Since(began) != author.Patience {
			t.Errorf("one that hangs: %v after %v", f, time.Since(began))
		}
		if f := do(func() {}); f == nil || !f.Skipped || calls.Load() != 6 {
			t.Errorf("while it hangs: %v, %d calls", f, calls.Load())
		}
		if hung := callbacks.Hung(); len(hung) != 1 || hung[0].Callback != "Filter" || hung[0].Since != began {
			t.Errorf("hung: %+v", hung)
		}
		if !c.WhenBack(func() { close(back) }) {
			t.Error("it counts as back")
		}
		close(goOn)
		<-back
		if f := do(func() {}); f != nil || len(callbacks.Hung()) != 0 || c.WhenBack(func() {}) {
			t.Errorf("once it is back: %v, %v", f, callbacks.Hung())
		}
		want := []string{
			"Filter about a took 2s", "Filter about a: panic: boom", "Filter about a: it ended its goroutine (runtime.Goexit)",
			"Filter about a: it has not returned after 10s", "Filter is back after 10s",
		}
		if !slices.Equal(report.all, want) {
			t.Errorf("reported %q, want %q", report.all, want)
		}
	})
}
