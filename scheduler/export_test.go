package scheduler

import "time"

// ExactIntervals takes the jitter off the max interval.
func (s *Scheduler[K]) ExactIntervals() {
	s.core.jitter = func(d time.Duration) time.Duration { return d }
}
