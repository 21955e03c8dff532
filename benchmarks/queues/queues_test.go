package queues_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/scheduler"
	"github.com/evenkeel/evenkeel/timeline"
)

// batch is how many keys are due at a time where throughput is measured.
const batch = 10_000

type making func(testing.TB, int, func()) contender

// measured offers one event about each of a batch of keys, and waits for their runs.
func measured(t testing.TB, make making, workers int) (round func(), stop func()) {
	var left sync.WaitGroup
	c := make(t, workers, left.Done)
	all := keys(batch)
	round = func() {
		left.Add(len(all))
		for _, key := range all {
			c.offer(key)
		}
		left.Wait()
	}
	round() // after it, all keys are known
	return round, c.stop
}

func BenchmarkEvents(b *testing.B) {
	for _, workers := range []int{1, 16} {
		for _, c := range []struct {
			name string
			make making
		}{{"scheduler", newScheduler}, {"priorityqueue", newQueue}} {
			b.Run(fmt.Sprintf("%s/workers=%d", c.name, workers), func(b *testing.B) {
				round, stop := measured(b, c.make, workers)
				defer stop()
				b.ReportAllocs()
				for b.Loop() {
					round()
				}
				b.ReportMetric(float64(b.N*batch)/b.Elapsed().Seconds(), "events/s")
			})
		}
	}
}

// TestFigures prints how the scheduler fares; make bench runs it.
func TestFigures(t *testing.T) {
	if os.Getenv("EVENKEEL_FIGURES") == "" {
		t.Skip("it measures; set EVENKEEL_FIGURES=1, or run make bench")
	}
	one, many := throughput(t, 1), throughput(t, 16)
	fmt.Printf("figure scheduler_throughput_vs_priorityqueue %.2f\n", min(one, many))
	t.Logf("with 1 worker %.2f, with 16 %.2f", one, many)
	fmt.Printf("figure scheduler_allocs_per_event %.2f\n", allocations(t))
	fmt.Printf("figure idle_key_bytes %.0f\n", idleBytes(t, 240_000)) // where the map is nearly empty after growing
	p50, p99 := latency(t)
	fmt.Printf("figure event_to_run_p99_milliseconds_at_100k_pending %.3f\n", p99.Seconds()*1000)
	t.Logf("event to run, at 100k pending: p50 %v, p99 %v", p50, p99)
	millionPending(t)
}

// throughput is how many times the events of the queue the scheduler takes in the same time: the
// median of rounds that are run in turns.
func throughput(t *testing.T, workers int) float64 {
	ours, stop := measured(t, newScheduler, workers)
	defer stop()
	theirs, stopTheirs := measured(t, newQueue, workers)
	defer stopTheirs()
	timed := func(round func()) float64 {
		begin := time.Now()
		round()
		return float64(time.Since(begin))
	}
	ratios := make([]float64, 41)
	for i := range ratios {
		if i%2 == 0 {
			ratios[i] = 1 / (timed(ours) / timed(theirs))
		} else {
			ratios[i] = timed(theirs) / timed(ours)
		}
	}
	slices.Sort(ratios)
	return ratios[len(ratios)/2]
}

// allocations is how many there are from an event to the end of its run; the event's own, its
// cause, is made before.
func allocations(t *testing.T) float64 {
	var left sync.WaitGroup
	s, stop := offering(t, scheduler.Options[types.NamespacedName]{Concurrency: 1}, func() { left.Done() })
	defer stop()
	all := keys(batch)
	e := scheduler.Event{Cause: timeline.Manual{By: "benchmark"}}
	round := func() {
		left.Add(len(all))
		for _, key := range all {
			s.Offer(key, e)
		}
		left.Wait()
	}
	round()
	return testing.AllocsPerRun(5, round) / batch
}

