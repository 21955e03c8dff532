package mutants

import (
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
)

var ofScenarios = flag.Bool("scenarios", false, "try every mutant on the scenarios of the samples alone, which takes an hour: make mutants BOARD=scenarios does")

var sample = flag.Int("sample", 1, "with -scenarios: try each n-th mutant alone")

// scenarios are the tests that an author would write: stories of the samples and of the interlock's
// example, with a fault at each point, and a few random walks.
var scenarios = []suite{
	{folder: "samples/prefixedpod", run: "^TestG11(Everywhere|EverywhereWithUnkindUsers|InRandomHistories)$"},
	{folder: "samples/webpage", run: "^(TestEverywhere|TestTheWorkflowAndPlainWritesPassRandomWalks)$"},
	{folder: "framework/interlock", run: "^TestTheExample(Everywhere|InRandomWalks)$"},
}

// TestScenariosOfTheSamples counts the mutants that an author would see who knows nothing of the
// library but its public API. Most cannot be seen in that way: the scenarios use a part of the
// library, and many rules are about other operators, real time, or what a user does wrong.
func TestScenariosOfTheSamples(t *testing.T) {
	if !*ofScenarios {
		t.Skip("takes an hour: run by make mutants BOARD=scenarios")
	}
	var mutants []mutant
	board := all()
	for i := 0; i < len(board); i += max(1, *sample) {
		board[i].kills = scenarios
		mutants = append(mutants, board[i])
	}
	b, err := newBoard(t.Context(), root(), t.TempDir(), keptFile(filepath.Join(root(), "bin", "scenario_mutants.json")), mutants)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range scenarios {
		if err := b.runSound(t.Context(), s, limit); err != nil {
			t.Fatalf("%s without a mutant: %v", s.folder, err)
		}
	}
	var tried, killed atomic.Int32
	each(slices.DeleteFunc(b.mutants, func(m mutant) bool { return b.alone[m.name] }), func(m mutant) {
		t.Run(m.name, func(t *testing.T) {
			r, _, err := b.settle(t.Context(), m)
			tried.Add(1)
			switch {
			case errors.Is(err, errSurvives):
				t.Log("is not seen")
			case err != nil:
				t.Logf("is not counted: %v", err)
			default:
				killed.Add(1)
				t.Logf("killed in %.1f s by %s", r.Seconds, r.Killer)
			}
		})
	})
	fmt.Printf("%d mutants of %d were tried on the scenarios, and %d killed\n", tried.Load(), len(board), killed.Load())
	if killed.Load() == 0 {
		t.Error("the scenarios notice nothing")
	}
}
