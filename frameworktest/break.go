package frameworktest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/frameworktest/internal/network"
)

const (
	// staleFor is how long an API server serves old lists.
	staleFor = time.Minute
	// shortLag and longLag are how late watches are.
	shortLag, longLag = 3 * time.Second, 3 * time.Minute
)

// spot is one point in a story: a kind of fault, and the write or read at which it happens.
type spot struct {
	point Point
	write int           // from 1; 0 if it is not about one write
	read  int           // from 1; 0 if it is not about one read
	lag   time.Duration // of watches, for Late
	of    string        // the plural of what they watch; empty for all
}

// String returns the name by which a failure is repeated, as "crash-before@3" or "late@3s:pods".
func (s spot) String() string {
	switch {
	case isAtRest(s.point):
		return s.point.String()
	case s.read > 0:
		return fmt.Sprintf("%s@%d", s.point, s.read)
	case s.of != "":
		return fmt.Sprintf("%s@%s:%s", s.point, s.lag, s.of)
	case s.lag > 0:
		return fmt.Sprintf("%s@%s", s.point, s.lag)
	case s.write == 0:
		return "no-fault"
	}
	return fmt.Sprintf("%s@%d", s.point, s.write)
}

// isAtRest reports whether a point is at each Rest of a story, isAtWrite whether it is at a write.
func isAtRest(p Point) bool  { return p == Restart || p == Idle }
func isAtWrite(p Point) bool { return p != Late && p != FailedRead && !isAtRest(p) }

// spots returns all points of a story with so many writes and reads, the shortest first. An
// operator that watches several resources hears of them in another order if only one of them is
// late.
func spots(points []Point, lags []time.Duration, watched []string, writes, reads int) []spot {
	var all []spot
	if slices.Contains(points, Restart) {
		all = append(all, spot{point: Restart})
	}
	for _, lag := range lags {
		if !slices.Contains(points, Late) {
			break
		}
		all = append(all, spot{point: Late, lag: lag})
		for _, of := range watched {
			if len(watched) > 1 {
				all = append(all, spot{point: Late, lag: lag, of: of})
			}
		}
	}
	if slices.Contains(points, FailedRead) {
		for i := range min(reads, maxReads) {
			all = append(all, spot{point: FailedRead, read: 1 + i*reads/min(reads, maxReads)})
		}
	}
	for write := 1; write <= writes; write++ {
		for _, p := range points {
			if isAtWrite(p) {
				all = append(all, spot{point: p, write: write})
			}
		}
	}
	if slices.Contains(points, Idle) { // what it finds is often found by another, which says more
		all = append(all, spot{point: Idle})
	}
	return all
}

// maxReads is how many reads of a story are tried: an operator that polls has no end of them.
const maxReads = 50

// plan breaks the one write or read.
func (s spot) plan(l *life, p *Process, r network.Request, a asked) network.Break {
	if a.number > 0 && a.number == s.write || a.read > 0 && a.read == s.read {
		return l.breakAt(s.point, p, r)
	}
	return network.Break{}
}

// breakAt breaks a write.
func (l *life) breakAt(point Point, p *Process, r network.Request) network.Break {
	dies := func(when string) func() {
		return func() { p.die(fmt.Sprintf("%s %s", when, r)) }
	}
	refused := func(code int32, reason metav1.StatusReason, done bool) network.Break {
		l.note("fault", "%s is answered with %d", r, code)
		return network.Break{Done: done, Status: &metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: code, Reason: reason,
			Message: fmt.Sprintf("%d, as the test has it", code), Details: &metav1.StatusDetails{Name: r.Name, Group: r.Group, Kind: r.Resource},
		}}
	}
	switch point {
	case CrashBefore:
		return network.Break{Before: dies("before")}
	case CrashCommitted:
		return network.Break{After: dies("after the commit of")}
	case CrashAnswered:
		return network.Break{Answered: dies("after the answer to")}
	case LostAnswer:
		return network.Break{Lose: true, After: func() { l.note("fault", "the answer to %s is lost", r) }}
	case SlowAnswer:
		slow := l.server.limits().lags[0]
		return network.Break{Slow: slow, After: func() { l.note("fault", "the answer to %s takes %v", r, slow) }}
	case Refused429:
		refusal := refused(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, false)
		refusal.Status.Details.RetryAfterSeconds = 1
		return refusal
	case Refused500, FailedRead:
		return refused(http.StatusInternalServerError, metav1.StatusReasonInternalError, false)
	case Failed500:
		return refused(http.StatusInternalServerError, metav1.StatusReasonInternalError, true)
	case Refused409:
		if r.Verb == "create" || r.Group == externalGroup { // there it would say that something exists
			return network.Break{}
		}
		return refused(http.StatusConflict, metav1.StatusReasonConflict, false)
	case Gap:
		return network.Break{After: func() { l.server.weather(Gap, true) }}
	case Rival:
		return network.Break{Lose: true, After: func() { l.cutOff(p) }}
	case StaleServer:
		return network.Break{After: func() {
			l.server.weather(StaleServer, true)
			l.note("fault", "the server's cache is old")
			p.die(fmt.Sprintf("after the commit of %s", r))
			time.AfterFunc(staleFor, func() { l.server.weather(StaleServer, false) })
		}}
	}
	return network.Break{}
}

// late delays watches: those of a resource, or all.
func (s spot) late(l *life) {
	if s.of == "" {
		l.server.lag(s.lag)
		l.note("fault", "all watches are %v late", s.lag)
		return
	}
	l.server.lag(s.lag, s.of)
	l.note("fault", "watches of %s are %v late", s.of, s.lag)
}

// cutOff disconnects a process for a while.
func (l *life) cutOff(p *Process) {
	p.line.Cut(true)
	l.note("fault", "process %d is cut off", p.number)
	time.AfterFunc(l.server.limits().cut, func() {
		p.line.Cut(false)
		l.note("fault", "process %d is back", p.number)
	})
}

// parseSpot is the reverse of [spot.String].
func parseSpot(text string) (spot, error) {
	if text == (spot{}).String() {
		return spot{}, nil
	}
	name, at, _ := strings.Cut(text, "@")
	for i, known := range pointNames {
		if known != name {
			continue
		}
		s := spot{point: Point(i)}
		switch s.point {
		case Restart, Idle:
			return s, nil
		case FailedRead:
			_, err := fmt.Sscan(at, &s.read)
			return s, err
		case Late:
			late, of, _ := strings.Cut(at, ":")
			lag, err := time.ParseDuration(late)
			s.lag, s.of = lag, of
			return s, err
		}
		_, err := fmt.Sscan(at, &s.write)
		return s, err
	}
	return spot{}, fmt.Errorf("frameworktest: no point is named %q", name)
}
