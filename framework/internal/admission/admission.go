package admission

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/evenkeel/evenkeel/framework/internal/lease"
	"github.com/evenkeel/evenkeel/framework/internal/safely"
	"github.com/evenkeel/evenkeel/trc"
)

// Admission lets runs into namespaces, and looks after those inside. The zero value is open everywhere.
type Admission struct {
	mu      sync.Mutex // guards below; a leaf
	closed  map[string]int
	inside  map[*Lifetime]trc.Key
	refused map[trc.Key]bool // since it was closed
	missing map[trc.Key]bool // refused before it was opened, and not in since then
	// watchdog comes no later than the first deadline inside. One serves all runs, as hardly any lasts so long.
	watchdog *time.Timer
}

// Enter reports whether a run of a primary may begin; leave must be called at its end then.
func (g *Admission) Enter(key trc.Key, run *Lifetime) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isClosedLocked(key) {
		if g.refused == nil {
			g.refused = map[trc.Key]bool{}
		}
		g.refused[key] = true
		return false
	}
	if g.inside == nil {
		g.inside = map[*Lifetime]trc.Key{}
	}
	g.inside[run] = key
	delete(g.missing, key)
	if g.watchdog == nil {
		g.watchdog = time.AfterFunc(run.limit, g.watch)
	}
	return true
}

func (g *Admission) IsClosed(key trc.Key) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.isClosedLocked(key)
}

func (g *Admission) isClosedLocked(key trc.Key) bool {
	// Primaries without a namespace read of all.
	return len(g.closed) > 0 && (key.Namespace == "" || g.closed[""] > 0 || g.closed[key.Namespace] > 0)
}

func (g *Admission) Leave(run *Lifetime) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.inside, run)
}

// Close lets no run begin in namespaces any more, until open was called as often.
func (g *Admission) Close(namespaces []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, namespace := range namespaces {
		if g.closed == nil {
			g.closed = map[string]int{}
		}
		g.closed[namespace]++
	}
}

// Open returns the primaries that were refused and may be let in now.
func (g *Admission) Open(namespaces []string) (refused []trc.Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, namespace := range namespaces {
		if g.closed[namespace]--; g.closed[namespace] == 0 {
			delete(g.closed, namespace)
		}
	}
	for key := range g.refused {
		if !g.isClosedLocked(key) {
			refused = append(refused, key)
			delete(g.refused, key)
			if g.missing == nil {
				g.missing = map[trc.Key]bool{}
			}
			g.missing[key] = true
		}
	}
	return refused
}

// Misses tells whether a primary that was refused before the gate was opened has not come in since.
func (g *Admission) Misses(key trc.Key) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.missing[key]
}

// Forget is for a primary that will not come.
func (g *Admission) Forget(key trc.Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.missing, key)
}

// Cancel ends those of the runs under way.
func (g *Admission) Cancel(those func(trc.Key) bool) {
	var ended []*Lifetime
	g.mu.Lock()
	for run, key := range g.inside {
		if those(key) {
			ended = append(ended, run)
			run.ignores = time.Now() // until it leaves
		}
	}
	g.mu.Unlock()
	for _, run := range ended {
		run.Cancel(ErrNamespacesChanged)
	}
}

// watch tells of the runs that go on after their deadline, though nothing of theirs may have asked for it.
func (g *Admission) watch() {
	g.mu.Lock()
	var late []*Lifetime
	var next time.Duration
	for run := range g.inside {
		switch left := time.Until(run.deadline); {
		case left <= 0:
			late = append(late, run)
		case next == 0 || left < next:
			next = left
		}
	}
	if g.watchdog = nil; next > 0 {
		g.watchdog = time.AfterFunc(next, g.watch)
	}
	g.mu.Unlock()
	for _, run := range late {
		run.report()
	}
}

// Stop ends the watch once no run enters any more.
func (g *Admission) Stop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.watchdog != nil {
		g.watchdog.Stop()
	}
}

// Ignored notes the runs that go on though their contexts have ended.
func (g *Admission) Ignored() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for run := range g.inside {
		if run.IsCut() && run.ignores.IsZero() {
			run.ignores = time.Now()
		}
	}
}

// Overdue are the keys of runs whose deadline passed longer than the grace ago, or that ignore that they were cut off,
// sorted.
func (g *Admission) Overdue() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var keys []string
	for run, key := range g.inside {
		cut := !run.ignores.IsZero() && time.Since(run.ignores) > safely.TooLong-lease.Grace
		if time.Since(run.deadline) > overdueGrace || cut {
			keys = append(keys, key.String())
		}
	}
	slices.Sort(keys)
	return keys
}

func (g *Admission) ClosedNow() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Sorted(maps.Keys(g.closed))
}

// ErrNamespacesChanged is the cause of the end of runs that [framework.Operator.SetNamespaces] ends.
var ErrNamespacesChanged = errors.New("framework: the namespaces of the operator have changed")

// overdueGrace is how long a run may go on after its deadline until Alive says so.
const overdueGrace = time.Minute
