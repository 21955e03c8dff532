package workflow_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/framework/workflow"
)

// thicket is the text of a random graph, in which everything that can happen does.
func thicket(random *rand.Rand, size int) string {
	var text []string
	for i := range size {
		var needs []string
		for j := max(0, i-10); j < i; j++ {
			if random.IntN(5) == 0 {
				needs = append(needs, fmt.Sprint("n", j))
			}
		}
		word := fmt.Sprint("n", i)
		if len(needs) > 0 {
			word += "<" + strings.Join(needs, "+")
		}
		var settings []string
		for _, rare := range []string{
			"reconcile=error", "reconcile=panic", "delete=error", "wanted=no", "wanted=error", "ready=no", "gone=no", "gone=error",
			"active=no", "activate=no", "deactivate=error", "readonly",
		} {
			if random.IntN(60) == 0 {
				settings = append(settings, rare)
			}
		}
		for _, common := range []string{"wanted=yes", "ready=yes", "gone=yes", "active=yes", "activate=yes", "deactivate=yes"} {
			what, _, _ := strings.Cut(common, "=")
			if random.IntN(3) == 0 && !slices.ContainsFunc(settings, func(s string) bool { return strings.HasPrefix(s, what) }) {
				settings = append(settings, common)
			}
		}
		text = append(text, word+"["+strings.Join(settings, ",")+"]")
	}
	return strings.Join(text, " ")
}

// TestTheResultDoesNotDependOnTheWidth runs random graphs with one goroutine and with many, by the
// scheduler of Go and not in virtual time: states, reasons and calls are the same.
func TestTheResultDoesNotDependOnTheWidth(t *testing.T) {
	for seed := range uint64(100) {
		text := thicket(rand.New(rand.NewPCG(seed, 0)), 60)
		var want []string
		for _, concurrency := range []int{1, 2, 5, 100} {
			g := graph(t, scripted(text), concurrency)
			var got []string
			for _, pass := range []func() (*workflow.Result, *calls){
				func() (*workflow.Result, *calls) { var c calls; return g.Reconcile(t.Context(), &c), &c },
				func() (*workflow.Result, *calls) { var c calls; return g.Cleanup(t.Context(), &c), &c },
			} {
				result, c := pass()
				slices.Sort(c.made)
				got = append(got, result.Mermaid(), fmt.Sprint(result.Err()), fmt.Sprint(result.Summary(nil)), strings.Join(c.made, " "))
			}
			if want == nil {
				want = got
			}
			for i := range want {
				if got[i] != want[i] {
					t.Fatalf("seed %d, concurrency %d:\n%s\ndiffers from\n%s\nof\n%s", seed, concurrency, got[i], want[i], text)
				}
			}
		}
	}
}
