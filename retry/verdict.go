package retry

import (
	"errors"
	"fmt"
	"time"
)

// Class is the kind of reaction to a failure.
type Class int

const (
	// ByPolicy is another attempt after the policy's delay. The default.
	ByPolicy Class = iota
	// Soon is another run that is no attempt. The request was not judged but refused for now: the
	// resource has changed meanwhile, or the server is too busy. It consumes no attempt and neither
	// begins nor ends a back-off. The scheduler spaces several in a row.
	Soon
	// NotAgain is no further attempt, because repeating the same cannot succeed.
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

// Verdict is the reaction to a failure. The zero value is a retry by the policy.
type Verdict struct {
	Class Class
	// NotBefore is the least time until the next attempt. 0 or less means none. It holds back
	// everything except a renewal (a new generation, a deletion), which passes once. It has no effect
	// with NotAgain.
	NotBefore time.Duration
}

// judged is an error that carries its verdict.
type judged struct {
	error
	verdict Verdict
	asked   bool // a server asked for NotBefore; it is limited to Policy.Patience
}

func (j *judged) Unwrap() error { return j.error }

// After returns err as a refusal for now: a run follows [Soon], but not before d has passed. Events
// do not shorten that. A new generation and a deletion of the resource pass once, because they may
// have nothing to do with what was refused. Use it for "too many requests, come back in 30 s". To
// look again at something that takes time, reschedule instead. The text and the wrapped errors are
// those of err. If err is nil, it returns nil.
//
// d is not limited. For a time that a server asked for, use [Refused].
func After(err error, d time.Duration) error {
	return withVerdict(err, Verdict{Class: Soon, NotBefore: max(0, d)})
}

// Refused is [After] for a time that a server asked for, as in Retry-After. It is limited to
// [Policy.Patience], because a server may ask for days. If err is nil, it returns nil.
func Refused(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &judged{err, Verdict{Class: Soon, NotBefore: max(0, d)}, true}
}

// leastPatience is the least result of [Policy.Patience].
const leastPatience = 10 * time.Second

// Patience returns the longest time until the next attempt that a server may ask for: Max, or its
// default, but at least 10 s, because a server that is called earlier than it asked for does not
// recover.
func (p Policy) Patience() time.Duration { return max(p.withDefaults().Max, leastPatience) }

// Final returns err as a failure that no retry can repair. The text and the wrapped errors are
// those of err. If err is nil, it returns nil.
func Final(err error) error { return withVerdict(err, Verdict{Class: NotAgain}) }

func withVerdict(err error, v Verdict) error {
	if err == nil {
		return nil
	}
	return &judged{err, v, false}
}

// Judge returns the verdict about a failure. The verdict in the error itself ([After], [Refused],
// [Final]) comes first, the outermost one, through any wrapping. Otherwise it is that of
// [Policy.Classify], whose times are limited to [Policy.Patience].
//
// An error that wraps several ([errors.Join]) stands for several failures, which are judged one by
// one. It is retried by the policy if one of them is. Otherwise it is repeated soon if one of them
// is. In both cases it is not repeated before the longest of their times. To treat such an error as
// one failure, wrap it in Final or After.
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

// bounded returns the verdict with a limited time.
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
