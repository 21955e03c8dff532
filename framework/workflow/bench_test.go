package workflow_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/evenkeel/evenkeel/framework/workflow"
)

// benchmarked returns graphs of nodes that do nothing, to measure the cost of a pass itself.
func benchmarked() map[string][]workflow.Node[int] {
	ready := func(context.Context, int) (workflow.Verdict, error) { return workflow.Met(), nil }
	five := []workflow.Node[int]{
		node("config", nothing), node("secret", nothing), node("deployment", nothing, "config", "secret"),
		node("service", nothing, "deployment"), node("ingress", nothing, "service"),
	}
	five[2].ReadyPostcondition, five[4].ReconcilePrecondition = ready, ready
	var chain, wide, layers []workflow.Node[int]
	for i := range 100 {
		chain = append(chain, node(fmt.Sprint("n", i), nothing))
		wide = append(wide, node(fmt.Sprint("n", i), nothing))
		layers = append(layers, node(fmt.Sprint("n", i), nothing))
		if i > 0 {
			chain[i].DependsOn = []string{chain[i-1].Name}
		}
		for j := range min(10, i-i%10) { // layers of ten, each depends on the one before
			layers[i].DependsOn = append(layers[i].DependsOn, layers[i-i%10-10+j].Name)
		}
	}
	return map[string][]workflow.Node[int]{"5 nodes": five, "100 in a chain": chain, "100 side by side": wide, "100 in 10 layers": layers}
}

func BenchmarkPass(b *testing.B) {
	for name, nodes := range benchmarked() {
		for _, concurrency := range []int{1, workflow.DefaultConcurrency} {
			g := graph(b, nodes, concurrency)
			b.Run(fmt.Sprintf("%s/concurrency %d", name, concurrency), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if !g.Reconcile(b.Context(), 0).Ready() {
						b.Fatal("not ready")
					}
				}
			})
		}
	}
}

func BenchmarkNew(b *testing.B) {
	for name, nodes := range benchmarked() {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				graph(b, nodes, 0)
			}
		})
	}
}

// TestAPassOfFiveNodesAllocatesLittle caps what every run of every primary pays.
func TestAPassOfFiveNodesAllocatesLittle(t *testing.T) {
	g := graph(t, benchmarked()["5 nodes"], 1)
	if got := testing.AllocsPerRun(100, func() { g.Reconcile(t.Context(), 0) }); got > 12 {
		t.Errorf("%v allocations", got)
	}
}
