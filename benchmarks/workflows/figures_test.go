package workflows

import (
	"fmt"
	"os"
	"slices"
	"testing"
)

const (
	// manyPages have five dependents each.
	manyPages = 1_000
	// rounds of each contender take turns; in each, some pages become ready at a time.
	rounds, pagesOfRound = 9, 5
)

// TestFigures prints what the package is about; make bench-compare runs it. It judges nothing.
func TestFigures(t *testing.T) {
	if os.Getenv("EVENKEEL_FIGURES") == "" {
		t.Skip("it measures; set EVENKEEL_FIGURES=1, or run make bench-compare")
	}
	t.Run("steady", func(t *testing.T) {
		found := measureSteady(t, manyPages)
		t.Logf("%d pages of %d dependents: a resync asked %+v; %d edits %+v; a restart %+v in %d runs, which changed %d objects",
			manyPages, len(edits), found.resync, found.edits, found.edited, found.restart, found.restartRuns, len(found.changed))
		fmt.Printf("figure steady_state_write_requests %d\n", found.resync.Writes)
		fmt.Printf("figure steady_state_read_requests %d\n", found.resync.Reads)
		fmt.Printf("figure restart_changing_writes %d\n", len(found.changed))
		fmt.Printf("figure foreign_edit_write_requests %.2f\n", float64(found.edited.Writes)/float64(found.edits))
	})
	t.Run("ready", func(t *testing.T) {
		p := newPlane(t)
		var ours, theirs, ratios, ourWrites, theirWrites []float64
		for i := range rounds {
			var a, b taken
			if i%2 == 0 {
				a, b = p.round(startChain, pagesOfRound), p.round(startHandwritten, pagesOfRound)
			} else {
				b, a = p.round(startHandwritten, pagesOfRound), p.round(startChain, pagesOfRound)
			}
			ours, theirs, ratios = append(ours, a.seconds()), append(theirs, b.seconds()), append(ratios, a.seconds()/b.seconds())
			ourWrites, theirWrites = append(ourWrites, a.writes), append(theirWrites, b.writes)
			t.Logf("round %d: ours %.2f s and %.1f writes, by hand %.2f s and %.1f writes", i+1, a.seconds(), a.writes, b.seconds(), b.writes)
		}
		t.Logf("five levels, three Deployments: ready after %.2f s, by hand %.2f s (medians of %d rounds)", median(ours), median(theirs), rounds)
		fmt.Printf("figure workflow_ready_vs_handwritten %.2f\n", median(ratios))
		fmt.Printf("figure workflow_writes_per_page %.1f\n", median(ourWrites))
		fmt.Printf("figure workflow_writes_per_page_handwritten %.1f\n", median(theirWrites))
	})
}

// seconds is the median of a round.
func (t taken) seconds() float64 {
	all := make([]float64, len(t.each))
	for i, d := range t.each {
		all[i] = d.Seconds()
	}
	return median(all)
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}
