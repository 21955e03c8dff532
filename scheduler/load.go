package scheduler

import (
	"maps"
	"slices"
	"time"
)

// Counts are what has happened since the scheduler was made.
type Counts struct {
	// Runs is the number of runs that have begun, Retries the number of retries that were granted.
	Runs, Retries uint64
	// Queued is how often a key was queued. An event of a key that is queued already does not count.
	Queued uint64
	// Needless is the number of events that started no run because [Options.Decide] said so.
	Needless uint64
}

// Load is what a scheduler has to do now, and what it has done.
type Load struct {
	Counts
	// Workers is the number of runs at a time: [Options.Concurrency].
	Workers int
	// Running is the number of runs in flight. Due is the number of keys that are queued. Keys is the
	// number of all keys that have state, as in [Scheduler.Len].
	Running, Due, Keys int
	// Failing is the number of keys whose last run failed, whether or not a retry follows.
	Failing int
	// Longest is how long the oldest run in flight has been running, Unfinished is the sum over all
	// runs in flight.
	Longest, Unfinished time.Duration
	// Paused is set between [Scheduler.Pause] and [Scheduler.Resume].
	Paused bool
}

// Load returns what the scheduler has to do now. It suits metrics: its cost does not depend on the
// number of keys.
func (s *Scheduler[K]) Load() Load {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := Load{
		Counts:  Counts{Runs: s.begun, Retries: s.core.retries, Queued: s.core.queued, Needless: s.needless.Load()},
		Workers: s.core.workers, Running: len(s.active), Due: s.core.lanes.due, Keys: len(s.core.keys),
		Failing: len(s.core.failing), Paused: s.core.paused,
	}
	now := s.now()
	for _, run := range s.active {
		d := now.since(run.began)
		l.Longest, l.Unfinished = max(l.Longest, d), l.Unfinished+d
	}
	return l
}

// Failing returns the keys whose last run failed, in no order.
func (s *Scheduler[K]) Failing() []K {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.core.failing))
}
