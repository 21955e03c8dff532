package run

import (
	"slices"
	"sync"
	"sync/atomic"
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

// loops finds the primaries whose runs make them due again, by asking for a run at once or by
// writes without a proof. They are logged and slowed, never stopped: other causes wait for a second
// at most. The zero value is ready for use.
type loops struct {
	some  atomic.Bool // byKey is not empty
	mu    sync.Mutex  // guards the fields below; a leaf
	byKey map[trc.Key]*loop
}

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

// begin returns how many runs in a row the primary has caused itself, before a run with these
// causes.
func (l *loops) begin(key trc.Key, causes []timeline.Cause) int {
	if !l.some.Load() {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.byKey[key]
	if at == nil {
		return 0
	}
	if slices.ContainsFunc(causes, func(c timeline.Cause) bool { return !at.explains(c) }) {
		at.runs = 0
	}
	at.now = slices.Clone(at.now[at.since:])
	at.since = len(at.now)
	return at.runs
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
func (l *loops) Wrote(key trc.Key, w write.Unproven) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.atLocked(key)
	at.now = append(at.now, w)
}

// Does records that a request of the author's for the primary is in flight. The change that it
// makes may be delivered before it returns.
func (l *loops) Does(key trc.Key) (done func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.atLocked(key).doing++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if at := l.byKey[key]; at != nil {
			at.doing--
		}
	}
}

// isOwn reports whether the current run, or the last one, wrote this version of the primary. Such a
// change is no new generation of others.
func (l *loops) isOwn(key trc.Key, now trc.Object) bool {
	if !l.some.Load() {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.byKey[key]
	return at != nil && (at.doing > 0 || slices.ContainsFunc(at.now, func(w write.Unproven) bool {
		return w.UID == now.GetUID() && w.Version == now.GetResourceVersion()
	}))
}

func (l *loops) atLocked(key trc.Key) *loop {
	at := l.byKey[key]
	if at == nil {
		if l.byKey == nil {
			l.byKey = map[trc.Key]*loop{}
		}
		at = &loop{}
		l.byKey[key] = at
		l.some.Store(true)
	}
	return at
}

// end records what a run has left, after that many runs in a row. named reports whether the loop is
// to be logged now.
func (l *loops) end(key trc.Key, runs int, asked bool, wrote []write.Unproven) (named bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !asked && len(wrote) == 0 {
		l.forgetLocked(key)
		return false
	}
	at := l.atLocked(key)
	at.runs, at.asked, at.left = runs+1, asked, wrote
	if at.runs < namedLoops || time.Since(at.named) < namedEvery {
		return false
	}
	at.named = time.Now()
	return true
}

// forget drops the state of a deleted primary.
func (l *loops) forget(key trc.Key) {
	if l.some.Load() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.forgetLocked(key)
	}
}

func (l *loops) forgetLocked(key trc.Key) {
	delete(l.byKey, key)
	l.some.Store(len(l.byKey) > 0)
}

// followLoop slows a primary that causes its runs itself, and logs it. runs is how many in a row it
// has caused before this one.
func (c *Controller) followLoop(rc *Run, runs int, result *scheduler.Result) {
	if result.Err != nil || result.Superseded || result.Gone {
		c.Loops.forget(rc.Key) // these have pauses of their own
		return
	}
	wrote := rc.Write.Unproven()
	asked := result.RescheduleNow || result.RescheduleAfter > 0 && result.RescheduleAfter < scheduler.AtOnce
	if !asked && len(wrote) == 0 && !c.Loops.some.Load() {
		return
	}
	named := c.Loops.end(rc.Key, runs, asked, wrote)
	if len(wrote) > 0 {
		result.Rest = scheduler.Slowed(runs)
	}
	if named {
		because := []any{"runs", runs + 1, "asksForARunAtOnce", asked}
		if len(wrote) > 0 {
			because = append(because, "writesWithoutProof", len(wrote), "asIn", wrote[0].What)
		}
		rc.Logger().Info("the primary makes itself due again and again, and is slowed", because...)
	}
	// If the primary is deleted after this check, its deletion is handled later and drops the state.
	if c.isGone(rc.Key, rc.Write.Owner.GetUID()) {
		c.Loops.forget(rc.Key)
	}
}

// Len returns the number of primaries that are remembered.
func (l *loops) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.byKey)
}
