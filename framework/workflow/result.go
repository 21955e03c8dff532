package workflow

import (
	"context"
	"encoding/json"
	"errors"
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
// holds all of it but the details of verdicts and the stacks of panics.
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

func (r *Result) settled() bool { return false }

// Err joins the errors of all nodes and, if the pass was cancelled, the cause of that; nil if there are none.
// Something that is not ready yet is no error.
func (r *Result) Err() error { return nil }

// Node returns what became of a node, and false if the graph has none of that name.
func (r *Result) Node(name string) (NodeResult, bool) { return NodeResult{}, false }

// MarshalJSON writes states and passes by name, errors as texts and durations as "1.5s".
func (n NodeResult) MarshalJSON() ([]byte, error) { return json.Marshal(nil) }

// Mermaid draws the graph with the states of the result, as [Graph.Mermaid] does without.
func (r *Result) Mermaid() string { return "" }

// DOT draws the graph with the states of the result, as [Graph.DOT] does without.
func (r *Result) DOT() string { return "" }

// NodeError is the failure of a node.
type NodeError struct {
	Node string
	Step Step
	Err  error
}

func (e *NodeError) Error() string { return e.Err.Error() }

func (e *NodeError) Unwrap() error { return e.Err }

// PanicError is the failure of a function that panicked.
type PanicError struct {
	// Value is what was passed to panic, Stack the stack at that moment.
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return "" }

// ErrExited is the failure of a function that ended its goroutine (runtime.Goexit, as testing's FailNow does).
var ErrExited = errors.New("ended its goroutine")

// Stage is how far a primary is, in the words of Kubernetes' conditions.
type Stage uint8

const (
	// StageReconciling: not there yet, and nobody's help is needed.
	StageReconciling Stage = iota
	// StageReady: as it should be.
	StageReady
	// StageStalled: not there, and it will not be unless somebody does something.
	StageStalled
)

// Summary is a result in one sentence, for the conditions of a primary.
type Summary struct {
	Stage Stage
	// Node is what decided; empty if there is nothing to tell of a single one.
	Node string
	// Reason is the node and its state in one word, as "WebServerNotReady".
	Reason string
	// Message is for people.
	Message string
}

// Summary picks the worst of the nodes: one that failed, before one that was cancelled, before one that is not ready
// or not gone. stalls says which failures somebody has to help with; nil for none.
func (r *Result) Summary(stalls func(error) bool) Summary { return Summary{} }

var _ = context.Canceled
