package contenders

import (
	"sync"
	"time"
)

// Tally takes in what a contender does. Reads are those of the author's code; only their duration
// counts.
type Tally struct {
	mu       sync.Mutex // guards everything below; a leaf
	runs     int
	running  int
	firstRun time.Time
	lastRun  time.Time // when the newest run began or ended
	longest  time.Duration
}

// Run notes that a run begins; call the returned function when it ends.
func (t *Tally) Run() (end func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.runs++
	t.running++
	t.lastRun = time.Now()
	if t.runs == 1 {
		t.firstRun = t.lastRun
	}
	return t.end
}

func (t *Tally) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running--
	t.lastRun = time.Now()
}

// Read notes that a read that began at start has ended.
func (t *Tally) Read(start time.Time) {
	took := time.Since(start)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.longest = max(t.longest, took)
}

// idleSince is when the last run ended; ok is false while one is under way.
func (t *Tally) idleSince() (since time.Time, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lastRun, t.running == 0
}
