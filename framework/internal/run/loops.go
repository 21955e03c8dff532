package run

import (
	"slices"
	"time"

	"github.com/evenkeel/evenkeel/framework/internal/write"
	"github.com/evenkeel/evenkeel/scheduler"
	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

const (
	// namedLoops is how many such runs in a row the log reports as a loop, once per namedEvery.
	namedLoops = 10
	namedEvery = time.Minute
)

// Loops are primaries whose runs make them due again, by asking for a run at once or by writes
// without a proof. They are logged and slowed, never stopped: other causes wait for a second at
// most.

// loop is a primary whose last run has made it due again, or may have.
type loop struct {
	runs  int              // runs in a row that nothing else has caused
	asked bool             // the last run asked for a further run at once
	left  []write.Unproven // the writes of the last run without a proof
	// The unproven writes of the primary itself, by the current run and the one before.
	now   []write.Unproven
	since int       // where those of the current run begin in now
	doing int       // the author's requests for the primary in flight
	named time.Time // when it was last logged
}

// beginRun returns how many runs in a row the primary has caused itself, before a run with these
// causes.
func (p *primaryStates) beginRun(key trc.Key, causes []timeline.Cause) (turns int) {
	p.look(key, func(s *primaryState) {
		at := s.loop
		if at == nil {
			return
		}
		if slices.ContainsFunc(causes, func(c timeline.Cause) bool { return !at.explains(c) }) {
			at.runs = 0
		}
		at.now = slices.Clone(at.now[at.since:])
		at.since = len(at.now)
		turns = at.runs
	})
	return turns
}

// explains reports whether the last run itself has brought a cause.
func (l *loop) explains(cause timeline.Cause) bool {
	switch c := cause.(type) {
	case timeline.Timer:
		return l.asked && c.After <= scheduler.SlowestLoop
	case timeline.Resource:
		return slices.ContainsFunc(l.left, func(w write.Unproven) bool {
			return string(w.UID) == c.UID && (w.Version == "" || w.Version == c.NewVersion)
		})
	case timeline.Overflow:
		return true // the causes that are known in detail decide
	}
	return false
}

// Wrote records an unproven write of the primary by the current run. It must be called before the
// change is delivered.
func (p *primaryStates) Wrote(key trc.Key, w write.Unproven) {
	p.change(key, func(s *primaryState) {
		at := s.theLoop()
		at.now = append(at.now, w)
	})
}

// Does records that a request of the author's for the primary is in flight. The change that it
// makes may be delivered before it returns.
func (p *primaryStates) Does(key trc.Key) (done func()) {
	var at *loop
	p.change(key, func(s *primaryState) {
		at = s.theLoop()
		at.doing++
	})
	return func() {
		p.look(key, func(s *primaryState) {
			if at.doing--; s.loop == at && at.isEmpty() {
				s.loop = nil
			}
		})
	}
}

// isEmpty reports whether nothing is known of the loop, and no request is in flight.
func (l *loop) isEmpty() bool {
	return l.runs == 0 && !l.asked && len(l.left)+len(l.now)+l.doing == 0
}

// theLoop returns the loop of a primary, and makes it if needed.
func (s *primaryState) theLoop() *loop {
	if s.loop == nil {
		s.loop = &loop{}
	}
	return s.loop
}

// isOwn reports whether the current run, or the last one, wrote this version of the primary. Such a
// change is no new generation of others.
func (p *primaryStates) isOwn(key trc.Key, now trc.Object) (own bool) {
	p.look(key, func(s *primaryState) {
		at := s.loop
		own = at != nil && (at.doing > 0 || slices.ContainsFunc(at.now, func(w write.Unproven) bool {
			return w.UID == now.GetUID() && w.Version == now.GetResourceVersion()
		}))
	})
	return own
}

// endRun records what a run has left, after that many runs in a row. named reports whether the loop
// is to be logged now.
func (p *primaryStates) endRun(key trc.Key, runs int, asked bool, wrote []write.Unproven) (named bool) {
	if !asked && len(wrote) == 0 {
		p.look(key, func(s *primaryState) { s.loop = nil })
		return false
	}
	p.change(key, func(s *primaryState) {
		at := s.theLoop()
		at.runs, at.asked, at.left = runs+1, asked, wrote
		if named = at.runs >= namedLoops && time.Since(at.named) >= namedEvery; named {
			at.named = time.Now()
		}
	})
	return named
}

// followLoop slows a primary that causes its runs itself, and logs it. runs is how many in a row it
// has caused before this one.
func (e execution) followLoop(runs int, result *scheduler.Result) {
	if result.Err != nil || result.Superseded || result.Gone {
		e.states.look(e.run.Key, func(s *primaryState) { s.loop = nil }) // these have pauses of their own
		return
	}
	wrote := e.run.Writes.Record.Unproven()
	asked := result.RescheduleNow || result.RescheduleAfter > 0 && result.RescheduleAfter < scheduler.AtOnce
	named := e.states.endRun(e.run.Key, runs, asked, wrote)
	if len(wrote) > 0 {
		result.Rest = scheduler.Slowed(runs)
	}
	if named {
		because := []any{"runs", runs + 1, "asksForARunAtOnce", asked}
		if len(wrote) > 0 {
			because = append(because, "writesWithoutProof", len(wrote), "asIn", wrote[0].What)
		}
		e.run.Logger().Info("the runs of the primary keep triggering each other, and are slowed down", because...)
	}
}

// Loops returns the number of primaries that may be in a loop.
func (c *Controller) Loops() (n int) {
	c.states.all(func(_ trc.Key, s *primaryState) {
		if s.loop != nil {
			n++
		}
	})
	return n
}
