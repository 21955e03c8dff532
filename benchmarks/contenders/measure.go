package contenders

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/benchmarks/wire"
)

// Conditions are those under which a contender is measured.
type Conditions struct {
	// Lag is how late watches deliver what happens after their first list.
	Lag time.Duration
	// Settle is how long nothing may happen, the lag on top, before it is taken to be over.
	Settle time.Duration
}

// Result is what one measurement found.
type Result struct {
	Objects int
	wire.Counts
	// Runs are calls of the author's code.
	Runs int
	// Wall is from the start of the first run to the answer that completed the last object. Tail is
	// how much longer it took until the last run had ended.
	Wall, Tail time.Duration
	// CPU is what the process used, user and system, from the making of clients and caches to the end
	// of the settling.
	CPU time.Duration
	// Peak is the most memory the process had resident since it began, Live what the garbage collector
	// left after the settling, with caches still alive; in bytes.
	Peak, Live uint64
	// Allocated is what was allocated meanwhile, in bytes, and Allocations how often: unlike CPU, they
	// bear a noisy machine.
	Allocated, Allocations uint64
	// LongestRead is of a single read of the author's code.
	LongestRead time.Duration
}

// Measure lets the contender work until all is done and nothing has happened for the settling time.
// It returns an error if the contender ends before, or ctx does. The config is not changed.
func Measure(ctx context.Context, contender Contender, config *rest.Config, task Task, conditions Conditions) (Result, error) {
	counter, tally := wire.NewCounter(task.Objects), &Tally{}
	config = rest.CopyConfig(config)
	config.QPS = -1 // the API server's priority and fairness rules, as both frameworks recommend
	config.Wrap(counter.Wrap)
	config.Wrap(wire.Lag(conditions.Lag).Wrap)

	running, stop := context.WithCancel(ctx)
	defer stop()
	before, err := cpuTime()
	if err != nil {
		return Result{}, err
	}
	allocations := memory()
	ended := make(chan error, 1)
	go func() { ended <- contender.run(running, config, task, tally) }()
	if err := await(ctx, counter, tally, conditions, ended); err != nil {
		counts := counter.Counts()
		return Result{}, fmt.Errorf("contenders: %s: %w, after %+v", contender.Name, err, counts)
	}
	after, err := cpuTime()
	if err != nil {
		return Result{}, err
	}
	result := Result{Objects: task.Objects, Counts: counter.Counts(), CPU: after - before}
	now := memory()
	result.Allocated, result.Allocations = now.TotalAlloc-allocations.TotalAlloc, now.Mallocs-allocations.Mallocs
	tally.report(&result, counter)
	if err := resident(&result); err != nil {
		return Result{}, err
	}
	stop()
	if err := <-ended; err != nil {
		return Result{}, fmt.Errorf("contenders: %s: stop: %w", contender.Name, err)
	}
	return result, nil
}

// await returns once everything is done and quiet.
func await(ctx context.Context, counter *wire.Counter, tally *Tally, conditions Conditions, ended <-chan error) error {
	started := time.Now()
	quiet := conditions.Settle + conditions.Lag
	timer := time.NewTimer(quiet)
	defer timer.Stop()
	done, ticks := counter.Done(), (<-chan time.Time)(nil)
	for {
		select {
		case <-done:
			done, ticks = nil, timer.C
		case <-ticks:
		case err := <-ended:
			return fmt.Errorf("it ended before it was done: %w", cmp.Or(err, errors.New("without a failure")))
		case <-ctx.Done():
			return ctx.Err()
		}
		since, idle := tally.idleSince()
		for _, other := range []time.Time{counter.LastWrite(), started} {
			if other.After(since) {
				since = other
			}
		}
		left := quiet - time.Since(since)
		if idle && left <= 0 {
			return nil
		}
		timer.Reset(max(left, quiet/10)) // a run under way says nothing when it ends
	}
}

func (t *Tally) report(result *Result, counter *wire.Counter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	result.Runs, result.LongestRead = t.runs, t.longest
	if t.runs > 0 {
		result.Wall = counter.DoneAt().Sub(t.firstRun)
		result.Tail = max(0, t.lastRun.Sub(counter.DoneAt()))
	}
}

func memory() (stats runtime.MemStats) {
	runtime.ReadMemStats(&stats)
	return stats
}

// resident reads memory; the peak first, as the collection that shows what lives may add to it.
func resident(result *Result) error {
	var err error
	if result.Peak, err = peakMemory(); err != nil {
		return err
	}
	runtime.GC()
	runtime.GC() // what the first one only finalized
	result.Live = memory().HeapAlloc
	return nil
}
