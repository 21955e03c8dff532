package run

import (
	"slices"
	"time"

	"github.com/evenkeel/evenkeel/framework/internal/contest"
	"github.com/evenkeel/evenkeel/framework/internal/write"
	"github.com/evenkeel/evenkeel/scheduler"
	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// namedEvery is how often the log and an event name a loop.
const namedEvery = time.Minute

// Loops are primaries whose runs make each other due, by asking for a run at once, by writes
// without a proof, or by writes to what another controller of the operator watches. They are named
// and slowed, never stopped: other causes wait for a second at most.

// loop is a primary whose last run has made it due again, or may have, or is part of a long loop.
type loop struct {
	next  contest.Place    // of a run that only the last one has caused
	asked bool             // the last run asked for a further run at once
	left  []write.Unproven // the writes of the last run without a proof
	// The unproven writes of the primary itself, by the current run and the one before.
	now   []write.Unproven
	since int       // where those of the current run begin in now
	doing int       // the author's requests for the primary in flight
	named time.Time // when it was last named
}

// beginRun begins the chain of a run with these causes.
func (p *primaryStates) beginRun(key trc.Key, causes []timeline.Cause, book *contest.Book, controller string) contest.Chain {
	chain := book.Follow(controller, causes)
	p.look(key, func(s *primaryState) {
		at := s.loop
		if at == nil {
			return
		}
		var others []timeline.Cause
		for _, cause := range causes {
			if !at.explains(cause) {
				others = append(others, cause)
			}
		}
		if len(others) < len(causes) {
			chain = book.FollowOwn(controller, at.next, others)
		}
		at.now = slices.Clone(at.now[at.since:])
		at.since = len(at.now)
	})
	return chain
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
	return l.next.Runs == 0 && !l.asked && len(l.left)+len(l.now)+l.doing == 0
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

// endRun records what a run has left. next is the place of a run that only this one has caused, and
// loops says that this one is part of a loop. named reports whether the loop is to be named now.
func (p *primaryStates) endRun(key trc.Key, next contest.Place, loops, asked bool, wrote []write.Unproven) (named bool) {
	if !asked && len(wrote) == 0 && !loops {
		p.look(key, func(s *primaryState) { s.loop = nil })
		return false
	}
	p.change(key, func(s *primaryState) {
		at := s.theLoop()
		at.next, at.asked, at.left = next, asked, wrote
		if named = loops && time.Since(at.named) >= namedEvery; named {
			at.named = time.Now()
		}
	})
	return named
}

// followLoop slows a primary whose runs cause each other, and names it.
func (e execution) followLoop(result *scheduler.Result) {
	if result.Err != nil || result.Superseded || result.Gone {
		e.states.look(e.run.Key, func(s *primaryState) { s.loop = nil }) // these have pauses of their own
		return
	}
	wrote := e.run.Writes.Record.Unproven()
	asked := result.RescheduleNow || result.RescheduleAfter > 0 && result.RescheduleAfter < scheduler.AtOnce
	place, next := e.run.Writes.Chain.At(), e.run.Writes.Chain.Next()
	named := e.states.endRun(e.run.Key, next, place.IsLoop(), asked, wrote)
	if len(wrote) > 0 || place.IsLoop() {
		result.Rest = scheduler.Slowed(place.Runs)
	}
	if !place.IsLoop() {
		return
	}
	result.Loop = &timeline.Chain{Runs: place.Runs + 1, Controllers: e.Operator.Cluster.Contests.ControllersOf(next)}
	if named {
		because := []any{"runs", result.Loop.Runs, "controllers", result.Loop.Controllers, "asksForARunAtOnce", asked}
		if len(wrote) > 0 {
			because = append(because, "writesWithoutProof", len(wrote), "asIn", wrote[0].What)
		}
		e.run.Logger().Info("the runs of the primary keep triggering each other, and are slowed down", because...)
		e.notices.warn(e.run.Writes.Primary.Object, ReasonLoop, "%v; they are slowed down", result.Loop)
	}
}

// followFights slows a primary whose runs fight with others over fields, and names the fights.
func followFights(e execution, result *scheduler.Result) {
	fights, tell := e.run.Writes.Record.Fights()
	if result.Fights = fights; len(fights) == 0 {
		return
	}
	result.Rest = scheduler.SlowestLoop
	if !tell {
		return
	}
	for _, f := range fights {
		e.run.Logger().Info("another writer keeps changing what the primary's runs set, and the runs are slowed down", "fight", f.String())
		e.notices.warn(e.run.Writes.Primary.Object, ReasonFight, "%v", f)
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
