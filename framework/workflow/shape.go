package workflow

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// shape is the structure of a graph. Nodes are identified by their index, in the order in which
// they were given.
type shape struct {
	names      []string
	index      map[string]int
	dependsOn  [][]int
	dependents [][]int
	order      []int // dependencies come first
	levels     []int // of each node: the length of the longest path to it
	left       []bool
	limit      int
}

// edges sets the dependencies, and returns the faults of the names.
func (s *shape) edges(dependsOn [][]string) (faults []error) {
	s.index = make(map[string]int, len(s.names))
	for i, name := range s.names {
		first, taken := s.index[name]
		switch {
		case name == "":
			faults = append(faults, fmt.Errorf("workflow: node %d: Name is empty", i))
		case taken:
			faults = append(faults, fmt.Errorf("workflow: node %q: the Name is used twice, by nodes %d and %d", name, first, i))
		default:
			s.index[name] = i
		}
	}
	s.dependsOn, s.dependents = make([][]int, len(s.names)), make([][]int, len(s.names))
	for i, names := range dependsOn {
		for at, name := range names {
			needed, known := s.index[name]
			switch {
			case !known:
				faults = append(faults, fmt.Errorf("workflow: node %q: DependsOn %q: there is no such node", s.names[i], name))
			case slices.Contains(names[:at], name):
				faults = append(faults, fmt.Errorf("workflow: node %q: DependsOn names %q twice", s.names[i], name))
			default:
				s.dependsOn[i] = append(s.dependsOn[i], needed)
				s.dependents[needed] = append(s.dependents[needed], i)
			}
		}
	}
	return faults
}

// sort orders the nodes, and returns the cycles that prevent it.
func (s *shape) sort() []error {
	s.levels = make([]int, len(s.names))
	open := make([]int, len(s.names))
	for i := range s.names {
		if open[i] = len(s.dependsOn[i]); open[i] == 0 {
			s.order = append(s.order, i)
		}
	}
	for at := 0; at < len(s.order); at++ {
		for _, d := range s.dependents[s.order[at]] {
			s.levels[d] = max(s.levels[d], s.levels[s.order[at]]+1)
			if open[d]--; open[d] == 0 {
				s.order = append(s.order, d)
			}
		}
	}
	if len(s.order) < len(s.names) {
		return s.cycles()
	}
	slices.SortStableFunc(s.order, func(a, b int) int {
		if s.levels[a] != s.levels[b] {
			return s.levels[a] - s.levels[b]
		}
		return a - b
	})
	return nil
}

// maxCycles is how many cycles are named: a dense graph has more than anybody reads.
const maxCycles = 10

// cycles finds cycles by a depth-first search. It uses no recursion, because graphs may be deep.
// Every edge back to the present path closes a cycle.
func (s *shape) cycles() (faults []error) {
	const unseen, onPath, done = 0, 1, 2
	colour, next := make([]uint8, len(s.names)), make([]int, len(s.names))
	for start := range s.names {
		path := []int{start}
		for colour[start] != done {
			node := path[len(path)-1]
			colour[node] = onPath
			if next[node] == len(s.dependsOn[node]) {
				colour[node], path = done, path[:len(path)-1]
				continue
			}
			needed := s.dependsOn[node][next[node]]
			next[node]++
			switch colour[needed] {
			case unseen:
				path = append(path, needed)
			case onPath:
				if len(faults) == maxCycles {
					return append(faults, errors.New("workflow: DependsOn has more cycles than these"))
				}
				faults = append(faults, s.cycle(path[slices.Index(path, needed):]))
			}
		}
	}
	return faults
}

// cycle returns the error for a cycle, beginning with the node that was given first.
func (s *shape) cycle(path []int) error {
	first := slices.Index(path, slices.Min(path))
	var text strings.Builder
	for i := range path {
		text.WriteString(s.names[path[(first+i)%len(path)]] + " → ")
	}
	return fmt.Errorf("workflow: DependsOn has a cycle: %s%s", text.String(), s.names[path[first]])
}

// markLeft finds the nodes that a cleanup leaves to garbage collection: those that nothing has to
// wait for.
func (s *shape) markLeft(collected, removed func(i int) bool) {
	s.left = make([]bool, len(s.names))
	follows := make([]bool, len(s.names)) // the node or a dependency is removed by a cleanup
	for _, i := range s.order {
		after := slices.ContainsFunc(s.dependsOn[i], func(needed int) bool { return follows[needed] })
		s.left[i] = collected(i) && !after
		follows[i] = after || removed(i)
	}
}

// waves groups the nodes by level.
func (s *shape) waves() [][]string {
	var waves [][]string
	for _, i := range s.order {
		if s.levels[i] == len(waves) {
			waves = append(waves, nil)
		}
		waves[s.levels[i]] = append(waves[s.levels[i]], s.names[i])
	}
	return waves
}
