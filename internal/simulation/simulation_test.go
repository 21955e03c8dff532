package simulation

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/evenkeel/evenkeel/internal/depth"
)

// rare are seeds whose worlds show a mutant that few worlds show (internal/mutants).
var rare = []uint64{328, 456, 520}

// TestG01ToG19HoldInEveryWorld makes a world of each seed. SIMULATION_SEED=n repeats one,
// SIMULATION_SEEDS=n makes n of them; given both, it makes so many from that one on.
func TestG01ToG19HoldInEveryWorld(t *testing.T) {
	first, seeds := uint64(0), depth.Of(uint64(25), 200, 1000)
	if given := os.Getenv("SIMULATION_SEED"); given != "" {
		first, seeds = number(t, given), 1
	}
	if given := os.Getenv("SIMULATION_SEEDS"); given != "" {
		seeds = number(t, given)
	}
	all := map[uint64]bool{}
	for seed := first; seed < first+seeds; seed++ {
		all[seed] = true
	}
	if os.Getenv("SIMULATION_SEED") == "" {
		for _, seed := range rare {
			all[seed] = true
		}
	}
	for _, seed := range slices.Sorted(maps.Keys(all)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			simulate(t, seed, seeds == 1 && testing.Verbose())
		})
	}
}

func number(t *testing.T, text string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(text, 10, 64)
	noError(t, err)
	return n
}

// simulate makes the world of a seed, and tells its requests and runs if it is to. A goroutine that
// it leaves behind ends the bubble in a panic (G16).
func simulate(t *testing.T, seed uint64, traced bool) {
	defer func() {
		if r := recover(); r != nil {
			panic(fmt.Sprintf("SIMULATION_SEED=%d: %v", seed, r))
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, seed)
		w.traced = traced
		w.live()
		t.Logf("%+v: %d commits, %d runs", w.plan, w.writes(), len(w.witness.visits))
		if problems := w.witness.problems; len(problems) > 0 {
			t.Errorf("SIMULATION_SEED=%d: %+v\n%s", seed, w.plan, strings.Join(problems[:min(3, len(problems))], "\n"))
		}
	})
}
