package framework

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/evenkeel/evenkeel/framework/internal/lease"
	"github.com/evenkeel/evenkeel/framework/internal/safely"
	"github.com/evenkeel/evenkeel/trc"
)

// gate lets runs into namespaces, and looks after those inside. The zero value is open everywhere.
type gate struct {
	mu      sync.Mutex // guards below; a leaf
	closed  map[string]int
	inside  map[*lifetime]trc.Key
	refused map[trc.Key]bool // since it was closed
	missing map[trc.Key]bool // refused before it was opened, and not in since then
	// watchdog comes no later than the first deadline inside. One serves all runs, as hardly any lasts so long.
	watchdog *time.Timer
}

// enter reports whether a run of a primary may begin; leave must be called at its end then.
func (g *gate) enter(key trc.Key, run *lifetime) bool {
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
		g.inside = map[*lifetime]trc.Key{}
	}
	g.inside[run] = key
	delete(g.missing, key)
	if g.watchdog == nil {
		g.watchdog = time.AfterFunc(run.limit, g.watch)
	}
	return true
}

func (g *gate) isClosed(key trc.Key) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.isClosedLocked(key)
}

func (g *gate) isClosedLocked(key trc.Key) bool {
	// Primaries without a namespace read of all.
	return len(g.closed) > 0 && (key.Namespace == "" || g.closed[""] > 0 || g.closed[key.Namespace] > 0)
}

func (g *gate) leave(run *lifetime) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.inside, run)
}

// close lets no run begin in namespaces any more, until open was called as often.
func (g *gate) close(namespaces []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, namespace := range namespaces {
		if g.closed == nil {
			g.closed = map[string]int{}
		}
		g.closed[namespace]++
	}
}

// open returns the primaries that were refused and may be let in now.
func (g *gate) open(namespaces []string) (refused []trc.Key) {
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

// misses tells whether a primary that was refused before the gate was opened has not come in since.
func (g *gate) misses(key trc.Key) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.missing[key]
}

// forget is for a primary that will not come.
func (g *gate) forget(key trc.Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.missing, key)
}

// cancel ends those of the runs under way.
func (g *gate) cancel(those func(trc.Key) bool) {
	var ended []*lifetime
	g.mu.Lock()
	for run, key := range g.inside {
		if those(key) {
			ended = append(ended, run)
			run.ignores = time.Now() // until it leaves
		}
	}
	g.mu.Unlock()
	for _, run := range ended {
		run.cancel(errNamespacesChanged)
	}
}

// watch tells of the runs that go on after their deadline, though nothing of theirs may have asked for it.
func (g *gate) watch() {
	g.mu.Lock()
	var late []*lifetime
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
		run.tell()
	}
}

// rest ends the watch once no run enters any more.
func (g *gate) rest() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.watchdog != nil {
		g.watchdog.Stop()
	}
}

// ignored notes the runs that go on though their contexts have ended.
func (g *gate) ignored() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for run := range g.inside {
		if run.isCut() && run.ignores.IsZero() {
			run.ignores = time.Now()
		}
	}
}

// overdue are the keys of runs whose deadline passed longer than the grace ago, or that ignore that they were cut off,
// sorted.
func (g *gate) overdue() []string {
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

func (g *gate) closedNow() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Sorted(maps.Keys(g.closed))
}
