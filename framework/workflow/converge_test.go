package workflow_test

import (
	"context"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/framework/workflow"
)

// calm ends the failures: active and wanted nodes stay so, and nodes that take time are ready after
// some passes. It returns how many passes the slowest order would take.
func (w *world) calm(t *rapid.T) (passes int) {
	for _, n := range w.nodes {
		n.lag = map[string]int{}
		for _, what := range []string{"reconcile", "delete", "deactivate", "activate", "ready", "gone"} {
			n.does[what] = "yes"
		}
		for _, what := range []string{"activate", "ready", "gone"} {
			n.lag[what] = rapid.IntRange(0, 2).Draw(t, "lag")
			passes += n.lag[what]
		}
		for _, what := range []string{"active", "wanted"} {
			n.does[what] = "yes"
			if rare(t, 6, what) {
				n.does[what] = "no"
			}
		}
	}
	return passes + 1
}

// wanted reports whether a node should exist once all is calm. told is false if the workflow does
// not decide that.
func (w *world) wanted(i int) (yes, told bool) {
	n := w.nodes[i]
	active := !n.has["active"] || n.does["active"] == "yes"
	yes = active && (!n.has["wanted"] || n.does["wanted"] == "yes")
	for _, needed := range n.needs {
		there, _ := w.wanted(needed)
		yes = yes && there
	}
	return yes, !n.readonly && (active || n.deleteInactive)
}

// TestModel_C102_Converges plays storms of failures, then calm. Passes go on, each because
// something has changed, until the result is ready. Then all wanted nodes exist, the others are
// gone, and a further pass changes nothing. In the end, a cleanup completes after as few passes,
// and nothing is left.
func TestModel_C102_Converges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(bubbled{t}, func(t *rapid.T) {
			w := drawWorld(t)
			g, err := w.graph()
			if err != nil {
				t.Fatal(err)
			}
			for range rapid.IntRange(0, 2).Draw(t, "storms") {
				w.drawPass(t)
				w.pass(context.Background(), t, g, rare(t, 3, "cleanup"))
			}
			w.drawPass(t)
			bound := w.calm(t)
			result := w.passUntil(t, g, bound, false)
			if again := w.pass(context.Background(), t, g, false); again.String() != result.String() {
				t.Fatalf("at rest, a further pass comes to %v after %v", again, result)
			}
			for i := range w.nodes {
				if want, told := w.wanted(i); told && w.exists[i] != want {
					t.Fatalf("node %d is there: %v, want %v\n%v", i, w.exists[i], want, result)
				}
			}
			result = w.passUntil(t, g, bound, true)
			for i := range w.exists {
				s := result.Nodes[i].State
				if !w.nodes[i].readonly && s != workflow.Left && s != workflow.Inactive {
					t.Fatalf("node %d is still there\n%v", i, result)
				}
			}
		})
	})
}

// passUntil runs passes until one is complete.
func (w *world) passUntil(t *rapid.T, g *workflow.Graph[*world], bound int, cleanup bool) *workflow.Result {
	for range bound {
		result := w.pass(context.Background(), t, g, cleanup)
		if err := result.Err(); err != nil {
			t.Fatalf("fails when all is calm: %v", err)
		}
		if result.Ready() || result.Gone() {
			return result
		}
	}
	t.Fatalf("is not complete after %d passes", bound)
	return nil
}
