package run

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

// workflowRuns are those of a run through the workflow of its controller.
type workflowRuns struct {
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

func (c *Run) LastResult() *workflow.Result {
	c.passes.mu.Lock()
	defer c.passes.mu.Unlock()
	return c.passes.last
}

// PassOnDemand makes a pass that the author asks for.
func (c *Run) PassOnDemand(ctx context.Context, way workflow.Pass) *workflow.Result {
	ctx, cut := context.WithCancelCause(ctx)
	defer cut(nil)
	switch {
	case c.Ended.Load():
		cut(write.ErrRunEnded)
	case c.passes.turn.TryLock():
		defer c.passes.turn.Unlock()
		defer context.AfterFunc(&c.Life, func() { cut(context.Cause(&c.Life)) })()
		return c.pass(ctx, way)
	default:
		cut(errPassUnderWay)
	}
	refused := c.Controller.author.Pass(ctx, c, way)
	refused.Cut = context.Cause(ctx) // also if there are no nodes
	return refused
}

// pass makes a pass, lets go of what only inactive nodes read, and keeps what it came to.
func (c *Run) pass(ctx context.Context, way workflow.Pass) *workflow.Result {
	m := &c.Controller.Workflow
	result := c.Controller.author.Pass(ctx, c, way)
	for _, d := range m.dormant {
		if !slices.ContainsFunc(d.nodes, func(i int) bool { return result.Nodes[i].State != workflow.Inactive }) {
			c.Controller.Added.release(d.Name, c)
		}
	}
	c.passes.keep(result, c.Write.Recording)
	if m.Exists && !c.Ended.Load() {
		c.Controller.keepResult(c, result)
	}
	return result
}

func (p *workflowRuns) keep(result *workflow.Result, noting bool) {
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
func (p *workflowRuns) notes() []timeline.Node {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.noted)
}

// cleaned is the last pass that cleaned up, nil if there was none.
func (p *workflowRuns) cleaned() *workflow.Result {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cleanup
}

// keepResult keeps the newest result of a primary, while that exists.
func (c *Controller) keepResult(rc *Run, result *workflow.Result) {
	c.Workflow.newest.Store(rc.Key, withoutDetails(result))
	// If it goes after that, forgetting it comes after that, too. Another one of its name has had no run yet.
	if c.isGone(rc.Key, rc.primaryUID()) {
		c.Workflow.newest.Delete(rc.Key)
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
func (c *Controller) letGo(primary trc.Key) {
	c.Added.letGo(primary)
	c.Loops.forget(primary)
	c.Workflow.newest.Delete(primary)
}

// reconcileWorkflow makes the pass before Reconcile, and returns what ends the run before that.
func (c *Controller) reconcileWorkflow(ctx context.Context, rc *Run) error {
	if m := &c.Workflow; !m.Exists || m.Explicit || rc.Gone || rc.Primary.GetDeletionTimestamp() != nil {
		return nil
	}
	return c.passEnds(rc.passOf(ctx, workflow.Reconciling))
}

// cleanupWorkflow makes the pass before Cleanup, unless that is left to it.
func (c *Controller) cleanupWorkflow(ctx context.Context, rc *Run) error {
	if !c.cleansUpBefore() {
		return nil
	}
	return c.passEnds(rc.passOf(ctx, workflow.CleaningUp))
}

func (c *Controller) cleansUpBefore() bool {
	return c.Workflow.Exists && (!c.Workflow.Explicit || !c.HasCleanup)
}

// passOf makes a pass of the framework's own.
func (c *Run) passOf(ctx context.Context, way workflow.Pass) *workflow.Result {
	c.passes.turn.Lock()
	defer c.passes.turn.Unlock()
	return c.pass(ctx, way)
}

// passEnds is what a pass ends the run with: not what is left to the author.
func (c *Controller) passEnds(result *workflow.Result) error {
	err := result.Err()
	if err == nil || c.Workflow.Leaves && result.Cut == nil && !onlyConflicts(err) && !onlyNotSynced(err) {
		return nil
	}
	return PassError(err)
}

// PassError shows a panic of a node as one of the run.
func PassError(err error) error {
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
func (c *Controller) notGone(rc *Run) (bool, error) {
	if !c.cleansUpBefore() {
		return false, nil
	}
	last := rc.passes.cleaned()
	return !last.Gone(), PassError(last.Err())
}

// cutShort is the failure of a run whose context ended in a pass, whatever the author makes of that.
func (c *Run) cutShort(ctx context.Context) error {
	if last := c.LastResult(); last != nil && last.Cut != nil && ctx.Err() != nil {
		return fmt.Errorf("framework: the workflow was cut short: %w", context.Cause(ctx))
	}
	return nil
}

// hasMet tells whether nodes of the last pass met conflicts that are left to the author, who cannot know them: a further run
// looks again.
func (c *Controller) hasMet(rc *Run) bool {
	last := rc.LastResult()
	return c.Workflow.Leaves && !c.Workflow.Explicit && last != nil &&
		slices.ContainsFunc(last.Nodes, func(n workflow.NodeResult) bool { return n.Err != nil && onlyConflicts(n.Err) })
}

// Hold holds a source for the primary. It returns why it may not be read yet; the primary is due when it may.
func (c *Run) Hold(d *Dormant) (why, err error) {
	added := &c.Controller.Added
	if !added.isHeld(d.Name, c) {
		if d.given != nil {
			err = c.Controller.AddSecondary(d.given, c, true)
		} else {
			err = c.Controller.AddSource(d.Source, c, true)
		}
		if err != nil {
			return nil, err
		}
	}
	return added.awaits(d.Name, c), nil
}
