package interlock

import (
	"fmt"
	"slices"

	"github.com/evenkeel/evenkeel/framework"
)

// role is the tag of the nodes that gates make.
type role struct {
	gate    any  // a pointer to it
	settles bool // made by Settled, and not by Node
}

// checkNode reports what is wrong with where the gate's node stands. A cleanup takes the claims off when what depends on the node has gone: what implements
// anything must depend on it, and with two nodes either would take the claims of what depends on the other.
func (g *Gate[P, D]) checkNode(nodes []framework.Node[D]) error {
	if own := g.ownNodes(nodes); len(own) > 1 {
		return g.misplaced("the gate has the nodes %q, and may have one: each lets go of everything, whatever depends on the others", own)
	}
	if len(g.implementing(nodes)) == 0 {
		return g.misplaced("no node that implements anything depends on it: nothing would wait for what it grants, and it would let go of what is in use")
	}
	return nil
}

// checkSettled reports what the nodes that let go of what is not referred to any more would not wait for.
func (g *Gate[P, D]) checkSettled(nodes []framework.Node[D]) error {
	if len(g.ownNodes(nodes)) == 0 {
		return g.misplaced("the workflow has no node of the gate: Gate.Settled goes with Gate.Node, as Gate.Release does with Gate.Acquire")
	}
	implementing := g.implementing(nodes)
	for _, n := range nodes {
		if n.Tag != any(role{g, true}) {
			continue
		}
		before := predecessors(nodes, n.Name)
		missing := slices.DeleteFunc(slices.Clone(implementing), func(name string) bool { return before[name] })
		if len(missing) > 0 {
			return g.misplaced("node %q does not depend on %q: what stands behind the gate may be using what this lets go of", n.Name, missing)
		}
	}
	return nil
}

// ownNodes are the names of those that the gate's Node has made.
func (g *Gate[P, D]) ownNodes(nodes []framework.Node[D]) (names []string) {
	for _, n := range nodes {
		if n.Tag == any(role{g, false}) {
			names = append(names, n.Name)
		}
	}
	return names
}

// implementing are the names of the nodes behind the gate's, but for those that gates have made.
func (g *Gate[P, D]) implementing(nodes []framework.Node[D]) (names []string) {
	for _, n := range nodes {
		_, ofGate := n.Tag.(role)
		before := predecessors(nodes, n.Name)
		if !ofGate && slices.ContainsFunc(nodes, func(other framework.Node[D]) bool {
			return before[other.Name] && other.Tag == any(role{g, false})
		}) {
			names = append(names, n.Name)
		}
	}
	return names
}

// predecessors are the nodes that one depends on, directly or not.
func predecessors[D framework.Object](nodes []framework.Node[D], name string) map[string]bool {
	found := map[string]bool{}
	for open := []string{name}; len(open) > 0; open = open[1:] {
		at := slices.IndexFunc(nodes, func(n framework.Node[D]) bool { return n.Name == open[0] })
		for _, next := range nodes[at].DependsOn {
			if !found[next] {
				found[next] = true
				open = append(open, next)
			}
		}
	}
	return found
}

func (g *Gate[P, D]) misplaced(format string, args ...any) error {
	return fmt.Errorf("interlock: relation %q: %s", g.Relation.Name, fmt.Sprintf(format, args...))
}
