package interlocks

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"
)

const (
	// manyProviders have manyDependents together.
	manyProviders, manyDependents = 10, 1_000
	// rounds are how often what varies is measured.
	rounds = 3
)

// TestFigures prints what the package is about; make bench-compare runs it. It judges nothing.
func TestFigures(t *testing.T) {
	if os.Getenv("EVENKEEL_FIGURES") == "" {
		t.Skip("it measures; set EVENKEEL_FIGURES=1, or run make bench-compare")
	}
	t.Run("deletions", func(t *testing.T) {
		s := newServer(t)
		for _, dependents := range []int{1, 10, 100, 1_000} {
			lists, plain, asked := 0, 0, 0
			for range rounds {
				found := s.measureDeletion(dependents)
				t.Logf("a provider of %d dependents: %s, in %d runs of the guard", dependents, found.asked.per(1), found.runs)
				lists, plain, asked = lists+found.asked["list webpages"], plain+found.runs, asked+found.asked.all()
			}
			fmt.Printf("figure interlock_live_lists_per_provider_delete_n%d %.2f\n", dependents, float64(lists)/rounds)
			fmt.Printf("figure interlock_guard_runs_per_provider_delete_n%d %.2f\n", dependents, float64(plain)/rounds)
			fmt.Printf("figure interlock_guard_requests_per_provider_delete_n%d %.2f\n", dependents, float64(asked)/rounds)
		}
	})
	t.Run("lives", func(t *testing.T) {
		s := newServer(t)
		found := s.measureLives(manyProviders, manyDependents)
		t.Logf("per dependent, to be implemented: %s", found.implemented.per(manyDependents))
		t.Logf("per dependent, after a restart: %s", found.restarted.per(manyDependents))
		t.Logf("per dependent, to be deleted: %s", found.deleted.per(manyDependents))
		t.Logf("per provider, to be kept: %s", found.guarded.per(manyProviders))
		t.Logf("per provider, while dependents come: %s; and go: %s", found.guardMeanwhile.per(manyProviders), found.guardWhileDeleted.per(manyProviders))
		t.Logf("per provider, to go after its dependents: %s", found.released.per(manyProviders))
		figure := func(name string, n, of int) { fmt.Printf("figure interlock_%s %.3f\n", name, float64(n)/float64(of)) }
		figure("gets_per_dependent_at_100_per_provider", found.implemented["get configmaps"], manyDependents)
		figure("runs_per_dependent", found.runs, manyDependents)
		figure("claims_per_dependent", found.implemented["apply webpages"]+found.deleted["apply webpages"], manyDependents)
		figure("other_writes_per_dependent", found.implemented.writes()+found.deleted.writes()-found.implemented["apply webpages"]-found.deleted["apply webpages"], manyDependents)
		figure("reads_of_dependents_per_dependent", found.implemented["get webpages"]+found.deleted["get webpages"], manyDependents)
		figure("reads_of_dependents_per_dependent_after_restart", found.restarted["get webpages"], manyDependents)
		figure("gets_per_dependent_after_restart", found.restarted["get configmaps"], manyDependents)
		figure("writes_per_dependent_after_restart", found.restarted.writes(), manyDependents)
		figure("writes_per_provider", found.guarded.writes()+found.guardMeanwhile.writes()+found.guardWhileDeleted.writes()+found.released.writes(), manyProviders)
		figure("writes_per_provider_until_kept_with_policy", s.measureBorn(manyProviders).writes(), manyProviders)
		figure("live_lists_per_provider_without_dependents", found.released["list webpages"], manyProviders)
	})
	t.Run("start", func(t *testing.T) {
		s := newServer(t)
		var gated, ungated, ratios []float64
		for i := range rounds {
			var with, without time.Duration
			var asked requests
			if i%2 == 0 {
				with, asked = s.measureStart(true, manyProviders, manyDependents)
				without, _ = s.measureStart(false, manyProviders, manyDependents)
			} else {
				without, _ = s.measureStart(false, manyProviders, manyDependents)
				with, asked = s.measureStart(true, manyProviders, manyDependents)
			}
			t.Logf("round %d: %v with the gate, %v without; per dependent with it: %s", i+1, with, without, asked.per(manyDependents))
			gated, ungated = append(gated, with.Seconds()), append(ungated, without.Seconds())
			ratios = append(ratios, with.Seconds()/without.Seconds())
		}
		fmt.Printf("figure interlock_wall_milliseconds_per_dependent %.2f\n", median(gated)*1000/manyDependents)
		fmt.Printf("figure interlock_wall_milliseconds_per_dependent_without_gate %.2f\n", median(ungated)*1000/manyDependents)
		fmt.Printf("figure interlock_wall_vs_without_gate %.2f\n", median(ratios))
	})
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}