func offering(t *testing.T, o scheduler.Options[types.NamespacedName], run func()) (*scheduler.Scheduler[types.NamespacedName], func()) {
	s, err := scheduler.New(func(context.Context, types.NamespacedName, scheduler.Run) scheduler.Result {
		run()
		return scheduler.Result{}
	}, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() { defer close(stopped); _ = s.Run(ctx) }()
	return s, func() { cancel(); <-stopped }
}

// idleBytes is the memory that a key takes which has run and now waits for its max interval. The
// text of the key is not part of it: it is the cache's.
func idleBytes(t *testing.T, n int) float64 {
	all := keys(n)
	before := heap()
	var left sync.WaitGroup
	left.Add(n)
	s, stop := offering(t, scheduler.Options[types.NamespacedName]{}, left.Done)
	e := scheduler.Event{Cause: timeline.Manual{By: "benchmark"}}
	for _, key := range all {
		s.Offer(key, e)
	}
	left.Wait()
	each := float64(heap()-before) / float64(n)
	for _, key := range all {
		s.Forget(key)
	}
	if n := s.Len(); n != 0 {
		t.Errorf("state for %d keys that are gone", n)
	}
	stop()
	return each
}

func heap() uint64 {
	var stats runtime.MemStats
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// latency is the time from a live event to the start of its run, while 100k keys of the initial
// list are due and 16 workers are busy with runs of a millisecond each, as they would be with
// requests.
func latency(t *testing.T) (p50, p99 time.Duration) {
	const pending, samples = 110_000, 1_000
	offered, took := make([]time.Time, samples), make([]time.Duration, samples)
	var left sync.WaitGroup
	left.Add(samples)
	s, err := scheduler.New(func(_ context.Context, key int, _ scheduler.Run) scheduler.Result {
		if key < samples {
			took[key] = time.Since(offered[key])
			left.Done()
		}
		time.Sleep(time.Millisecond) // stands for the request
		return scheduler.Result{}
	}, scheduler.Options[int]{Concurrency: 16})
	if err != nil {
		t.Fatal(err)
	}
	for i := range pending {
		s.Offer(samples+i, scheduler.Event{Cause: timeline.Manual{By: "list"}, Lane: scheduler.BulkLane})
	}
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() { defer close(stopped); _ = s.Run(ctx) }()
	every := time.NewTicker(500 * time.Microsecond)
	defer every.Stop()
	for i := range samples {
		<-every.C
		offered[i] = time.Now()
		s.Offer(i, scheduler.Event{Cause: timeline.Manual{By: "change"}})
	}
	left.Wait()
	if n := s.Len(); n < pending {
		t.Errorf("state for %d keys, want all", n)
	}
	cancel()
	<-stopped
	slices.Sort(took)
	return took[samples/2], took[samples*99/100]
}

// millionPending prints what a million due keys cost: the memory of each while nothing is run yet,
// without the key's text, and the time to take all in and then to run them with 16 workers. The
// peer's beside it.
func millionPending(t *testing.T) {
	all := keys(1_000_000)
	ours := pendingCost(t, all, pendingScheduler)
	theirs := pendingCost(t, all, pendingQueue)
	fmt.Printf("figure pending_million_bytes_per_key %.0f\n", ours.bytes)
	fmt.Printf("figure pending_million_seconds %.2f\n", ours.seconds())
	fmt.Printf("figure pending_million_bytes_vs_priorityqueue %.2f\n", ours.bytes/theirs.bytes)
	fmt.Printf("figure pending_million_seconds_vs_priorityqueue %.2f\n", ours.seconds()/theirs.seconds())
	t.Logf("10⁶ keys pending: ours %v, the peer's %v", ours, theirs)
}

// pending holds back what it is offered until start.
type pending struct {
	contender
	start func()
	len   func() int
}

type backlog struct {
	bytes       float64 // of each key
	taken, runs time.Duration
}

func (b backlog) seconds() float64 { return (b.taken + b.runs).Seconds() }

func (b backlog) String() string {
	return fmt.Sprintf("taken in within %v, %.0f bytes each, all run within %v", b.taken, b.bytes, b.runs)
}

func pendingCost(t *testing.T, all []types.NamespacedName, make func(*testing.T, func()) pending) (b backlog) {
	before := heap()
	var left sync.WaitGroup
	left.Add(len(all))
	p := make(t, left.Done)
	defer p.stop()
	begin := time.Now()
	for _, key := range all {
		p.offer(key)
	}
	if n := p.len(); n != len(all) {
		t.Errorf("%d keys are pending, want %d", n, len(all))
	}
	b.taken = time.Since(begin)
	b.bytes = float64(heap()-before) / float64(len(all))
	begin = time.Now()
	p.start()
	left.Wait()
	b.runs = time.Since(begin)
	return b
}

func pendingScheduler(t *testing.T, run func()) pending {
	s, err := scheduler.New(func(context.Context, types.NamespacedName, scheduler.Run) scheduler.Result {
		run()
		return scheduler.Result{}
	}, scheduler.Options[types.NamespacedName]{Concurrency: 16})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	e := scheduler.Event{Cause: timeline.Manual{By: "benchmark"}}
	return pending{
		contender: contender{
			offer: func(key types.NamespacedName) { s.Offer(key, e) },
			stop:  func() { cancel(); <-stopped },
		},
		start: func() { go func() { defer close(stopped); _ = s.Run(ctx) }() },
		len:   s.Len,
	}
}

func pendingQueue(_ *testing.T, run func()) pending {
	q, all := newPriorityQueue(), &sync.WaitGroup{}
	return pending{
		contender: contender{
			offer: func(key types.NamespacedName) { q.Add(key) },
			stop:  func() { q.ShutDown(); all.Wait() },
		},
		start: func() { work(q, all, 16, run) },
		len:   q.Len,
	}
}
