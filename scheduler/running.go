package scheduler

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Run runs due keys until ctx ends. Then no further run starts. Runs in flight may finish within
// the grace period, then their contexts are cancelled, and Run returns when they have returned. It
// returns nil, or an error that names the keys whose runs ignored their cancellation for 10 s. It
// must be called only once.
func (s *Scheduler[K]) Run(ctx context.Context) error {
	// Runs outlive ctx by the grace period, so they inherit only its values.
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
		s.scope = newRunScope(runs)
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

// armLocked sets the timer so that it fires no later than the machine's earliest slot. It may fire
// earlier: slots move with every run, and resetting the timer each time would cost more than a
// needless tick.
func (s *Scheduler[K]) armLocked() {
	at := s.core.timers.earliest()
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

// callLocked wakes a worker if one is waiting and there is work. It wakes one at a time; that
// worker wakes the next.
func (s *Scheduler[K]) callLocked() {
	if s.resting > 0 && !s.waking && s.core.lanes.due > 0 && !s.core.paused {
		s.waking = true
		s.work.Signal()
	}
}
