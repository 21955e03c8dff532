package framework

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/evenkeel/evenkeel/framework/internal/write"

	"github.com/evenkeel/evenkeel/framework/workflow"
	"github.com/evenkeel/evenkeel/scheduler"
	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// passes are those of a run through the workflow of its controller.
type passes struct {
	turn sync.Mutex // held during a pass

	mu      sync.Mutex // guards below; a leaf
	last    *workflow.Result
	cleanup *workflow.Result // the last that cleaned up
	noted   []timeline.Node  // for the record
}

// maxPasses bounds the passes of a run that its record tells of: the newest.
const maxPasses = 8

// errPassUnderWay is why a pass is cut that is asked for while there is one, be it by a node of that.
var errPassUnderWay = errors.New("framework: another pass of this run is under way")

// WorkflowResult returns what the newest pass of this run came to, nil if there was none: the controller has no [Workflow], or
// it is Explicit. Nobody must change it.
func (c *Context[P]) WorkflowResult() *workflow.Result { return c.run.lastResult() }

func (c *run) lastResult() *workflow.Result {
	c.passes.mu.Lock()
	defer c.passes.mu.Unlock()
	return c.passes.last
}

// ReconcileWorkflow makes a pass through the workflow of the controller, for one that is Explicit; any may make further ones. The
// result is complete; whether its errors fail the run is up to the caller: see [workflow.Result.Err]. Without a workflow it has no nodes.
//
// A pass ends with ctx and with the run. After the run, or while there is another pass of the same run, it does nothing: [workflow.Result.Cut] is
// [ErrRunEnded] or says so.
func (c *Context[P]) ReconcileWorkflow(ctx context.Context) *workflow.Result {
	return c.run.passOnDemand(ctx, workflow.Reconciling)
}

// CleanupWorkflow is [Context.ReconcileWorkflow] the other way: it deletes everything in reverse order. Cleanup keeps the finalizer until
// [workflow.Result.Gone].
func (c *Context[P]) CleanupWorkflow(ctx context.Context) *workflow.Result {
	return c.run.passOnDemand(ctx, workflow.CleaningUp)
}

// passOnDemand makes a pass that the author asks for.
func (c *run) passOnDemand(ctx context.Context, way workflow.Pass) *workflow.Result {
	ctx, cut := context.WithCancelCause(ctx)
	defer cut(nil)
	switch {
	case c.ended.Load():
		cut(write.ErrRunEnded)
	case c.passes.turn.TryLock():
		defer c.passes.turn.Unlock()
		defer context.AfterFunc(&c.life, func() { cut(context.Cause(&c.life)) })()
		return c.pass(ctx, way)
	default:
		cut(errPassUnderWay)
	}
	refused := c.controller.author.pass(ctx, c, way)
	refused.Cut = context.Cause(ctx) // also if there are no nodes
	return refused
}

// pass makes a pass, lets go of what only inactive nodes read, and keeps what it came to.
func (c *run) pass(ctx context.Context, way workflow.Pass) *workflow.Result {
	m := &c.controller.workflow
	result := c.controller.author.pass(ctx, c, way)
	for _, d := range m.dormant {
		if !slices.ContainsFunc(d.nodes, func(i int) bool { return result.Nodes[i].State != workflow.Inactive }) {
			c.controller.added.release(d.name, c)
		}
	}
	c.passes.keep(result, c.write.Recording)
	if m.exists && !c.ended.Load() {
		c.controller.keepResult(c, result)
	}
	return result
}

func (p *passes) keep(result *workflow.Result, noting bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = result
	if result.Pass == workflow.CleaningUp {
		p.cleanup = result
	}
	if !noting {
		return
	}
	for i := range result.Nodes {
		p.noted = append(p.noted, noteOf(result.Pass, &result.Nodes[i]))
	}
	if over := len(p.noted) - maxPasses*len(result.Nodes); over > 0 {
		p.noted = slices.Delete(p.noted, 0, over)
	}
}

func noteOf(pass workflow.Pass, n *workflow.NodeResult) timeline.Node {
	note := timeline.Node{
		Pass: pass.String(), Name: n.Name, State: n.State.String(), Because: n.Because, Reason: n.Reason, Started: n.Started, Duration: n.Duration,
	}
	if n.Err != nil {
		note.Err = n.Err.Error()
	}
	return note
}

// notes are for the record, which does not change if a pass ends after its run.
func (p *passes) notes() []timeline.Node {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.noted)
}

// cleaned is the last pass that cleaned up, nil if there was none.
func (p *passes) cleaned() *workflow.Result {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cleanup
}

// keepResult keeps the newest result of a primary, while that exists.
func (c *controller) keepResult(rc *run, result *workflow.Result) {
	c.workflow.newest.Store(rc.key, withoutDetails(result))
	// If it goes after that, forgetting it comes after that, too. Another one of its name has had no run yet.
	if c.isGone(rc.key, rc.primaryUID()) {
		c.workflow.newest.Delete(rc.key)
	}
}

