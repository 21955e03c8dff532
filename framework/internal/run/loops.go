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
	// namedLoops is how many such runs in a row are a loop, which the log names, once in namedEvery.
	namedLoops = 10
	namedEvery = time.Minute
)

// loops finds the primaries whose runs make them due again themselves, by asking for a run at once or by writes that
// prove nothing. They are named in the log and slowed, never stopped: what else makes them due waits for a second
// at most. The zero value knows none.
type loops struct {
	some  atomic.Bool // byKey is not empty
	mu    sync.Mutex  // guards below; a leaf
	byKey map[trc.Key]*loop
}

// loop is a primary whose last run has made it due again, or may have.
type loop struct {
	runs  int              // in a row that nothing else has caused
	asked bool             // the last one asked for a further run at once
	left  []write.Unproven // what it wrote without a proof
	now   []write.Unproven // of these, what the run in flight wrote of the primary itself, and the one before
	since int              // where those of the run in flight begin
	doing int              // requests of the author's about the primary that are under way
	named time.Time
}

// begin returns how many runs in a row, right before one with these causes, the primary has caused itself.
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
		return true // those that can be asked about decide
	}
	return false
}

// Wrote notes what the run in flight wrote of its primary without a proof, before anybody is told of it.
func (l *loops) Wrote(key trc.Key, w write.Unproven) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.atLocked(key)
	at.now = append(at.now, w)
}

// Does notes that a request of the author's about the primary is under way: what it brings may be told of before it returns.
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

// isOwn reports whether the run in flight, or the last one, wrote the primary as it is now. No such change is a new
// generation of others.
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

// end notes what a run has left, after so many in a row. named says that it is time to name the loop.
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

// forget is for a primary that is gone.
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

// followLoop slows a primary that causes its runs itself, and names it. runs is how many in a row it has caused before
// this one.
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
	// If it goes after that, forgetting it comes after that, too.
	if c.isGone(rc.Key, rc.Write.Owner.GetUID()) {
		c.Loops.forget(rc.Key)
	}
}

// Len is the number of primaries that are remembered.
func (l *loops) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.byKey)
}
