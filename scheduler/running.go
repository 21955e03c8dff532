package scheduler

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Run works until ctx ends, then stops: no run starts any more, runs in flight may finish within
// the grace period, are cancelled then, and Run returns when they have returned. It returns nil, or
// an error naming the keys whose runs ignored their cancellation for 10 s. A scheduler runs once.
func (s *Scheduler[K]) Run(ctx context.Context) error {
	// Runs outlive ctx by the grace period, so they only inherit its values.
	runs, cancelRuns := context.WithCancel(context.WithoutCancel(ctx))
	defer cancelRuns()
	if err := s.start(runs); err != nil {
		return err
	}
	var workers sync.WaitGroup
	for range s.options.Concurrency {
		workers.Go(func() { s.worker(ctx, &workers) })
	}
	<-ctx.Done()
	s.stop()

	ended := make(chan struct{})
	go func() { workers.Wait(); close(ended) }()
	if s.options.Grace > 0 && within(ended, s.options.Grace) {
		return nil
	}
	cancelRuns()
	if within(ended, cancelGrace) {
		return nil
	}
	return s.stuckError()
}

func (s *Scheduler[K]) start(runs context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started {
		return errors.New("scheduler: Run was called before")
	}
	s.started, s.runs = true, runs
	if !s.core.paused {
		s.term = newTerm(runs)
	}
	s.armLocked()
	return nil
}

func (s *Scheduler[K]) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	if s.timer != nil {
		s.timer.Stop()
	}
	s.work.Broadcast()
}

func (s *Scheduler[K]) stuckError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.active) == 0 {
		return nil
	}
	var keys []K
	for state := range s.active {
		keys = append(keys, state.key)
	}
	return stuck(keys)
}

func stuck[K comparable](keys []K) error {
	return fmt.Errorf("scheduler: %d runs ignored their cancellation: %v", len(keys), keys)
}

func within(done <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// armLocked sees to it that the one timer comes no later than the machine's earliest. It may come earlier: a key
// moves its slots with every run, and resetting the timer each time would cost more than a tick in vain.
func (s *Scheduler[K]) armLocked() {
	at := s.core.wakeAt()
	if at == 0 || !s.started || s.stopped || (s.armed != 0 && s.armed <= at) {
		return
	}
	s.armed = at
	wait := at.since(s.now())
	if s.timer == nil {
		s.timer = time.AfterFunc(wait, s.tick)
		return
	}
	s.timer.Reset(wait)
}

func (s *Scheduler[K]) tick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return
	}
	s.armed = 0
	s.core.fire(s.now())
	s.armLocked()
	s.callLocked()
}

// callLocked wakes a worker if one rests and there is work for it. One at a time: it calls the next.
func (s *Scheduler[K]) callLocked() {
	if s.resting > 0 && !s.waking && s.core.due > 0 && !s.core.paused {
		s.waking = true
		s.work.Signal()
	}
}
