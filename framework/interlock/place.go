package interlock

import (
	"context"
	"fmt"
	"slices"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/workflow"
)

// Implementation may be the Tag of a node that is behind a gate. The nodes of package dependent
// have it. Other nodes are judged only by their functions. It is for packages that provide nodes.
// Its methods must be safe for concurrent use.
type Implementation[D framework.Object] interface {
	// StandBehindGate is called when the controller is registered, once for each gate that the node is
	// behind, directly or not.
	StandBehindGate()
	// TellsReady reports whether the author has defined when the node is ready. Otherwise it is ready
	// once it was written, which says nothing about what it still uses.
	TellsReady() bool
	// LetGo reports whether the node no longer uses anything that its primary referred to before.
	// [Gate.Settled] calls it when there is something to release and the node is ready. The result
	// must be certain: it must not rely on caches.
	LetGo(ctx context.Context, c *framework.Context[D]) (workflow.Verdict, error)
}

// role is the tag of the nodes that gates provide.
type role struct {
	gate    any  // a pointer to the gate
	settles bool // provided by Settled, not by Node
}

// checkNode returns an error if the gate's node is in the wrong place. A cleanup removes the claims
// when all nodes that depend on this one are gone. So every implementing node must depend on it,
// and with two such nodes each would remove the claims of nodes that depend on the other.
func (g *Gate[P, D]) checkNode(nodes []framework.Node[D]) error {
	if own := g.ownNodes(nodes); len(own) > 1 {
		return g.misplaced("the gate has the nodes %q, and may have only one: each releases everything, whatever depends on the others", own)
	}
	implementing := g.implementing(nodes)
	if len(implementing) == 0 {
		return g.misplaced("no node that implements anything depends on it: nothing would wait for what it grants, and it would release what is in use")
	}
	for _, n := range implementing {
		switch {
		case n.ActivationCondition != nil && !n.DeleteInactive && !workflow.IsServed(n.ActivationCondition):
			return g.misplaced("node %q has an ActivationCondition without DeleteInactive: while it is inactive it counts as gone, and what it made would outlive the provider. Set DeleteInactive. Only a condition about whether the kind is served does not need it: ready.CRDPresent, or the result of workflow.Served", n.Name)
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

// checkSettled returns an error if the nodes that release former providers would not wait for all
// implementing nodes.
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
			return g.misplaced("node %q does not depend on %q: the nodes behind the gate may be using what this one releases", n.Name, missing)
		}
		if silent := namesOf(implementing, func(i framework.Node[D]) bool { return !tellsReady(i) }); len(silent) > 0 {
			return g.misplaced("node %q depends on %q, which say nothing about when they are ready: they would be ready once they are written, while their former state may still use what this releases. Set their Ready, or ReadyPostcondition; ready.Current is enough for objects that nothing else uses", n.Name, silent)
		}
	}
	return nil
}

// tellsReady reports whether a node defines when it is ready.
func tellsReady[D framework.Object](n framework.Node[D]) bool {
	if of, ok := n.Tag.(Implementation[D]); ok {
		return of.TellsReady()
	}
	return n.ReadyPostcondition != nil
}

// namesOf returns the names of the nodes that a function selects.
func namesOf[D framework.Object](nodes []framework.Node[D], picks func(framework.Node[D]) bool) (names []string) {
	for _, n := range nodes {
		if picks(n) {
			names = append(names, n.Name)
		}
	}
	return names
}

// ownNodes returns the names of the nodes that the gate's Node has provided.
func (g *Gate[P, D]) ownNodes(nodes []framework.Node[D]) (names []string) {
	for _, n := range nodes {
		if n.Tag == any(role{g, false}) {
			names = append(names, n.Name)
		}
	}
	return names
}

// implementing returns the nodes behind the gate's node, except those that gates provide.
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
