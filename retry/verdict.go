package retry

import (
	"errors"
	"fmt"
	"time"
)

// Class is what a failure deserves.
type Class int

const (
	// ByPolicy is a further attempt after the policy's delay. The default.
	ByPolicy Class = iota
	// Soon is a further run that is no attempt: whoever refused did not judge what was asked, but asked to
	// come again (the resource has changed meanwhile, or there is too much to do). So it consumes no attempt
	// and neither begins nor ends a back-off. In a row the scheduler spaces them by itself.
	Soon
	// NotAgain is no further attempt: repeating the same cannot succeed.
	NotAgain
)

// String returns "by policy", "soon" or "not again".
func (c Class) String() string {
	switch c {
	case ByPolicy:
		return "by policy"
	case Soon:
		return "soon"
	case NotAgain:
		return "not again"
	}
	return fmt.Sprintf("Class(%d)", int(c))
}

// Verdict is what is to follow a failure. The zero value is a retry by the policy.
type Verdict struct {
	Class Class
	// NotBefore is the least time until the next attempt, whatever else asks for one but a renewal (a new
	// generation, a deletion), which passes once. 0 or less is none. It means nothing for NotAgain.
	NotBefore time.Duration
}

// judged is an error that says itself what is to follow.
type judged struct {
	error
	verdict Verdict
	asked   bool // NotBefore is another's, and counts up to Policy.Patience
}

func (j *judged) Unwrap() error { return j.error }

// After returns err as a refusal for now, after which a run follows [Soon], but not before d has passed: not for
// an event. A new generation and a deletion of the resource pass once, as they may have nothing to do with
// what was refused. It is for "too many requests, come back in 30 s"; to look again at something that takes
// its time, reschedule instead. The text and what it wraps are those of err; of a nil err it returns nil.
//
// d is taken at its word. Where it is what a server asked for, use [Refused].
func After(err error, d time.Duration) error {
	return withVerdict(err, Verdict{Class: Soon, NotBefore: max(0, d)})
}

// Refused is [After] for a time that a server asked for, in a Retry-After perhaps: it counts up to
// [Policy.Patience], as a server may ask for days.
func Refused(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &judged{err, Verdict{Class: Soon, NotBefore: max(0, d)}, true}
}

// leastPatience is the least that [Policy.Patience] returns.
const leastPatience = 10 * time.Second

// Patience returns the longest time until the next attempt that a server may ask for: Max, or its default, but at
// least 10 s, as a server that is asked earlier than it wants does not recover.
func (p Policy) Patience() time.Duration { return max(p.withDefaults().Max, leastPatience) }

// Final returns err as a failure that no retry mends. The text and what it wraps are those of err; of a nil
// err it returns nil.
func Final(err error) error { return withVerdict(err, Verdict{Class: NotAgain}) }

func withVerdict(err error, v Verdict) error {
	if err == nil {
		return nil
	}
	return &judged{err, v, false}
}

// Judge says what is to follow a failure. What the error says of itself ([After], [Final]) counts most, the
// outermost first, through any wrapping; then what [Policy.Classify] says, whose times count up to [Policy.Patience].
//
// An error that wraps several ([errors.Join]) stands for several failures, which are judged one by one. What
// helps one of them is done: it is retried by the policy if one of them is, soon if one of them is and the
// others never, and in either case not before the longest of their times. To say of an error made of several
// that it is one failure, wrap it in Final or After.
func (p Policy) Judge(err error) Verdict {
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		switch e := inner.(type) {
		case *judged:
			if e.asked {
				return p.bounded(e.verdict)
			}
			return e.verdict
		case interface{ Unwrap() []error }:
			if all := e.Unwrap(); len(all) > 0 {
				return p.judgeAll(all)
			}
		}
	}
	if p.Classify == nil || err == nil {
		return Verdict{}
	}
	return p.bounded(p.Classify(err))
}

// bounded is a verdict with a time that can be waited for.
func (p Policy) bounded(v Verdict) Verdict {
	v.NotBefore = min(max(0, v.NotBefore), p.Patience())
	return v
}

func (p Policy) judgeAll(all []error) Verdict {
	together := Verdict{Class: NotAgain}
	for _, err := range all {
		switch v := p.Judge(err); v.Class {
		case NotAgain:
		case Soon:
			together.NotBefore = max(together.NotBefore, v.NotBefore)
			if together.Class == NotAgain {
				together.Class = Soon
			}
		default:
			together.NotBefore = max(together.NotBefore, v.NotBefore)
			together.Class = ByPolicy
		}
	}
	return together
}
