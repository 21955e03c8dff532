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

// Admission lets runs into namespaces and keeps a list of the running ones. The zero value lets all
// runs in.
type Admission struct {
	mu      sync.Mutex            // guards the fields below; a leaf
	closed  map[string]int        // by namespace: how often it is closed
	inside  map[*Lifetime]trc.Key // the running runs
	refused map[trc.Key]bool      // since their namespace was closed
	missing map[trc.Key]bool      // refused before it was opened, and not run since then
	// watchdog fires no later than the first deadline of a running run. There is one for all runs, as
	// hardly any run lasts that long.
	watchdog *time.Timer
}

// Enter reports whether a run of a primary may begin. If so, Leave must be called at its end.
func (a *Admission) Enter(key trc.Key, run *Lifetime) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.isClosedLocked(key) {
		if a.refused == nil {
			a.refused = map[trc.Key]bool{}
		}
		a.refused[key] = true
		return false
	}
	if a.inside == nil {
		a.inside = map[*Lifetime]trc.Key{}
	}
	a.inside[run] = key
	delete(a.missing, key)
	if a.watchdog == nil {
		a.watchdog = time.AfterFunc(run.limit, a.watch)
	}
	return true
}

// IsClosed reports whether no run of a primary may begin at the moment.
func (a *Admission) IsClosed(key trc.Key) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.isClosedLocked(key)
}

// isClosedLocked is IsClosed with the lock held.
func (a *Admission) isClosedLocked(key trc.Key) bool {
	// Cluster-scoped primaries may read in all namespaces.
	return len(a.closed) > 0 && (key.Namespace == "" || a.closed[""] > 0 || a.closed[key.Namespace] > 0)
}

// Leave ends the entry of a run.
func (a *Admission) Leave(run *Lifetime) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.inside, run)
}

// Close lets no run begin in the namespaces until Open was called as often.
func (a *Admission) Close(namespaces []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, namespace := range namespaces {
		if a.closed == nil {
			a.closed = map[string]int{}
		}
		a.closed[namespace]++
	}
}

// Open reverts one Close. It returns the primaries that were refused and may run now.
func (a *Admission) Open(namespaces []string) (refused []trc.Key) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, namespace := range namespaces {
		if a.closed[namespace]--; a.closed[namespace] == 0 {
			delete(a.closed, namespace)
		}
	}
	for key := range a.refused {
		if !a.isClosedLocked(key) {
			refused = append(refused, key)
			delete(a.refused, key)
			if a.missing == nil {
				a.missing = map[trc.Key]bool{}
			}
			a.missing[key] = true
		}
	}
	return refused
}

// Misses reports whether a primary was refused before its namespace was opened, and has not run
// since.
func (a *Admission) Misses(key trc.Key) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.missing[key]
}

// Forget drops the state of a primary that will not run.
func (a *Admission) Forget(key trc.Key) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.missing, key)
}

// Cancel ends the running runs that those selects.
func (a *Admission) Cancel(those func(trc.Key) bool) {
	var ended []*Lifetime
	a.mu.Lock()
	for run, key := range a.inside {
		if those(key) {
			ended = append(ended, run)
			run.ignores = time.Now() // until it leaves
		}
	}
	a.mu.Unlock()
	for _, run := range ended {
		run.Cancel(ErrNamespacesChanged)
	}
}

// watch reports the runs that go on after their deadline. A run may not have asked for its
// deadline.
func (a *Admission) watch() {
	a.mu.Lock()
	var late []*Lifetime
	var next time.Duration
	for run := range a.inside {
		switch left := time.Until(run.deadline); {
		case left <= 0:
			late = append(late, run)
		case next == 0 || left < next:
			next = left
		}
	}
	if a.watchdog = nil; next > 0 {
		a.watchdog = time.AfterFunc(next, a.watch)
	}
	a.mu.Unlock()
	for _, run := range late {
		run.report()
	}
}

// Stop stops the watchdog. No run may enter after that.
func (a *Admission) Stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.watchdog != nil {
		a.watchdog.Stop()
	}
}

// Ignored records which runs go on although their contexts have ended.
func (a *Admission) Ignored() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for run := range a.inside {
		if run.IsCut() && run.ignores.IsZero() {
			run.ignores = time.Now()
		}
	}
}

// Overdue returns the keys of runs whose deadline passed longer than overdueGrace ago, and of those
// that ignore their end, sorted.
func (a *Admission) Overdue() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var keys []string
	for run, key := range a.inside {
		cut := !run.ignores.IsZero() && time.Since(run.ignores) > safely.TooLong-lease.Grace
		if time.Since(run.deadline) > overdueGrace || cut {
			keys = append(keys, key.String())
		}
	}
	slices.Sort(keys)
	return keys
}

// ClosedNow returns the namespaces that are closed, sorted.
func (a *Admission) ClosedNow() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Sorted(maps.Keys(a.closed))
}

// ErrNamespacesChanged is the cause of the end of runs that Operator.SetNamespaces ends.
var ErrNamespacesChanged = errors.New("framework: the namespaces of the operator have changed")

// overdueGrace is how long a run may go on after its deadline before Operator.Alive reports it.
const overdueGrace = time.Minute
