package interlock

import (
	"context"
	"fmt"
	"slices"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/workflow"
)

// Implementation is what the Tag of a node can be that stands behind a gate. Package dependent's are. Other nodes are judged by
// their functions alone. It is for packages that make nodes; its methods are safe for concurrent use.
type Implementation[D framework.Object] interface {
	// StandBehindGate is called when the controller is registered, once for each gate that the node stands behind, directly or
	// not.
	StandBehindGate()
	// TellsReady reports whether the author has said when the node is ready. Without that it is ready once it was written, which
	// says nothing about what it still uses.
	TellsReady() bool
	// LetGo reports whether nothing of the node uses anymore what its primary referred to before. It is asked by [Gate.Settled],
	// when there is something to let go of and the node is ready, and must be sure: past all caches.
	LetGo(ctx context.Context, c *framework.Context[D]) (workflow.Verdict, error)
}

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
	implementing := g.implementing(nodes)
	if len(implementing) == 0 {
		return g.misplaced("no node that implements anything depends on it: nothing would wait for what it grants, and it would let go of what is in use")
	}
	for _, n := range implementing {
		switch {
		case n.ActivationCondition != nil && !n.DeleteInactive && !workflow.IsServed(n.ActivationCondition):
			return g.misplaced("node %q has an ActivationCondition without DeleteInactive: while it is inactive it counts as gone, and what it made would outlive the provider. Set DeleteInactive; only a condition about whether the kind is served needs none: dependent.CRDPresent, or what workflow.Served returns", n.Name)
		case n.GarbageCollected && n.DeletePostcondition == nil && n.Gone == nil:
			return g.misplaced("node %q is GarbageCollected, and neither Gone nor DeletePostcondition is set: nothing would wait until it is gone", n.Name)
		}
	}
	for _, n := range implementing {
		if of, ok := n.Tag.(Implementation[D]); ok {
			of.StandBehindGate()
		}
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
		before := framework.NodesBefore(nodes, n.Name)
		if missing := namesOf(implementing, func(i framework.Node[D]) bool { return !before[i.Name] }); len(missing) > 0 {
			return g.misplaced("node %q does not depend on %q: what stands behind the gate may be using what this lets go of", n.Name, missing)
		}
		if silent := namesOf(implementing, func(i framework.Node[D]) bool { return !tellsReady(i) }); len(silent) > 0 {
			return g.misplaced("node %q depends on %q, which say nothing about when they are ready: they would be ready once they are written, while what they were before may still be using what this lets go of. Set their Ready, or ReadyPostcondition; dependent.Current will do for what is used by nothing else", n.Name, silent)
		}
	}
	return nil
}

// tellsReady reports whether a node says when it is ready.
func tellsReady[D framework.Object](n framework.Node[D]) bool {
	if of, ok := n.Tag.(Implementation[D]); ok {
		return of.TellsReady()
	}
	return n.ReadyPostcondition != nil
}

// namesOf are the names of those nodes that a function picks.
func namesOf[D framework.Object](nodes []framework.Node[D], picks func(framework.Node[D]) bool) (names []string) {
	for _, n := range nodes {
		if picks(n) {
			names = append(names, n.Name)
		}
	}
	return names
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

// implementing are the nodes behind the gate's, but for those that gates have made.
func (g *Gate[P, D]) implementing(nodes []framework.Node[D]) (behind []framework.Node[D]) {
	for _, n := range nodes {
		_, ofGate := n.Tag.(role)
		before := framework.NodesBefore(nodes, n.Name)
		if !ofGate && slices.ContainsFunc(nodes, func(other framework.Node[D]) bool {
			return before[other.Name] && other.Tag == any(role{g, false})
		}) {
			behind = append(behind, n)
		}
	}
	return behind
}

func (g *Gate[P, D]) misplaced(format string, args ...any) error {
	return fmt.Errorf("interlock: relation %q: %s", g.Relation.Name, fmt.Sprintf(format, args...))
}
