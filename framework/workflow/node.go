package workflow

import (
	"context"
	"fmt"
)

// Node is one thing that a primary needs. C is what a pass hands to all functions, such as a primary or the context
// of a run; as nodes run at the same time, its functions must be safe for concurrent use.
//
// All functions must be idempotent, as every pass calls them anew, and should end soon when ctx ends. One that panics
// fails its node alone. None is called twice in a pass, and no two of one node at the same time.
type Node[C any] struct {
	// Name is unique in the graph and not empty.
	Name string
	// DependsOn names the nodes that must be reconciled and ready before this one is touched, and that are deleted
	// only after it is gone.
	DependsOn []string

	// Reconcile brings the node about, or finds that it is as it should be. Required.
	Reconcile func(ctx context.Context, c C) error
	// Delete takes it away, or finds that it is gone already, which should cost nothing: it is called in each pass in
	// which the node is not wanted. Without it there is nothing to take away, as of what is only read.
	Delete func(ctx context.Context, c C) error
	// GarbageCollected says that the platform deletes it after its primary. A cleanup then leaves it alone, unless it
	// has a DeletePostcondition, or depends on something that a cleanup deletes, whose turn comes after it. If its
	// precondition is not met, it is deleted like any other. Requires Delete.
	GarbageCollected bool
	// Gone is the DeletePostcondition of a GarbageCollected node for when it is deleted nevertheless: it is no reason to. Without it what the node
	// depends on goes while the node may still be there.
	Gone Condition[C]

	// ActivationCondition says whether the node can be there at all: whether the platform knows its type. An inactive
	// node counts as absent. None of its other functions is called but Deactivate, and what depends on it is deleted.
	// Default: active.
	ActivationCondition Condition[C]
	// ReconcilePrecondition says whether the node is wanted, once all it depends on is ready. If not, it is deleted,
	// and before it all that depends on it. Default: wanted.
	ReconcilePrecondition Condition[C]
	// ReadyPostcondition says, after Reconcile, whether what depends on the node may start. Default: ready.
	ReadyPostcondition Condition[C]
	// DeletePostcondition says, after Delete, whether the node is gone, so that what it depends on may go. Default: gone.
	DeletePostcondition Condition[C]

	// Activate is called before any other function of a node that is active: it holds what the node reads from, such as
	// an informer. Not met means that this is on its way, and the node waits for another pass; it is not deleted either, so
	// what may never come needs an ActivationCondition. Default: nothing to hold.
	Activate Condition[C]
	// Deactivate is called when the node is found inactive and all that depends on it is gone: it lets go of that again.
	Deactivate func(ctx context.Context, c C) error
	// DeleteInactive deletes an inactive node, too, before it is deactivated: for conditions that tell what is wanted
	// rather than what is possible. Requires ActivationCondition and Delete.
	DeleteInactive bool
}

// Condition is asked about a node. An error says that there is no answer, which fails the node.
type Condition[C any] func(ctx context.Context, c C) (Verdict, error)

// Verdict is the answer of a [Condition]. The zero value is "not met", without a reason.
type Verdict struct {
	Met bool
	// Stalled, of one that is not met, says that it will not be unless somebody does something, as of a Job that has failed:
	// [Result.Summary] then says so of the whole. Nothing else differs: what changes brings another pass all the same.
	Stalled bool
	// Reason is a short text for people, as "2 of 3 replicas are available". It must hold no secrets: results are shown.
	Reason string
	// Detail is whatever the author wants to read from the result, with [Detail]. It is not shown.
	Detail any
}

// Met is a verdict.
func Met() Verdict { return Verdict{Met: true} }

// NotMet is a verdict with its reason, formatted as by fmt.Sprintf.
func NotMet(reason string, arguments ...any) Verdict {
	if len(arguments) > 0 {
		reason = fmt.Sprintf(reason, arguments...)
	}
	return Verdict{Reason: reason}
}

// Stalled is NotMet of what will not be met unless somebody does something.
func Stalled(reason string, arguments ...any) Verdict {
	v := NotMet(reason, arguments...)
	v.Stalled = true
	return v
}

// With returns the verdict with a detail.
func (v Verdict) With(detail any) Verdict {
	v.Detail = detail
	return v
}
