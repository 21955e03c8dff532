package workflow

import (
	"context"
	"runtime/debug"
	"time"

	"github.com/evenkeel/evenkeel/internal/author"
)

// visit is the turn of a node: it calls its functions, one after the other, and leaves its state in the result.
type visit[C any] struct {
	ctx    context.Context
	c      C
	node   *Node[C]
	result *NodeResult
	step   Step // the function that is being called
}

// visit calls what a turn needs. A function that panics or ends the goroutine leaves the node failed.
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

// reconcile brings the node about, unless it is not wanted.
func (v *visit[C]) reconcile() outcome {
	n := v.node
	if active, failed := v.ask(ActivationCondition, n.ActivationCondition); failed {
		return held
	} else if !active.Met {
		return unwanted
	}
	if stopped, o := v.activate(); stopped {
		return o
	}
	if wanted, failed := v.ask(ReconcilePrecondition, n.ReconcilePrecondition); failed {
		return held
	} else if !wanted.Met {
		return unwanted
	}
	if v.call(Reconciliation, n.Reconcile) {
		return held
	}
	if ready, failed := v.ask(ReadyPostcondition, n.ReadyPostcondition); failed {
		return held
	} else if !ready.Met {
		return v.leave(NotReady, ready.Reason, held)
	}
	return v.leave(Ready, "", there)
}

// remove takes the node away. If it is inactive it counts as absent.
func (v *visit[C]) remove() outcome {
	n := v.node
	active, known := v.result.Answer(ActivationCondition)
	if !known {
		var failed bool
		if active, failed = v.ask(ActivationCondition, n.ActivationCondition); failed {
			return held
		}
	}
	if active.Met || n.DeleteInactive {
		if stopped, o := v.delete(active.Met); stopped {
			return o
		}
	}
	if active.Met {
		return v.leave(Deleted, "", gone)
	}
	if v.call(Deactivation, n.Deactivate) {
		return held
	}
	return v.leave(Inactive, active.Reason, gone)
}

// delete calls Delete; stopped says that the node is not gone.
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
		return true, held
	}
	isGone := n.DeletePostcondition
	if isGone == nil {
		isGone = n.Gone
	}
	if absent, failed := v.ask(DeletePostcondition, isGone); failed {
		return true, held
	} else if !absent.Met {
		return true, v.leave(Deleting, absent.Reason, held)
	}
	return false, gone
}

// activate lets the node hold what it reads from, once in a pass; stopped says that this is not done.
func (v *visit[C]) activate() (stopped bool, o outcome) {
	if _, done := v.result.Answer(Activation); done {
		return false, there
	}
	if done, failed := v.ask(Activation, v.node.Activate); failed {
		return true, held
	} else if !done.Met {
		return true, v.leave(Waiting, done.Reason, held)
	}
	return false, there
}

// ask asks a condition; without one, the answer is yes. If there is none because it failed, or because the pass has
// been cancelled, the state of the node says so.
func (v *visit[C]) ask(step Step, condition Condition[C]) (verdict Verdict, failed bool) {
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

// call calls a function, unless the pass has been cancelled.
func (v *visit[C]) call(step Step, function func(context.Context, C) error) (failed bool) {
	if function == nil {
		return false
	}
	if v.ctx.Err() != nil {
		v.leave(Cancelled, "", held)
		return true
	}
	v.step = step
	if err := author.Sound(function(v.ctx, v.c)); err != nil {
		v.fail(err)
		return true
	}
	return false
}

// fail leaves the node failed, or cancelled if that is what its function reports.
func (v *visit[C]) fail(err error) outcome {
	v.result.Err = &NodeError{Node: v.node.Name, Step: v.step, Err: err}
	state := Failed
	if cancellation(v.ctx, err) {
		state = Cancelled
	}
	return v.leave(state, v.step.String()+": "+author.Text(err), held)
}

// leave sets the state of the node.
func (v *visit[C]) leave(state State, reason string, o outcome) outcome {
	v.result.State, v.result.Reason = state, reason
	return o
}
