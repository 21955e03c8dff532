package run

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework/internal/contest"
	"github.com/evenkeel/evenkeel/framework/internal/write"
	"github.com/evenkeel/evenkeel/framework/workflow"
	"github.com/evenkeel/evenkeel/trc"
)

// TestG16StatesAreAsThoughEachFactHadAMapOfItsOwn compares the states with an oracle of one map for
// each fact, after random changes.
func TestG16StatesAreAsThoughEachFactHadAMapOfItsOwn(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 16))
		var states primaryStates
		unresolved, leftOver, released := map[incarnation]types.UID{}, map[trc.Key]types.UID{}, map[trc.Key]types.UID{}
		loops, results := map[trc.Key]int{}, map[trc.Key]*workflow.Result{}
		for range 300 {
			key := trc.Key{Namespace: "n", Name: string(rune('a' + random.IntN(3)))}
			of := incarnation{key, types.UID(rune('0' + random.IntN(3)))}
			switch random.IntN(10) {
			case 0:
				states.keepUnresolved(of, write.Leftovers{UID: of.uid})
				unresolved[of] = of.uid
			case 1:
				left, any := states.takeUnresolved(of)
				if want, has := unresolved[of]; any != has || left.UID != want {
					t.Fatalf("seed %d: took %q, %v of %v, want %q, %v", seed, left.UID, any, of, want, has)
				}
				delete(unresolved, of)
			case 2:
				states.change(key, func(s *primaryState) { s.leftOver = of.uid })
				leftOver[key] = of.uid
			case 3:
				states.change(key, func(s *primaryState) { s.released = of.uid })
				released[key] = of.uid
			case 4:
				states.look(key, func(s *primaryState) { s.released = "" })
				delete(released, key)
			case 5:
				states.endRun(key, contest.Place{Runs: loops[key] + 1}, false, true, nil)
				loops[key]++
			case 6:
				states.endRun(key, contest.Place{Runs: loops[key] + 1}, false, false, nil)
				delete(loops, key)
			case 7:
				result := &workflow.Result{}
				states.change(key, func(s *primaryState) { s.result = result })
				results[key] = result
			case 8:
				states.letGo(key)
				delete(leftOver, key)
				delete(loops, key)
				delete(results, key)
			case 9:
				next := []types.UID{"", of.uid}[random.IntN(2)] // who has the name then
				states.forget(key, next)
				maps.DeleteFunc(unresolved, func(other incarnation, _ types.UID) bool { return other.key == key && other.uid != next })
				for _, all := range []map[trc.Key]types.UID{leftOver, released} {
					delete(all, key)
				}
				delete(loops, key)
				delete(results, key)
			}
			known := map[trc.Key]bool{}
			for of := range unresolved {
				known[of.key] = true
			}
			for _, keys := range [][]trc.Key{
				slices.Collect(maps.Keys(leftOver)), slices.Collect(maps.Keys(released)),
				slices.Collect(maps.Keys(loops)), slices.Collect(maps.Keys(results)),
			} {
				for _, key := range keys {
					known[key] = true
				}
			}
			if states.some.Load() != (len(known) > 0) || len(states.byKey) != len(known) {
				t.Fatalf("seed %d: %d states are kept, some %v, want those of %v", seed, len(states.byKey), states.some.Load(), known)
			}
			if n := len(states.incarnations()); n != len(unresolved) {
				t.Fatalf("seed %d: unresolved writes of %d incarnations, want %d", seed, n, len(unresolved))
			}
			states.all(func(key trc.Key, s *primaryState) {
				runs := 0
				if s.loop != nil {
					runs = s.loop.next.Runs
				}
				if s.leftOver != leftOver[key] || s.released != released[key] || runs != loops[key] || s.result != results[key] {
					t.Fatalf("seed %d: %v has %+v", seed, key, s)
				}
			})
		}
	}
}
