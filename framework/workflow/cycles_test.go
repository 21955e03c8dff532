package workflow_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/framework/workflow"
)

// TestModel_C102_Cycles draws graphs with edges in any direction. A graph is refused if a node
// reaches itself, and the error names a cycle that exists. In all others, the plan has every node
// after its dependencies.
func TestModel_C102_Cycles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 8).Draw(t, "nodes")
		needs := make([][]bool, size)
		reaches := make([][]bool, size)
		nodes := make([]workflow.Node[int], size)
		for i := range size {
			needs[i], reaches[i] = make([]bool, size), make([]bool, size)
			nodes[i] = node(fmt.Sprint(i), nothing)
			for j := range size {
				if rare(t, 6, "edge") {
					needs[i][j], reaches[i][j] = true, true
					nodes[i].DependsOn = append(nodes[i].DependsOn, fmt.Sprint(j))
				}
			}
		}
		cyclic := false
		for k := range size {
			for i := range size {
				for j := range size {
					reaches[i][j] = reaches[i][j] || reaches[i][k] && reaches[k][j]
				}
			}
		}
		for i := range size {
			cyclic = cyclic || reaches[i][i]
		}
		g, err := workflow.New(nodes, workflow.Options{})
		if (err != nil) != cyclic {
			t.Fatalf("cyclic is %v, the error %v", cyclic, err)
		}
		if cyclic {
			checkCycles(t, err, needs)
			return
		}
		checkPlan(t, g.Plan(), needs)
	})
}

func checkCycles(t *rapid.T, err error, needs [][]bool) {
	for line := range strings.SplitSeq(err.Error(), "\n") {
		text, found := strings.CutPrefix(line, "workflow: DependsOn has a cycle: ")
		if !found && !strings.HasSuffix(line, "more cycles than these") {
			t.Fatalf("another error: %s", line)
		}
		path := strings.Split(text, " → ")
		for i := range path[1:] {
			if from, to := path[i][0]-'0', path[i+1][0]-'0'; found && !needs[from][to] {
				t.Fatalf("%s: %d does not depend on %d", line, from, to)
			}
		}
		if found && (len(path) < 2 || path[0] != path[len(path)-1] || slices.Min(path) != path[0]) {
			t.Fatalf("%s is not a cycle from its first node to itself", line)
		}
	}
}

func checkPlan(t *rapid.T, plan [][]string, needs [][]bool) {
	wave := map[string]int{}
	for at, names := range plan {
		for _, name := range names {
			wave[name] = at
		}
	}
	for i := range needs {
		earliest := 0
		for j, needed := range needs[i] {
			if needed {
				earliest = max(earliest, wave[fmt.Sprint(j)]+1)
			}
		}
		if at, planned := wave[fmt.Sprint(i)]; !planned || at != earliest {
			t.Fatalf("node %d is planned: %v, in wave %d, want %d: %v", i, planned, at, earliest, plan)
		}
	}
}
