package workflow

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// conclude gives a state to the nodes that had no turn, from those that they waited for. It goes by the graph alone, so
// that the result does not depend on who was faster.
func (r *Result) conclude(ctx context.Context, nodes []standing) {
	order := r.shape.order
	for _, i := range order {
		n := &r.Nodes[i]
		switch n.Removing = nodes[i].removing; {
		case r.shape.left[i] && r.Pass == CleaningUp:
			n.State = Left
		case !n.Removing && !nodes[i].taken:
			r.hold(n, r.shape.dependsOn[i])
		}
	}
	for _, i := range slices.Backward(order) {
		if r.Nodes[i].Removing && !nodes[i].taken && r.Nodes[i].State != Left {
			r.hold(&r.Nodes[i], r.shape.dependents[i])
		}
	}
	if r.Pass == Reconciling {
		r.blame()
	}
	if ctx.Err() != nil && slices.ContainsFunc(r.Nodes, func(n NodeResult) bool { return n.State == Cancelled }) {
		r.Cut = context.Cause(ctx)
	}
	r.Duration = time.Since(r.Started)
}

// hold says what held back a node that had no turn: what failed comes before what is not there yet, and that
// before what was cancelled.
func (r *Result) hold(n *NodeResult, waitedFor []int) {
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

// awaited is the reason of who waits for a node.
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

// blame tells why nodes were deleted: what is not wanted by itself says so, all others name it.
func (r *Result) blame() {
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

// refusal is why a node is to be removed for itself.
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
