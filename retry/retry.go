package retry

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// Defaults of a zero [Policy].
const (
	DefaultInitial = 500 * time.Millisecond
	DefaultFactor  = 2.0
	DefaultMax     = 5 * time.Minute
	DefaultJitter  = 0.1
)

// NoJitter, as [Policy.Jitter], makes delays exact.
const NoJitter = -1.0

// Policy spaces the retries of one key. The zero value waits 500 ms, then doubles up to 5 minutes,
// with 10 % jitter and no limit of attempts.
type Policy struct {
	// Initial is the delay after the first failure. Default: 500 ms. If it is too low, retries
	// overload what is failing. If it is too high, every short failure becomes visible. More than 70
	// years count as 70.
	Initial time.Duration
	// Factor multiplies the delay after each further failure. Default: 2. At least 1.
	Factor float64
	// Max is the longest delay before jitter. Default: 5 minutes, or Initial if that is longer. It
	// must not be below Initial. More than 70 years count as 70. It is also how long events wait for a
	// run once no retry is left (see [Policy.Window]).
	Max time.Duration
	// Jitter spreads each delay evenly over delay×(1±Jitter), so that keys that failed together do not
	// retry together. Default: 0.1; [NoJitter] for none. Between 0 and 1.
	Jitter float64
	// MaxAttempts is the number of retries. Default: no limit; [NoRetry] for none at all.
	MaxAttempts int
	// MaxElapsed is the longest time from the first failure to the start of the last retry. Default:
	// no limit.
	MaxElapsed time.Duration
	// Steady is how many delays are Initial before the first is multiplied by Factor. Default: 1.
	Steady int
	// Classify, if set, returns the verdict for failures that need something other than a retry by
	// this policy; see [Policy.Judge] for the errors it is called with. Default: all are retried by
	// the policy. It must be pure.
	Classify func(error) Verdict
}

// longest is the longest delay before jitter. A little more than twice that is still a valid
// Duration.
const longest = math.MaxInt64 / 4 * time.Nanosecond

// NoRetry, as [Policy.MaxAttempts], turns retries off.
const NoRetry = -1

// Never returns the policy of things that are not retried.
func Never() Policy { return Policy{MaxAttempts: NoRetry} }

// JOSDK returns the default policy of the Java Operator SDK 5.5 (its GenericRetry): five retries,
// after 2 s, 2 s, 3 s, 4.5 s and 6.75 s, without jitter.
func JOSDK() Policy {
	return Policy{
		Initial: 2 * time.Second, Factor: 1.5, Max: 15187 * time.Millisecond, Jitter: NoJitter, MaxAttempts: 5, Steady: 2,
	}
}

// ControllerRuntime returns the policy of controller-runtime's controllers (client-go's
// ItemExponentialFailureRateLimiter): the first retry after 5 ms, doubling up to 1000 s, without
// jitter or end. Their limit of 10 retries a second over all keys is not part of it.
func ControllerRuntime() Policy {
	return Policy{Initial: 5 * time.Millisecond, Factor: 2, Max: 1000 * time.Second, Jitter: NoJitter}
}

// Validate returns one joined error that names every invalid field, or nil.
func (p Policy) Validate() error {
	d := p.withDefaults()
	var errs []error
	check := func(bad bool, field string, value any, want string) {
		if bad {
			errs = append(errs, fmt.Errorf("retry: %s %v: %s", field, value, want))
		}
	}
	check(p.Initial < 0, "Initial", p.Initial, "must not be negative")
	check(p.Factor != 0 && !(p.Factor >= 1 && p.Factor <= math.MaxFloat64), "Factor", p.Factor, "must be a number, at least 1")
	check(d.Max < d.Initial, "Max", d.Max, fmt.Sprintf("must not be below Initial %v", d.Initial))
	check(p.Jitter != NoJitter && !(p.Jitter >= 0 && p.Jitter <= 1), "Jitter", p.Jitter, "must be between 0 and 1, or NoJitter")
	check(p.MaxAttempts < NoRetry, "MaxAttempts", p.MaxAttempts, "must be a number of attempts, 0 for no bound, or NoRetry")
	check(p.MaxElapsed < 0, "MaxElapsed", p.MaxElapsed, "must not be negative")
	check(p.Steady < 0, "Steady", p.Steady, "must not be negative")
	return errors.Join(errs...)
}

func (p Policy) withDefaults() Policy {
	if p.Initial == 0 {
		p.Initial = DefaultInitial
	}
	if p.Factor == 0 {
		p.Factor = DefaultFactor
	}
	if p.Max == 0 {
		p.Max = max(DefaultMax, p.Initial)
	}
	switch p.Jitter {
	case 0:
		p.Jitter = DefaultJitter
	case NoJitter:
		p.Jitter = 0
	}
	return p
}

// State is the retry state of one key. The zero value has not failed.
type State struct {
	attempts int
	// delays is set only while the key is failing, so that an idle key costs two words.
	delays *backoff.ExponentialBackOff
}

// Attempt returns the number of retries granted since the last success: 0 for a key that is not
// being retried, 1 for its first retry.
func (s *State) Attempt() int { return s.attempts }

// Reset clears all failures.
func (s *State) Reset() { *s = State{} }

// Next records a failure and returns the wait before the next attempt, or false if no retry is
// left. That stays so until [State.Reset].
func (p Policy) Next(s *State) (time.Duration, bool) {
	if p.MaxAttempts == NoRetry || (p.MaxAttempts > 0 && s.attempts >= p.MaxAttempts) {
		return 0, false
	}
	if s.delays == nil {
		s.delays = p.generator()
	}
	if s.delays.Multiplier = p.withDefaults().Factor; s.attempts+1 < p.Steady {
		s.delays.Multiplier = 1
	}
	delay := s.delays.NextBackOff()
	if delay == backoff.Stop {
		return 0, false
	}
	s.attempts++
	return delay, true
}

// LastAttempt reports whether the run that follows s is the last one that the policy grants, so
// that an author can report it in the status.
func (p Policy) LastAttempt(s *State) bool {
	return p.MaxAttempts == NoRetry || (p.MaxAttempts > 0 && s.attempts >= p.MaxAttempts)
}

// shortestWindow is the least result of [Policy.Window] if delays do not grow.
const shortestWindow = 10 * time.Second

// Window returns how long events wait for a run once no retry is left: Max, or its default. With
// the Factor 1, delays never come near Max: then the window is Initial, but at least 10 s and at
// most Max.
func (p Policy) Window() time.Duration {
	d := p.withDefaults()
	if d.Factor == 1 {
		return min(d.Max, max(d.Initial, shortestWindow))
	}
	return d.Max
}

// generator uses the backoff library only to compute delays. The library's Retry loop, which
// sleeps, is never used.
func (p Policy) generator() *backoff.ExponentialBackOff {
	d := p.withDefaults()
	d.Initial, d.Max = min(d.Initial, longest), min(d.Max, longest)
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(d.Initial),
		backoff.WithMultiplier(d.Factor),
		backoff.WithMaxInterval(d.Max),
		backoff.WithRandomizationFactor(d.Jitter),
		backoff.WithMaxElapsedTime(d.MaxElapsed),
	)
}
