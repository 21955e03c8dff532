package workflow

import (
	"context"
	"runtime/debug"
	"time"

	"github.com/evenkeel/evenkeel/internal/author"
)

// visit is the turn of a node: it calls its functions, one after the other, and sets its state in
// the result.
type visit[C any] struct {
	ctx    context.Context
	c      C
	node   *Node[C]
	result *NodeResult
	step   Step // the function that is being called
}

// visit runs a turn. If a function panics or ends the goroutine, the node is failed.
func (g *Graph[C]) visit(ctx context.Context, c C, t task, result *NodeResult) (o outcome) {
	v := visit[C]{ctx: ctx, c: c, node: &g.nodes[t.node], result: result}
	if result.Started.IsZero() {
		result.Started = time.Now()
	}
	returned := false
	defer func() {
		if returned {
			result.Duration = time.Since(result.Started)
			return
		}
		failure := ErrExited
		if value := recover(); value != nil {
			failure = &PanicError{Value: value, Stack: debug.Stack()}
		}
		o = v.fail(failure)
		result.Duration = time.Since(result.Started)
	}()
	if t.remove {
		o = v.remove()
	} else {
		o = v.reconcile()
	}
	returned = true
	return o
}

// reconcile reconciles the node, unless it is not wanted.
func (v *visit[C]) reconcile() outcome {
	n := v.node
	if active, failed := v.check(ActivationCondition, n.ActivationCondition); failed {
		return blocked
	} else if !active.Met {
		return unwanted
	}
	if stopped, o := v.activate(); stopped {
		return o
	}
	if wanted, failed := v.check(ReconcilePrecondition, n.ReconcilePrecondition); failed {
		return blocked
	} else if !wanted.Met {
		return unwanted
	}
	if v.call(Reconciliation, n.Reconcile) {
		return blocked
	}
	if ready, failed := v.check(ReadyPostcondition, n.ReadyPostcondition); failed {
		return blocked
	} else if !ready.Met {
		return v.setState(NotReady, ready.Reason, blocked)
	}
	return v.setState(Ready, "", reached)
}

// remove deletes the node. An inactive node counts as absent.
func (v *visit[C]) remove() outcome {
	n := v.node
	active, known := v.result.Answer(ActivationCondition)
	if !known {
		var failed bool
		if active, failed = v.check(ActivationCondition, n.ActivationCondition); failed {
			return blocked
		}
	}
	if active.Met || n.DeleteInactive {
		if stopped, o := v.delete(active.Met); stopped {
			return o
		}
	}
	if active.Met {
		return v.setState(Deleted, "", gone)
	}
	if v.call(Deactivation, n.Deactivate) {
		return blocked
	}
	return v.setState(Inactive, active.Reason, gone)
}

// delete calls Delete. stopped is set if the node is not gone.
func (v *visit[C]) delete(active bool) (stopped bool, o outcome) {
	n := v.node
	if n.Delete == nil && n.DeletePostcondition == nil {
		return false, gone
	}
	if active {
		if stopped, o := v.activate(); stopped {
			return true, o
		}
	}
	if v.call(Deletion, n.Delete) {
		return true, blocked
	}
	isGone := n.DeletePostcondition
	if isGone == nil {
		isGone = n.Gone
	}
	if absent, failed := v.check(DeletePostcondition, isGone); failed {
		return true, blocked
	} else if !absent.Met {
		return true, v.setState(Deleting, absent.Reason, blocked)
	}
	return false, gone
}

// activate calls Activate once in a pass. stopped is set if it is not done.
func (v *visit[C]) activate() (stopped bool, o outcome) {
	if _, done := v.result.Answer(Activation); done {
		return false, reached
	}
	if done, failed := v.check(Activation, v.node.Activate); failed {
		return true, blocked
	} else if !done.Met {
		return true, v.setState(Waiting, done.Reason, blocked)
	}
	return false, reached
}

// check calls a condition; without one, the verdict is "met". If there is no verdict, because the
// condition failed or the pass was cancelled, it sets the state of the node.
func (v *visit[C]) check(step Step, condition Condition[C]) (verdict Verdict, failed bool) {
	if condition == nil {
		return Met(), false
	}
	failed = v.call(step, func(ctx context.Context, c C) (err error) {
		verdict, err = condition(ctx, c)
		return err
	})
	if !failed {
		v.result.Answers = append(v.result.Answers, Answer{Step: step, Verdict: verdict})
	}
	return verdict, failed
}

// call calls a function, unless the pass was cancelled.
func (v *visit[C]) call(step Step, function func(context.Context, C) error) (failed bool) {
	if function == nil {
		return false
	}
	if v.ctx.Err() != nil {
		v.setState(Cancelled, "", blocked)
		return true
	}
	v.step = step
	if err := author.Sound(function(v.ctx, v.c)); err != nil {
		v.fail(err)
		return true
	}
	return false
}

// fail sets the state of the node to failed, or to cancelled if that is what its function reports.
func (v *visit[C]) fail(err error) outcome {
	v.result.Err = &NodeError{Node: v.node.Name, Step: v.step, Err: err}
	state := Failed
	if cancellation(v.ctx, err) {
		state = Cancelled
	}
	return v.setState(state, v.step.String()+": "+author.Text(err), blocked)
}

// setState sets the state of the node.
func (v *visit[C]) setState(state State, reason string, o outcome) outcome {
	v.result.State, v.result.Reason = state, reason
	return o
}
