package why

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/framework/health"
	"github.com/evenkeel/evenkeel/framework/workflow"
)

func nodeAfter(wave int, name string, dependsOn ...string) WorkflowNode {
	return WorkflowNode{Node: health.Node{Name: name, Wave: wave, DependsOn: dependsOn}}
}

// checkDrawing checks that boxes lie inside of the drawing and apart from each other, and that each
// line begins below its dependency and ends above its node.
func checkDrawing(t *testing.T, nodes []WorkflowNode) {
	t.Helper()
	d := draw(nodes)
	places := map[string]box{}
	for i, b := range d.Boxes {
		places[nodes[i].Name] = b
		if b.X < 0 || b.Y < 0 || b.X+b.Width > d.Width || b.Y+b.Height > d.Height {
			t.Errorf("%s at %d, %d is outside of %d × %d", nodes[i].Name, b.X, b.Y, d.Width, d.Height)
		}
		for j, other := range d.Boxes[:i] {
			if b.Y == other.Y && b.X < other.X+other.Width && other.X < b.X+b.Width {
				t.Errorf("%s covers %s", nodes[i].Name, nodes[j].Name)
			}
			if b.Y == other.Y != (nodes[i].Wave == nodes[j].Wave) {
				t.Errorf("%s and %s, of waves %d and %d, are at %d and %d", nodes[i].Name, nodes[j].Name, nodes[i].Wave, nodes[j].Wave, b.Y, other.Y)
			}
		}
	}
	drawn := 0
	for _, n := range nodes {
		for _, dependency := range n.DependsOn {
			from, to := places[dependency], places[n.Name]
			begins := fmt.Sprintf("^M%s %d[CV]", about(from.Middle()), from.Y+from.Height)
			ends := fmt.Sprintf(" %s %dm-4 -6l4 6l4 -6$", about(to.Middle()), to.Y)
			line := regexp.MustCompile(begins + ".*" + ends)
			if !slices.ContainsFunc(d.Lines, line.MatchString) {
				t.Errorf("no line from %s to %s: want %s in %q", dependency, n.Name, line, d.Lines)
			}
			drawn++
		}
	}
	if len(d.Lines) != drawn {
		t.Errorf("%d lines of %d", len(d.Lines), drawn)
	}
}

// about matches a number that is rounded.
func about(n int) string { return fmt.Sprintf("(%d|%d|%d)", n-1, n, n+1) }

func TestADrawingHasAPlaceForEachNodeAndALineForEachDependency(t *testing.T) {
	checkDrawing(t, []WorkflowNode{nodeAfter(0, "alone")})
	checkDrawing(t, []WorkflowNode{
		nodeAfter(0, "config"), nodeAfter(0, strings.Repeat("long", 20)), nodeAfter(0, "secret"),
		nodeAfter(1, "deployment", "config", "secret"), nodeAfter(2, "ingress", "deployment", "config"), nodeAfter(2, "job", "deployment"),
	})
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 0))
		var nodes []WorkflowNode
		for wave := range 1 + random.IntN(6) {
			before := len(nodes)
			for range 1 + random.IntN(5) {
				n := nodeAfter(wave, strconv.Itoa(len(nodes))+strings.Repeat("x", random.IntN(30)))
				for _, other := range nodes[:before] {
					if random.IntN(3) == 0 {
						n.DependsOn = append(n.DependsOn, other.Name)
					}
				}
				nodes = append(nodes, n)
			}
		}
		checkDrawing(t, nodes)
	}
}

// A row of three that hang on each other one by one needs no crossing.
func TestADrawingOrdersARowByItsNeighbours(t *testing.T) {
	d := draw([]WorkflowNode{
		nodeAfter(0, "a"), nodeAfter(0, "b"), nodeAfter(0, "c"),
		nodeAfter(1, "of c", "c"), nodeAfter(1, "of b", "b"), nodeAfter(1, "of a", "a"),
	})
	for i := range 3 {
		if above, below := d.Boxes[i].Middle(), d.Boxes[5-i].Middle(); above != below {
			t.Errorf("box %d is at %d, its dependent at %d", i, above, below)
		}
	}
}

func TestADrawingSurvivesWhatNoWorkflowIs(t *testing.T) {
	if draw(nil) != nil {
		t.Error("a drawing of nothing")
	}
	d := draw([]WorkflowNode{nodeAfter(3, "late", "nobody", "late", "later"), nodeAfter(3, "later")})
	if len(d.Boxes) != 2 || len(d.Lines) != 0 {
		t.Errorf("%+v", d)
	}
}

func TestEachStateHasALookOfItsOwn(t *testing.T) {
	for state := workflow.Cancelled; state <= workflow.Left; state++ {
		b := boxOf(WorkflowNode{Node: health.Node{Name: "web"}, State: state.String(), Reason: "so"})
		if looks[state.String()].class == "" || !strings.HasSuffix(b.Below, " "+state.String()) || b.Title != "web: "+state.String()+": so" {
			t.Errorf("%s: %+v", state, b)
		}
	}
	if b := boxOf(WorkflowNode{State: "Unheard"}); b.Below != "Unheard" || b.Class != "idle" {
		t.Errorf("%+v", b)
	}
}
