package workflow

import (
	"errors"
	"fmt"
	"time"
)

// State is what a pass left a node in.
type State uint8

const (
	// Cancelled: the pass was cancelled before it was this node's turn, or while it had it.
	Cancelled State = iota
	// Waiting: not touched, as Because is not ready, or, if it is to be removed, not gone yet; or its own Activate is
	// on its way.
	Waiting
	// Skipped: not touched, as Because failed.
	Skipped
	// Failed: one of its functions failed. What follows in order was not touched.
	Failed
	// NotReady: reconciled; its ready postcondition is not met.
	NotReady
	// Ready: reconciled and ready.
	Ready
	// Deleting: deleted; its delete postcondition is not met.
	Deleting
	// Deleted: gone, as its precondition is not met, or that of Because, or because of the cleanup.
	Deleted
	// Inactive: its activation condition is not met; it is absent and holds nothing.
	Inactive
	// Left to the platform's garbage collection by a cleanup.
	Left
)

// Settled reports whether the node is as it should be.
func (s State) Settled() bool { return s == Ready || s == Deleted || s == Inactive || s == Left }

// Pass is one of the two ways to go through a graph.
type Pass uint8

const (
	// Reconciling goes from what is depended on to what depends on it.
	Reconciling Pass = iota
	// CleaningUp goes the other way.
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

// Answer is what a condition of a node said.
type Answer struct {
	Step Step
	Verdict
}

// NodeResult is what became of a node in a pass.
type NodeResult struct {
	// Name is the node's.
	Name string
	// State is where it stands now.
	State State
	// Removing says that the pass was to remove it.
	Removing bool
	// Because names the node that it waits for, that it was skipped for, or that is not wanted; empty if it is itself.
	Because string
	// Reason is a text for people; conditions supply it.
	Reason string
	// Err is a [*NodeError] if the node failed, or if a function of it returned an error as it was cancelled.
	Err error
	// Answers are those of the conditions that were asked, in order.
	Answers []Answer
	// Started is when the first function was called, zero if none was; Duration until the last one had returned.
	Started  time.Time
	Duration time.Duration
}

// Answer returns what the condition of a step said, and false if it was not asked or gave no answer.
func (n NodeResult) Answer(step Step) (Verdict, bool) {
	for _, a := range n.Answers {
		if a.Step == step {
			return a.Verdict, true
		}
	}
	return Verdict{}, false
}

// Detail returns the detail of a condition's answer, and false if it was not asked, or the detail is no T.
func Detail[T any](n NodeResult, step Step) (T, bool) {
	v, _ := n.Answer(step)
	detail, ok := v.Detail.(T)
	return detail, ok
}

// Result is what became of a pass. It is complete when the pass returns, nobody changes it afterwards, and its JSON
// holds all of it but the details of verdicts and the stacks of panics. Tests may make one of its exported fields.
type Result struct {
	Pass     Pass
	Started  time.Time
	Duration time.Duration
	// Nodes are all nodes of the graph, in the order in which they were given to [New].
	Nodes []NodeResult
	// Cut is why the pass ended early, the cause of its context; nil if every node had its turn.
	Cut error

	shape *shape
}

// Ready reports whether a reconcile pass found everything as it should be: what is wanted is ready, what is not is gone.
// After a cleanup it is false.
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

// Err joins the errors of all nodes and, if the pass was cancelled, the cause of that; nil if there are none.
// Something that is not ready yet is no error.
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

// Node returns what became of a node, and false if the graph has none of that name.
func (r *Result) Node(name string) (NodeResult, bool) {
	for i := range r.Nodes {
		if r.Nodes[i].Name == name {
			return r.Nodes[i], true
		}
	}
	return NodeResult{}, false
}

// Mermaid draws the graph with the states of the result, as [Graph.Mermaid] does without.
func (r *Result) Mermaid() string { return r.drawn().mermaid(r.Nodes) }

// DOT draws the graph with the states of the result, as [Graph.DOT] does without.
func (r *Result) DOT() string { return r.drawn().dot(r.Nodes) }

// drawn is the shape; a result that was not made by a pass has no edges.
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
