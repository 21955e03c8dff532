package scheduler_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/internal/depth"
	"github.com/evenkeel/evenkeel/retry"
	"github.com/evenkeel/evenkeel/scheduler"
	"github.com/evenkeel/evenkeel/timeline"
)

// rounds times 100 histories of 30 steps on average.
func rounds() int { return depth.Of(35, 100, 1000) }

// TestModel_G06_G07_G08_G16 plays random histories in virtual time and compares the scheduler after
// every step with a naive oracle: every run begins exactly when it is due, with the right causes,
// no other run begins, and no other key has state.
func TestModel_G06_G07_G08_G16(t *testing.T) {
	steps, runs := 0, 0
	for range rounds() {
		rapid.Check(t, func(r *rapid.T) {
			var failure any
			synctest.Test(t, func(t *testing.T) {
				// A failure of rapid's is a panic, which must not leave the bubble by itself.
				defer func() { failure = recover() }()
				took, began := randomHistory(r)
				steps, runs = steps+took, runs+began
			})
			if failure != nil {
				panic(failure)
			}
		})
	}
	t.Logf("%d steps, %d runs", steps, runs)
	if runs < steps/10 {
		t.Errorf("only %d runs in %d steps: the histories show little", runs, steps)
	}
}

// world is a scheduler beside its oracle.
type world struct {
	*scheduler.Scheduler[string]
	oracle   *oracle
	stop     context.CancelFunc
	stopped  chan error
	pauses   []*modelPause
	runs     int  // that have begun
	needless int  // events that need no run
	loops    bool // runs ask for a further one at once

	mu       sync.Mutex
	inFlight map[string]chan scheduler.Result
	started  []started
	double   string // a key that ran twice at a time
}

// started is a run that the scheduler began.
type started struct {
	key string
	at  time.Time
	run scheduler.Run
}

// modelPause is a call of Pause that has not returned.
type modelPause struct {
	at       time.Time
	runs     []string // that it waits for
	returned chan error
}

var (
	names   = []string{"a", "b", "c", stubborn}
	errBusy = errors.New("busy")
)

// stubborn is a key whose runs ignore their cancellation.
const stubborn = "stubborn"

func randomHistory(t *rapid.T) (steps, runs int) {
	w := newWorld(t)
	defer w.release()
	sleep := func(t *rapid.T) {
		w.sleep(t, rapid.SampledFrom([]time.Duration{time.Millisecond, 30 * time.Millisecond, time.Second, 5 * time.Second, time.Minute, time.Hour}).Draw(t, "sleep"))
	}
	action := func(f func(*rapid.T)) func(*rapid.T) {
		return func(t *rapid.T) {
			steps++
			w.sleep(t, time.Microsecond) // so that no two keys ever wait for the same moment
			f(t)
			w.compare(t)
		}
	}
	t.Repeat(map[string]func(*rapid.T){
		"offer": action(w.offer), "offerAgain": action(w.offer), "flood": action(w.flood),
		"end": action(w.end), "endAgain": action(w.end), "endOnceMore": action(w.end),
		"forget": action(w.forget), "pause": action(w.pause), "resume": action(w.resume), "resumeAgain": action(w.resume),
		"sleep": action(sleep), "sleepAgain": action(sleep),
	})
	w.close(t)
	return steps, w.runs
}

func newWorld(t *rapid.T) *world {
	policy := retry.Policy{
		Initial: time.Second, Factor: 2, Max: 8 * time.Second, Jitter: retry.NoJitter,
		MaxAttempts: rapid.SampledFrom([]int{0, 2, retry.NoRetry}).Draw(t, "attempts"),
		Classify: func(err error) retry.Verdict {
			if errors.Is(err, errBusy) {
				return retry.Verdict{NotBefore: 4300 * time.Millisecond}
			}
			return retry.Verdict{}
		},
	}
	o := &oracle{
		now: time.Now(), policy: policy, keys: map[string]*modelKey{}, failing: map[string]bool{},
		maxInterval: rapid.SampledFrom([]time.Duration{scheduler.NoMaxInterval, time.Hour}).Draw(t, "interval"),
		limit:       rapid.SampledFrom([]scheduler.RateLimit{{}, {Runs: 2, Period: 7003 * time.Millisecond}}).Draw(t, "limit"),
		workers:     rapid.IntRange(1, 3).Draw(t, "workers"),
	}
	w := &world{oracle: o, inFlight: map[string]chan scheduler.Result{}, stopped: make(chan error, 1)}
	w.loops = rapid.IntRange(0, 9).Draw(t, "loops") == 0
	s, err := scheduler.New(w.run, scheduler.Options[string]{
		Concurrency: o.workers, Retry: policy, MaxInterval: o.maxInterval, RateLimit: o.limit, Grace: -1,
		Decide: func(_ string, c timeline.Cause) bool { return c != own },
	})
	if err != nil {
		t.Fatal(err)
	}
	s.ExactIntervals()
	w.Scheduler = s
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	if rapid.Bool().Draw(t, "pausedAtFirst") {
		w.pause(t)
	}
	go func() { w.stopped <- s.Run(ctx) }()
	return w
}

// run is the scheduler's function: it lasts until the test ends it, or it is cancelled.
func (w *world) run(ctx context.Context, key string, r scheduler.Run) scheduler.Result {
	end := make(chan scheduler.Result, 1)
	w.mu.Lock()
	if w.inFlight[key] != nil {
		w.double = key
	}
	w.inFlight[key] = end
	w.started = append(w.started, started{key, time.Now(), r})
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		delete(w.inFlight, key)
		w.mu.Unlock()
	}()
	cancelled := ctx.Done()
	if key == stubborn {
		cancelled = nil
	}
	select {
	case result := <-end:
		if result.Err == errPanic {
			panic(result.Err)
		}
		return result
	case <-cancelled:
		return whenCancelled(key)
	}
}

