package workflow

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// conclude sets the state of the nodes that had no turn, from the nodes that they waited for. It
// uses only the graph, so the result does not depend on timing.
func (r *Result) conclude(ctx context.Context, nodes []progress) {
	order := r.shape.order
	for _, i := range order {
		n := &r.Nodes[i]
		switch n.Removing = nodes[i].removing; {
		case r.shape.left[i] && r.Pass == CleaningUp:
			n.State = Left
		case !n.Removing && !nodes[i].taken:
			r.explainHold(n, r.shape.dependsOn[i])
		}
	}
	for _, i := range slices.Backward(order) {
		if r.Nodes[i].Removing && !nodes[i].taken && r.Nodes[i].State != Left {
			r.explainHold(&r.Nodes[i], r.shape.dependents[i])
		}
	}
	if r.Pass == Reconciling {
		r.explainRemovals()
	}
	if ctx.Err() != nil && slices.ContainsFunc(r.Nodes, func(n NodeResult) bool { return n.State == Cancelled }) {
		r.Cut = context.Cause(ctx)
	}
	r.Duration = time.Since(r.Started)
}

// explainHold sets why a node had no turn. A failure comes before a node that is not there yet, and
// that before a cancellation.
func (r *Result) explainHold(n *NodeResult, waitedFor []int) {
	n.State, n.Because, n.Reason = Cancelled, "", ""
	for _, i := range waitedFor {
		other := &r.Nodes[i]
		because := other.Name
		if other.Because != "" {
			because = other.Because
		}
		switch other.State {
		case Failed, Skipped:
			n.State, n.Because = Skipped, because
			n.Reason = fmt.Sprintf("%s failed", because)
			return
		case NotReady, Deleting, Waiting:
			if n.State == Cancelled {
				n.State, n.Because, n.Reason = Waiting, because, r.awaited(because, n.Removing)
			}
		}
	}
}

// awaited returns the reason of a node that waits for the named one.
func (r *Result) awaited(name string, removing bool) string {
	text := "waiting for " + name
	if removing {
		text += " to be gone"
	}
	if reason := r.Nodes[r.shape.index[name]].Reason; reason != "" {
		text += ": " + reason
	}
	return text
}

// explainRemovals sets why nodes were deleted. A node that is not wanted has its own reason; the
// others name that node.
func (r *Result) explainRemovals() {
	roots := make([]int, len(r.Nodes))
	for _, i := range r.shape.order {
		n := &r.Nodes[i]
		if !n.Removing {
			continue
		}
		roots[i] = i
		for _, needed := range r.shape.dependsOn[i] {
			if r.Nodes[needed].Removing {
				roots[i] = roots[needed]
				break
			}
		}
		if n.State != Deleted {
			continue
		}
		root := &r.Nodes[roots[i]]
		n.Reason = root.refusal()
		if root != n {
			n.Because, n.Reason = root.Name, root.Name+" is "+n.Reason
		}
	}
}

// refusal returns why a node is to be removed because of its own conditions.
func (n *NodeResult) refusal() string {
	text, verdict := "inactive", Verdict{}
	if active, asked := n.Answer(ActivationCondition); asked && !active.Met {
		verdict = active
	} else {
		text = "not wanted"
		verdict, _ = n.Answer(ReconcilePrecondition)
	}
	if verdict.Reason != "" {
		text += ": " + verdict.Reason
	}
	return text
}
