package interlock

import (
	"math/rand/v2"
	"testing"

	"github.com/evenkeel/evenkeel/internal/depth"
)

// anything is a world with as much of everything as it holds: too large to be explored to its end,
// so it is walked through at random.
func anything(random *rand.Rand) scenario {
	return scenario{
		name: "two of each, everything may happen", providers: 2, dependents: 2, references: []set{none, first, second, both}, lag: all(2),
		left:          budget{providers: 4, dependents: 4, changes: 3, crashes: 2, losses: 2},
		bornUnguarded: random.IntN(2) == 0, cleansUpAlone: random.IntN(2) == 0, standsBy: random.IntN(2) == 0,
	}
}

// walks is how many there are in the default run.
const walks = 20_000

// TestG10InRandomOrders walks through two providers and two dependents, whose references change,
// with caches that are up to two changes behind, crashes, lost answers and late writes, each walk
// up to where nothing is left to happen.
func TestG10InRandomOrders(t *testing.T) {
	seed, n := uint64(0), depth.Of(walks/10, walks, 5_000_000)
	if depth.Long() {
		seed = rand.Uint64() // new ways
	}
	steps, quiets := 0, 0
	for i := range n {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		x := explore(anything(random), production())
		if found := x.walk(random); found != "" {
			t.Fatalf("seed %d, walk %d:\n%s", seed, i, found)
		}
		steps, quiets = steps+len(x.nodes), quiets+len(x.quiet)
	}
	t.Logf("%d walks of %d steps on average, with %d moments at which all was quiet", n, steps/n, quiets)
	if quiets < n {
		t.Error("not every walk has come to rest")
	}
}

// walk takes one step after the other at random until there is none. What must not be is returned
// as a transcript.
func (x *exploration) walk(random *rand.Rand) (counterexample string) {
	w := x.first()
	x.nodes = append(x.nodes[:0], trail{from: -1})
	for at := int32(0); ; at++ {
		if broken := x.judge(at, &w); broken != "" {
			return x.transcript(int(at)) + "VIOLATION: " + broken + "\n"
		}
		var can []action
		x.actions(&w, func(a action) { can = append(can, a) })
		if len(can) == 0 {
			return ""
		}
		a := can[random.IntN(len(can))]
		broken := x.do(&w, a)
		x.nodes = append(x.nodes, trail{at, a})
		if broken != "" {
			return x.transcript(len(x.nodes)-1) + "VIOLATION: " + broken + "\n"
		}
	}
}

// TestRandomOrdersFindMutants: what walks at random do not come across, they do not show. Of the
// mistakes that an exploration finds they find a third in as many walks as are made by default.
func TestRandomOrdersFindMutants(t *testing.T) {
	notRaced(t)
	for _, m := range mistakes() {
		if !m.common {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			r, found := production(), ""
			m.mutate(&r)
			for i := 0; i < walks && found == ""; i++ {
				random := rand.New(rand.NewPCG(0, uint64(i)))
				found = explore(anything(random), r).walk(random)
			}
			if found == "" {
				t.Errorf("not found in %d walks", walks)
			}
		})
	}
}