// whenCancelled is how runs end that are cancelled: some fail, some do not care.
func whenCancelled(key string) scheduler.Result {
	switch key {
	case "a":
		return scheduler.Result{Err: context.Canceled}
	case "b":
		return scheduler.Result{RescheduleAfter: 90 * time.Second}
	}
	return scheduler.Result{Superseded: true}
}

var errPanic = errors.New("panic")

func (w *world) offer(t *rapid.T) {
	e := rapid.SampledFrom([]scheduler.Event{
		event(), event(), renewal(), {Cause: timeline.Manual{By: "bulk"}, Lane: scheduler.BulkLane}, {Cause: own, Renews: true},
	}).Draw(t, "event")
	w.offerThat(rapid.SampledFrom(names).Draw(t, "key"), e)
}

func (w *world) offerThat(key string, e scheduler.Event) {
	w.Offer(key, e)
	if e.Cause == own {
		w.needless++
		return
	}
	w.oracle.offer(key, e)
}

func (w *world) flood(t *rapid.T) {
	key := rapid.SampledFrom(names).Draw(t, "key")
	if k := w.oracle.keys[key]; k == nil || !k.running {
		t.Skip("a flood shows most while its key runs")
	}
	for range rapid.IntRange(60, 70).Draw(t, "events") {
		w.offerThat(key, event())
	}
	w.offerThat(key, renewal())
}

func (w *world) forget(t *rapid.T) {
	key := rapid.SampledFrom(names).Draw(t, "key")
	w.Forget(key)
	w.oracle.forget(key)
}

func (w *world) running() []string {
	var running []string
	for _, key := range names {
		if k := w.oracle.keys[key]; k != nil && k.running {
			running = append(running, key)
		}
	}
	return running
}

func (w *world) end(t *rapid.T) {
	running := w.running()
	if len(running) == 0 {
		t.Skip("nothing runs")
	}
	key := rapid.SampledFrom(running).Draw(t, "key")
	r := rapid.SampledFrom([]scheduler.Result{
		{},
		{},
		{RescheduleAfter: time.Millisecond},
		{Superseded: true},
		{Gone: true},
		{Err: errBroken},
		{Err: errBroken},
		{Err: errPanic},
		{Err: errBusy},
		{Err: retry.Final(errBroken)},
		{Err: retry.After(errBroken, 0)},
		{Err: retry.After(errBroken, 700*time.Millisecond)},
		{Err: retry.After(errBroken, 2500*time.Millisecond)},
	}).Draw(t, "result")
	if r.Err != errPanic {
		r.RescheduleAfter = rapid.SampledFrom([]time.Duration{r.RescheduleAfter, r.RescheduleAfter, r.RescheduleAfter, 1500 * time.Millisecond, 20 * time.Second}).Draw(t, "after")
		r.RescheduleNow = rapid.IntRange(0, 5).Draw(t, "now") == 0 || w.loops
		r.Rest = rapid.SampledFrom([]time.Duration{0, 0, 0, 0, 3700 * time.Millisecond}).Draw(t, "rest")
	}
	w.endThat(key, r)
}

func (w *world) endThat(key string, r scheduler.Result) {
	w.mu.Lock()
	w.inFlight[key] <- r
	w.mu.Unlock()
	synctest.Wait()
	w.oracle.end(key, r)
}

func (w *world) pause(*rapid.T) {
	p := &modelPause{at: w.oracle.now, runs: w.running(), returned: make(chan error, 1)}
	go func() { p.returned <- w.Pause() }()
	synctest.Wait()
	w.pauses = append(w.pauses, p)
	w.oracle.paused = true
	for _, key := range p.runs {
		k := w.oracle.keys[key]
		if k.cutOff = true; key != stubborn {
			w.oracle.end(key, whenCancelled(key))
		}
	}
}

func (w *world) resume(*rapid.T) {
	w.Resume()
	w.oracle.paused = false
}

// sleep lets time pass, from one moment at which something is due to the next.
func (w *world) sleep(t *rapid.T, d time.Duration) {
	target := w.oracle.now.Add(d)
	for {
		at, ok := w.oracle.next()
		for _, p := range w.pauses {
			if end := p.at.Add(10 * time.Second); !ok || end.Before(at) {
				at, ok = end, true
			}
		}
		if !ok || at.After(target) || w.oracle.stopped {
			at = target
		}
		time.Sleep(time.Until(at))
		w.oracle.advance(at)
		w.compare(t)
		if at.Equal(target) {
			return
		}
	}
}

// close stops the scheduler at any moment, and checks that no further run begins.
func (w *world) close(t *rapid.T) {
	w.stop()
	w.oracle.stopped = true
	synctest.Wait()
	for _, key := range w.running() {
		if key == stubborn {
			w.endThat(key, scheduler.Result{})
		}
		w.oracle.keys[key].running = false
	}
	synctest.Wait()
	select {
	case err := <-w.stopped:
		if err != nil {
			t.Fatalf("Run returned %v", err)
		}
	default:
		t.Fatal("Run has not returned, though nothing is in flight")
	}
	w.offer(t)
	w.resume(t)
	w.sleep(t, 24*time.Hour)
}

// release lets everything end, so that the bubble can.
func (w *world) release() {
	w.stop()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, end := range w.inFlight {
		select {
		case end <- scheduler.Result{}:
		default:
		}
	}
}
