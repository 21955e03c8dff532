package workflow

import (
	"errors"
	"fmt"
	"time"
)

// State is the state of a node after a workflow run.
type State uint8

const (
	// Cancelled means that the pass was cancelled before or during this node's turn.
	Cancelled State = iota
	// Waiting means that the node was not touched: the node Because is not ready, or, if this one is
	// to be removed, not gone yet; or its own Activate is under way.
	Waiting
	// Skipped means that the node was not touched because the node Because failed.
	Skipped
	// Failed means that one of its functions failed. The functions after it were not called.
	Failed
	// NotReady means reconciled, with a ready postcondition that is not met.
	NotReady
	// Ready means reconciled and ready.
	Ready
	// Deleting means that Delete was called, and the delete postcondition is not met.
	Deleting
	// Deleted means gone: its precondition, or that of the node Because, is not met, or the pass is a
	// cleanup.
	Deleted
	// Inactive means that its activation condition is not met; it is absent and holds nothing open.
	Inactive
	// Left means that a cleanup left it to the platform's garbage collection.
	Left
)

// Settled reports whether the node is in its desired state.
func (s State) Settled() bool { return s == Ready || s == Deleted || s == Inactive || s == Left }

// Pass is the direction of a workflow run.
type Pass uint8

const (
	// Reconciling goes from the dependencies to the nodes that depend on them.
	Reconciling Pass = iota
	// CleaningUp goes in the opposite direction.
	CleaningUp
)

// Step is one of the functions of a node.
type Step uint8

const (
	ActivationCondition Step = iota + 1
	Activation
	ReconcilePrecondition
	Reconciliation
	ReadyPostcondition
	Deletion
	DeletePostcondition
	Deactivation
)

// Answer is the verdict of one condition of a node.
type Answer struct {
	Step Step
	Verdict
}

// NodeResult is the result of a node in a pass.
type NodeResult struct {
	// Name is the name of the node.
	Name string
	// State is the state after the pass.
	State State
	// Removing is set if the pass was to remove the node.
	Removing bool
	// Because names the node that this one waits for, was skipped for, or was deleted for. It is empty
	// if the cause is the node itself.
	Because string
	// Reason is a text for people, supplied by conditions.
	Reason string
	// Err is a [*NodeError] if the node failed, or if one of its functions returned an error when it
	// was cancelled.
	Err error
	// Answers are the verdicts of the conditions that were called, in order.
	Answers []Answer
	// Started is when the first function was called, zero if none was. Duration is the time until the
	// last one returned.
	Started  time.Time
	Duration time.Duration
}

// Answer returns the verdict of a condition, and false if it was not called or failed.
func (n NodeResult) Answer(step Step) (Verdict, bool) {
	for _, a := range n.Answers {
		if a.Step == step {
			return a.Verdict, true
		}
	}
	return Verdict{}, false
}

// Detail returns the detail of a condition's verdict, and false if there is no verdict or its
// detail is not a T.
func Detail[T any](n NodeResult, step Step) (T, bool) {
	v, _ := n.Answer(step)
	detail, ok := v.Detail.(T)
	return detail, ok
}

// Result is the result of a pass. It is complete when the pass returns and does not change
// afterwards. Its JSON contains everything except the details of verdicts and the stacks of panics.
// Tests may build a Result from its exported fields.
type Result struct {
	Pass     Pass
	Started  time.Time
	Duration time.Duration
	// Nodes are all nodes of the graph, in the order in which they were given to [New].
	Nodes []NodeResult
	// Cut is why the pass ended early: the cause of its context. It is nil if every node had its turn.
	Cut error

	shape *shape
}

// Ready reports whether a reconcile pass found every node in its desired state: wanted nodes are
// ready, unwanted ones gone. After a cleanup it is false.
func (r *Result) Ready() bool { return r.Pass == Reconciling && r.settled() }

// Gone reports whether a cleanup is complete. After a reconcile pass it is false.
func (r *Result) Gone() bool { return r.Pass == CleaningUp && r.settled() }

func (r *Result) settled() bool {
	for i := range r.Nodes {
		if !r.Nodes[i].State.Settled() {
			return false
		}
	}
	return r.Cut == nil
}

// Err returns the joined errors of all nodes and, if the pass was cancelled, the cause of that; nil
// if there are none. A node that is not ready yet is not an error.
func (r *Result) Err() error {
	var errs []error
	if r.Cut != nil {
		errs = append(errs, fmt.Errorf("workflow: %v: cancelled: %w", r.Pass, r.Cut))
	}
	for i := range r.Nodes {
		if err := r.Nodes[i].Err; err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Node returns the result of the named node, and false if there is no such node.
func (r *Result) Node(name string) (NodeResult, bool) {
	for i := range r.Nodes {
		if r.Nodes[i].Name == name {
			return r.Nodes[i], true
		}
	}
	return NodeResult{}, false
}

// Mermaid returns the graph with the states of the result, as [Graph.Mermaid] does without.
func (r *Result) Mermaid() string { return r.drawn().mermaid(r.Nodes) }

// DOT returns the graph with the states of the result, as [Graph.DOT] does without.
func (r *Result) DOT() string { return r.drawn().dot(r.Nodes) }

// drawn returns the shape. A result that was not made by a pass has no edges.
func (r *Result) drawn() *shape {
	if r.shape != nil {
		return r.shape
	}
	s := &shape{dependents: make([][]int, len(r.Nodes))}
	for i := range r.Nodes {
		s.names = append(s.names, r.Nodes[i].Name)
	}
	return s
}
