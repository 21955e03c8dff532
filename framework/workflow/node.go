package workflow

import (
	"context"
	"fmt"
)

// Node is one thing that a primary needs. C is the type that a pass hands to all functions, such as
// a primary or the context of a run. Nodes run at the same time, so the methods of C must be safe
// for concurrent use.
//
// All functions must be idempotent, because every pass calls them again, and should return soon
// when ctx ends. A panic fails only its node. A pass calls each function at most once, and never
// two functions of one node at the same time.
type Node[C any] struct {
	// Name is the name of the node. Required; unique in the graph.
	Name string
	// DependsOn names the dependencies: they must be reconciled and ready before this node is touched,
	// and are deleted only after it is gone.
	DependsOn []string

	// Reconcile creates or updates the node, or finds that it is as it should be. Required.
	Reconcile func(ctx context.Context, c C) error
	// Delete deletes the node, or finds that it is already gone. Default: there is nothing to delete,
	// as for something that is only read. It is called in every pass in which the node is not wanted,
	// so it should cost nothing if the node is gone.
	Delete func(ctx context.Context, c C) error
	// GarbageCollected says that the platform deletes the node after its primary. Requires Delete. A
	// cleanup then leaves the node alone, unless it has a DeletePostcondition or depends on a node
	// that the cleanup deletes, which must come after it. If its precondition is not met, it is
	// deleted like any other node.
	GarbageCollected bool
	// Gone is the DeletePostcondition of a GarbageCollected node, for the cases in which it is deleted
	// nevertheless. Setting Gone does not make a cleanup delete the node. Without it, the dependencies
	// are deleted while the node may still exist.
	Gone Condition[C]

	// ActivationCondition reports whether the node can exist at all: whether the platform has its
	// type. Default: active. An inactive node counts as absent. None of its other functions is called
	// except Deactivate, and the nodes that depend on it are deleted.
	ActivationCondition Condition[C]
	// ReconcilePrecondition reports, once all dependencies are ready, whether the node is wanted.
	// Default: wanted. If it is not, it is deleted, after all nodes that depend on it.
	ReconcilePrecondition Condition[C]
	// ReadyPostcondition reports, after Reconcile, whether the nodes that depend on this one may
	// start. Default: ready.
	ReadyPostcondition Condition[C]
	// DeletePostcondition reports, after Delete, whether the node is gone, so that its dependencies
	// may be deleted. Default: gone.
	DeletePostcondition Condition[C]

	// Activate is called before any other function of an active node. It opens what the node reads
	// from, such as an informer. Default: nothing to open. If it is not met, opening is under way and
	// the node waits for another pass. Nor is the node deleted meanwhile, so use an
	// ActivationCondition for something that may never open.
	Activate Condition[C]
	// Deactivate closes what Activate has opened. It is called when the node is inactive and all nodes
	// that depend on it are gone.
	Deactivate func(ctx context.Context, c C) error
	// DeleteInactive also deletes an inactive node, before it is deactivated. Requires
	// ActivationCondition and Delete. It is for activation conditions that report what is wanted
	// rather than what is possible.
	DeleteInactive bool
}

// Condition judges a node. An error means that there is no verdict, and fails the node.
type Condition[C any] func(ctx context.Context, c C) (Verdict, error)

// Verdict is the result of a [Condition]. The zero value is "not met", without a reason.
type Verdict struct {
	Met bool
	// Stalled says that an unmet condition will not be met unless somebody intervenes, as for a Job
	// that has failed. It affects only [Result.Summary]: a change still brings another pass.
	Stalled bool
	// Reason is a short text for people, as in "2 of 3 replicas are available". It must hold no
	// secrets, because results are displayed.
	Reason string
	// Detail is any value that the author wants to read from the result, with [Detail]. It is not
	// displayed.
	Detail any
}

// Met returns the verdict "met".
func Met() Verdict { return Verdict{Met: true} }

// NotMet returns the verdict "not met" with its reason, formatted as by fmt.Sprintf.
func NotMet(reason string, arguments ...any) Verdict {
	if len(arguments) > 0 {
		reason = fmt.Sprintf(reason, arguments...)
	}
	return Verdict{Reason: reason}
}

// Stalled is NotMet for a condition that will not be met unless somebody intervenes.
func Stalled(reason string, arguments ...any) Verdict {
	v := NotMet(reason, arguments...)
	v.Stalled = true
	return v
}

// With returns a copy of the verdict with a detail.
func (v Verdict) With(detail any) Verdict {
	v.Detail = detail
	return v
}
