package framework_test

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/evenkeel/evenkeel/internal/apimodel"
)

// weather is what a network does to the requests of instances, at random but repeatable.
type weather struct {
	mu        sync.Mutex // guards below
	rand      *rand.Rand
	instances []string
	now       map[string]apimodel.Fault
}

func newWeather(seed uint64, instances ...string) *weather {
	return &weather{rand: rand.New(rand.NewPCG(seed, 0)), instances: instances, now: map[string]apimodel.Fault{}}
}

// change lets one instance have other weather; others keep theirs.
func (w *weather) change() {
	w.mu.Lock()
	defer w.mu.Unlock()
	var next apimodel.Fault
	switch w.rand.IntN(6) {
	case 0:
		next.Drop = true
	case 1:
		next.Lose = true
	case 2:
		next.Delay = w.upToLocked(8 * time.Second)
	case 3:
		next.Linger = w.upToLocked(12 * time.Second)
	}
	w.now[w.instances[w.rand.IntN(len(w.instances))]] = next
}

func (w *weather) fault(instance string, r apimodel.Request) apimodel.Fault {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.Verb == "watch" || r.Verb == "discovery" {
		return apimodel.Fault{}
	}
	return w.now[instance]
}

// lasts is how long it stays as it is.
func (w *weather) lasts() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.upToLocked(20 * time.Second)
}

func (w *weather) upToLocked(d time.Duration) time.Duration {
	return time.Duration(w.rand.Int64N(int64(d)))
}