// withoutDetails leaves out what may be any size.
func withoutDetails(result *workflow.Result) *workflow.Result {
	kept := *result
	copied := false
	for i := range kept.Nodes {
		answers := kept.Nodes[i].Answers
		if !slices.ContainsFunc(answers, func(a workflow.Answer) bool { return a.Detail != nil }) {
			continue
		}
		if !copied {
			kept.Nodes, copied = slices.Clone(kept.Nodes), true
		}
		answers = slices.Clone(answers)
		for j := range answers {
			answers[j].Detail = nil
		}
		kept.Nodes[i].Answers = answers
	}
	return &kept
}

// letGo ends what is kept for a primary that is gone: its holds on sources, and the newest result.
func (c *controller) letGo(primary trc.Key) {
	c.added.letGo(primary)
	c.loops.forget(primary)
	c.workflow.newest.Delete(primary)
}

// reconcileWorkflow makes the pass before Reconcile, and returns what ends the run before that.
func (c *controller) reconcileWorkflow(ctx context.Context, rc *run) error {
	if m := &c.workflow; !m.exists || m.explicit || rc.gone || rc.primary.GetDeletionTimestamp() != nil {
		return nil
	}
	return c.passEnds(rc.passOf(ctx, workflow.Reconciling))
}

// cleanupWorkflow makes the pass before Cleanup, unless that is left to it.
func (c *controller) cleanupWorkflow(ctx context.Context, rc *run) error {
	if !c.cleansUpBefore() {
		return nil
	}
	return c.passEnds(rc.passOf(ctx, workflow.CleaningUp))
}

func (c *controller) cleansUpBefore() bool {
	return c.workflow.exists && (!c.workflow.explicit || !c.hasCleanup)
}

// passOf makes a pass of the framework's own.
func (c *run) passOf(ctx context.Context, way workflow.Pass) *workflow.Result {
	c.passes.turn.Lock()
	defer c.passes.turn.Unlock()
	return c.pass(ctx, way)
}

// passEnds is what a pass ends the run with: not what is left to the author.
func (c *controller) passEnds(result *workflow.Result) error {
	err := result.Err()
	if err == nil || c.workflow.leaves && result.Cut == nil && !onlyConflicts(err) && !onlyNotSynced(err) {
		return nil
	}
	return passError(err)
}

// passError shows a panic of a node as one of the run.
func passError(err error) error {
	var panicked *workflow.PanicError
	if errors.As(err, &panicked) {
		return &nodePanicked{err, &scheduler.PanicError{Value: panicked.Value, Stack: panicked.Stack}}
	}
	return err
}

// nodePanicked is the failure of a pass in which a node panicked.
type nodePanicked struct {
	error
	panicked *scheduler.PanicError
}

func (n *nodePanicked) Unwrap() error { return n.error }

// As finds the panic as the scheduler knows it.
func (n *nodePanicked) As(target any) bool {
	if p, is := target.(**scheduler.PanicError); is {
		*p = n.panicked
		return true
	}
	return false
}

// notGone tells whether the workflow keeps the finalizer on, be it with an error: of a cleanup that failed, if
// nobody else brings a further run.
func (c *controller) notGone(rc *run) (bool, error) {
	if !c.cleansUpBefore() {
		return false, nil
	}
	last := rc.passes.cleaned()
	return !last.Gone(), passError(last.Err())
}

// cutShort is the failure of a run whose context ended in a pass, whatever the author makes of that.
func (c *run) cutShort(ctx context.Context) error {
	if last := c.lastResult(); last != nil && last.Cut != nil && ctx.Err() != nil {
		return fmt.Errorf("framework: the workflow was cut short: %w", context.Cause(ctx))
	}
	return nil
}

// hasMet tells whether nodes of the last pass met conflicts that are left to the author, who cannot know them: a further run
// looks again.
func (c *controller) hasMet(rc *run) bool {
	last := rc.lastResult()
	return c.workflow.leaves && !c.workflow.explicit && last != nil &&
		slices.ContainsFunc(last.Nodes, func(n workflow.NodeResult) bool { return n.Err != nil && onlyConflicts(n.Err) })
}

// hold holds a source for the primary. It returns why it may not be read yet; the primary is due when it may.
func (c *run) hold(d *dormant) (why, err error) {
	added := &c.controller.added
	if !added.isHeld(d.name, c) {
		if d.given != nil {
			err = c.controller.addSecondary(d.given, c, true)
		} else {
			err = c.controller.addSource(d.source, c, true)
		}
		if err != nil {
			return nil, err
		}
	}
	return added.awaits(d.name, c), nil
}
