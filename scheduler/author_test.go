package scheduler_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evenkeel/evenkeel/retry"
	"github.com/evenkeel/evenkeel/scheduler"
	"github.com/evenkeel/evenkeel/timeline"
)

// spiteful is an error whose methods panic with a value that panics when it is printed, as an error
// by value does that is a typed nil.
type spiteful struct{ in string }

func (s *spiteful) is(method string) bool { return s.in == method }

func (s *spiteful) Error() string {
	if s.is("Error") {
		panic(s)
	}
	return "spiteful"
}

func (s *spiteful) Is(error) bool {
	if s.is("Is") {
		panic(s)
	}
	return false
}

func (s *spiteful) As(any) bool {
	if s.is("As") {
		panic(s)
	}
	return false
}

func (s *spiteful) Unwrap() error {
	switch s.in {
	case "Unwrap":
		panic(s)
	case "exits":
		runtime.Goexit()
	case "hangs":
		select {}
	}
	return nil
}

// byValue is an error type whose nil pointer is an error, too.
type byValue struct{ text string }

func (b byValue) Error() string { return b.text }

func TestG15AnErrorWhoseMethodsDoNotReturnIsAFailureOfItsKeyAlone(t *testing.T) {
	failures := map[string]error{
		"typed nil": (*byValue)(nil), "Error": &spiteful{"Error"}, "Is": &spiteful{"Is"}, "As": &spiteful{"As"},
		"Unwrap": &spiteful{"Unwrap"}, "exits": &spiteful{"exits"},
		"joined": errors.Join(errBroken, &spiteful{"Error"}),
	}
	for name, failure := range failures {
		synctest.Test(t, func(t *testing.T) {
			texts := map[string]string{}
			h := start(t, scheduler.Options[string]{
				Concurrency: 1, Retry: retry.Policy{Initial: time.Minute, Jitter: retry.NoJitter},
				Record: func(key string, r timeline.Record) { texts[key] = r.Err },
			}, func(_ context.Context, key string, _ scheduler.Run) scheduler.Result {
				if key == "a" {
					return scheduler.Result{Err: failure}
				}
				return scheduler.Result{}
			})
			h.Offer("a", event())
			h.Offer("b", event())
			time.Sleep(time.Minute + time.Second)
			h.expect(t, "0s a: manual by test", "0s b: manual by test", "1m0s a: retry 1")
			if !strings.Contains(texts["a"], "does not return") {
				t.Errorf("%s: the failure is recorded as %q", name, texts["a"])
			}
			if err := h.stop(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

func TestG15AFunctionOfTheOptionsThatDoesNotReturnLeavesNoKeyBehind(t *testing.T) {
	outcomes := map[string]func(){"panics": func() { panic("boom") }, "exits": runtime.Goexit}
	for what, do := range outcomes {
		for _, where := range []string{"Classify", "Decide", "Record"} {
			synctest.Test(t, func(t *testing.T) {
				in := func(function string) {
					if function == where {
						do()
					}
				}
				var h *harness
				asked := 0
				h = start(t, scheduler.Options[string]{
					Concurrency: 1,
					Retry: retry.Policy{Initial: time.Minute, Jitter: retry.NoJitter, Classify: func(error) retry.Verdict {
						in("Classify")
						return retry.Verdict{}
					}},
					Decide: func(_ string, c timeline.Cause) bool {
						if _, meanwhile := c.(timeline.External); meanwhile {
							if asked++; asked == 2 { // when it came, and at the end of the run
								in("Decide")
							}
						}
						return true
					},
					Record: func(string, timeline.Record) { in("Record") },
				}, func(context.Context, string, scheduler.Run) scheduler.Result {
					if h.count() == 1 {
						offered := make(chan struct{})
						go func() {
							defer close(offered)
							h.Offer("a", scheduler.Event{Cause: timeline.External{Source: "other"}})
						}()
						<-offered
						return scheduler.Result{Err: errBroken}
					}
					return scheduler.Result{}
				})
				h.Offer("a", event())
				time.Sleep(time.Hour)
				synctest.Wait()
				if h.count() < 2 {
					t.Errorf("%s that %s: %d runs", where, what, h.count())
				}
				if flaw := h.Flaw(); flaw == nil || !strings.Contains(flaw.Error(), where) {
					t.Errorf("%s that %s: the flaw is %v", where, what, flaw)
				}
				if err := h.stop(); err != nil {
					t.Errorf("%s that %s: %v", where, what, err)
				}
			})
		}
	}
}

// A classifier that hangs affects only the failure that it was called for.
func TestG15AClassifierThatHangsIsAFailureByPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan struct{})
		h := start(t, scheduler.Options[string]{
			Retry: retry.Policy{Initial: time.Minute, Jitter: retry.NoJitter, Classify: func(error) retry.Verdict { <-goOn; return retry.Verdict{} }},
		}, func(context.Context, string, scheduler.Run) scheduler.Result { return scheduler.Result{Err: errBroken} })
		h.Offer("a", event())
		time.Sleep(time.Minute + 20*time.Second)
		h.expect(t, "0s a: manual by test", "1m10s a: retry 1")
		if err := h.stop(); err != nil {
			t.Error(err)
		}
		close(goOn)
	})
}

func TestG07HugeTimesMeanNever(t *testing.T) {
	const huge = time.Duration(math.MaxInt64)
	for name, c := range map[string]struct {
		options scheduler.Options[string]
		result  scheduler.Result
	}{
		"max interval":         {scheduler.Options[string]{MaxInterval: huge}, scheduler.Result{}},
		"retry":                {scheduler.Options[string]{Retry: retry.Policy{Initial: huge, Max: huge, Jitter: 1}}, scheduler.Result{Err: errBroken}},
		"rate limit":           {scheduler.Options[string]{RateLimit: scheduler.RateLimit{Runs: 1, Period: huge}}, scheduler.Result{RescheduleNow: true}},
		"reschedule":           {scheduler.Options[string]{}, scheduler.Result{RescheduleAfter: huge}},
		"time before the next": {scheduler.Options[string]{}, scheduler.Result{Err: retry.After(errBroken, huge)}},
	} {
		synctest.Test(t, func(t *testing.T) {
			if c.options.MaxInterval == 0 {
				c.options.MaxInterval = scheduler.NoMaxInterval
			}
			h := start(t, c.options, func(context.Context, string, scheduler.Run) scheduler.Result { return c.result })
			h.Offer("a", event())
			time.Sleep(24 * 365 * time.Hour)
			synctest.Wait()
			if h.count() != 1 {
				t.Errorf("%s: %d runs", name, h.count())
			}
			if err := h.stop(); err != nil {
				t.Error(err)
			}
		})
	}
}
