package frameworktest

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/evenkeel/evenkeel/frameworktest/internal/network"
)

const (
	// disturbed is how long a walk breaks things. It ends before the stories do, so that the operator
	// can get well.
	disturbed = 20 * time.Minute
	// maxDeaths of a process in one walk.
	maxDeaths = 3
	// maxCopies of the story in one walk.
	maxCopies = 3
)

// walk breaks things at random.
type walk struct {
	points []Point
	copies int
	late   spot // of watches, all or some
	often  int  // percent of the writes that break
	reads  bool // reads break, too
	elects bool

	mu     sync.Mutex // guards below
	random *rand.Rand
	deaths int
}

func newWalk(random *rand.Rand, points []Point, watched []string, copies int) *walk {
	w := &walk{random: random, points: slices.Clone(points)}
	w.copies = 1 + random.IntN(copies)
	w.often = []int{5, 15, 40}[random.IntN(3)]
	if slices.Contains(points, Late) {
		w.late.lag = []time.Duration{0, shortLag, longLag}[random.IntN(3)]
		if len(watched) > 1 && random.IntN(2) == 0 {
			w.late.of = watched[random.IntN(len(watched))]
		}
	}
	w.elects = slices.Contains(points, Rival) && random.IntN(4) == 0
	w.reads = slices.Contains(points, FailedRead)
	w.points = slices.DeleteFunc(w.points, func(p Point) bool { return !isAtWrite(p) || p == Rival && !w.elects })
	return w
}

func (w *walk) prepare(l *life) {
	l.elects = w.elects
	if w.late.lag > 0 {
		w.late.late(l)
	}
	l.plan = w.plan
}

// chance reports whether something happens that does so often, in percent.
func (w *walk) chance(percent int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.random.IntN(100) < percent
}

func (w *walk) upTo(d time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Duration(w.random.Int64N(int64(d)))
}

func (w *walk) plan(l *life, p *Process, r network.Request, a asked) network.Break {
	if a.read > 0 && w.reads && time.Since(l.started) <= disturbed && w.chance(w.often) {
		return l.breakAt(FailedRead, p, r)
	}
	if a.number == 0 || len(w.points) == 0 || time.Since(l.started) > disturbed || !w.chance(w.often) {
		return network.Break{}
	}
	w.mu.Lock()
	point := w.points[w.random.IntN(len(w.points))]
	if isDeath(point) {
		if w.deaths++; w.deaths > maxDeaths {
			point = LostAnswer
		}
	}
	w.mu.Unlock()
	if !slices.Contains(w.points, point) {
		return network.Break{}
	}
	return l.breakAt(point, p, r)
}

func isDeath(p Point) bool {
	return slices.Contains([]Point{CrashBefore, CrashCommitted, CrashAnswered, StaleServer, Rival}, p)
}

// stories tells the copies of the story at once, each in its own namespace.
func (w *walk) stories(ctx context.Context, l *life) {
	var telling sync.WaitGroup
	for _, name := range l.stories {
		world, err := l.newWorld(ctx, name)
		if err != nil {
			l.fail("%v", err)
			continue
		}
		world.hurry = func() bool {
			hurried := w.chance(50)
			if hurried {
				l.server.pass(w.upTo(10 * time.Second))
			}
			return hurried
		}
		telling.Go(func() {
			network.Sleep(ctx, w.upTo(30*time.Second))
			world.play()
		})
	}
	telling.Wait()
}
