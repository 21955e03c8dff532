package frameworktest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/evenkeel/evenkeel/internal/author"
)

// chronicle is the record of a life: what failed, what happened beside the changes of objects,
// and the operator's log.
type chronicle struct {
	of      server
	started time.Time

	mu         sync.Mutex // guards everything below; a leaf
	violations []string
	notes      []note
	log        []string
}

// note is a line of the timeline that is no change of an object.
type note struct {
	at        time.Time
	after     int // how many changes there were, without those that [isNoise]
	who, what string
}

// fail records a failure.
func (c *chronicle) fail(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	c.note("failure", "%s", text)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Contains(c.violations, text) {
		c.violations = append(c.violations, text)
	}
}

// patience is how long a function of the author's may take, in the time of the life. No story is
// that long, but one that waits for what never comes.
const patience = 400 * 24 * time.Hour

// call calls a function of the author's. It does so apart from the life's own goroutine: if it
// panics or ends its goroutine, as FailNow of the test around it does, the life fails, and goes on.
func (c *chronicle) call(what string, do func()) {
	failure := author.Apart(patience, do)
	switch {
	case failure == nil:
	case failure.Kind == author.Exited:
		c.fail("%s ended its goroutine, as FailNow of a testing.T does: Fatalf of the World ends a story", what)
	case failure.Kind == author.Panicked:
		if _, expected := failure.Value.(stopped); !expected {
			c.fail("%s panics: %s\n%s", what, author.Sprint(failure.Value), failure.Stack)
		}
	default:
		panic(fmt.Sprintf("frameworktest: %s: %v", what, failure)) // its goroutine cannot be ended
	}
}

func (c *chronicle) failures() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.violations)
}

// note adds a line to the timeline.
func (c *chronicle) note(who, format string, args ...any) {
	after := c.of.count()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.notes = append(c.notes, note{time.Now(), after, who, fmt.Sprintf(format, args...)})
}

// keptLines is how much of the operator's log a life keeps.
const keptLines = 200

func (c *chronicle) logLine(process int, line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	line = fmt.Sprintf("%9.3fs process %d %s", time.Since(c.started).Seconds(), process, strings.TrimSpace(line))
	if c.log = append(c.log, line); len(c.log) > keptLines {
		c.log = c.log[len(c.log)-keptLines:]
	}
}

// timeline merges changes and notes. Much happens in one instant of virtual time: then the order is
// that in which it happened.
func (c *chronicle) timeline() []line {
	var all []line
	loud := 0
	for _, one := range c.of.changes() {
		if isNoise(one) {
			continue
		}
		loud++
		if one.resource != "namespaces" && one.resource != "nodes" {
			all = append(all, line{one.at.Sub(c.started), loud, who(one.by), describe(one)})
		}
	}
	c.mu.Lock()
	for _, n := range c.notes {
		all = append(all, line{n.at.Sub(c.started), n.after, n.who, n.what})
	}
	c.mu.Unlock()
	slices.SortStableFunc(all, func(a, b line) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.after, b.after))
	})
	return all
}

// report shows a life that was not compared with another.
func (c *chronicle) report(failures []string) string {
	c.mu.Lock()
	log := c.log
	c.mu.Unlock()
	return strings.Join(failures, "\n") + "\n\n" + column(c.timeline()) + logged(log)
}
