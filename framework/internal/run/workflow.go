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
)

// workflowRuns holds the passes of one run through the workflow of its controller.
type workflowRuns struct {
	turn sync.Mutex // held during a pass

	mu       sync.Mutex       // guards the fields below; a leaf
	last     *workflow.Result // of the last pass
	cleanup  *workflow.Result // of the last pass that cleaned up
	recorded []timeline.Node  // for the record
}

// maxPasses is how many passes of a run its record keeps: the newest ones.
const maxPasses = 8

// errPassUnderWay is the error of a pass that is asked for while another one is under way. A node
// of that other pass may have asked.
var errPassUnderWay = errors.New("framework: this run already has a workflow run in progress")

// LastResult returns the result of the last pass of this run, nil if there was none.
func (c *Run) LastResult() *workflow.Result {
	c.workflowRuns.mu.Lock()
	defer c.workflowRuns.mu.Unlock()
	return c.workflowRuns.last
}

// PassOnDemand makes a pass that the author asks for.
func (c *Run) PassOnDemand(ctx context.Context, way workflow.Pass) *workflow.Result {
	ctx, cut := context.WithCancelCause(ctx)
	defer cut(nil)
	switch {
	case c.Ended.Load():
		cut(write.ErrRunEnded)
	case c.workflowRuns.turn.TryLock():
		defer c.workflowRuns.turn.Unlock()
		defer context.AfterFunc(&c.Life, func() { cut(context.Cause(&c.Life)) })()
		return c.pass(ctx, way)
	default:
		cut(errPassUnderWay)
	}
	refused := c.Controller.author.Pass(ctx, c, way)
	refused.Cut = context.Cause(ctx) // also if there are no nodes
	return refused
}

// pass makes a pass, releases the sources that only inactive nodes read, and keeps the result.
func (c *Run) pass(ctx context.Context, way workflow.Pass) *workflow.Result {
	m := &c.Controller.Workflow
	result := c.Controller.author.Pass(ctx, c, way)
	for _, d := range m.dormant {
		if !slices.ContainsFunc(d.nodes, func(i int) bool { return result.Nodes[i].State != workflow.Inactive }) {
			c.Controller.Sources.Release(d.Name, &c.visit)
		}
	}
	c.workflowRuns.keep(result, c.Writes.Record.On)
	if m.Exists && !c.Ended.Load() {
		execution{c.Controller, c}.keepResult(result)
	}
	return result
}

func (p *workflowRuns) keep(result *workflow.Result, recording bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = result
	if result.Pass == workflow.CleaningUp {
		p.cleanup = result
	}
	if !recording {
		return
	}
	for i := range result.Nodes {
		p.recorded = append(p.recorded, recordOf(result.Pass, &result.Nodes[i]))
	}
	if over := len(p.recorded) - maxPasses*len(result.Nodes); over > 0 {
		p.recorded = slices.Delete(p.recorded, 0, over)
	}
}

func recordOf(pass workflow.Pass, n *workflow.NodeResult) timeline.Node {
	note := timeline.Node{
		Pass: pass.String(), Name: n.Name, State: n.State.String(), Because: n.Because, Reason: n.Reason, Started: n.Started, Duration: n.Duration,
	}
	if n.Err != nil {
		note.Err = n.Err.Error()
	}
	return note
}

// records returns the nodes for the record. It is a copy: a pass may end after its run.
func (p *workflowRuns) records() []timeline.Node {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.recorded)
}

// cleaned returns the result of the last pass that cleaned up, nil if there was none.
func (p *workflowRuns) cleaned() *workflow.Result {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cleanup
}

// keepResult keeps the newest result of a primary while the primary exists.
func (e execution) keepResult(result *workflow.Result) {
	kept := withoutDetails(result)
	e.states.change(e.run.Key, func(s *primaryState) { s.result = kept })
	e.letGoIfGone(incarnation{e.run.Key, e.run.uid()})
}

// withoutDetails returns the result without the details of answers, which may be of any size.
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

// reconcileWorkflow makes the pass before Reconcile. It returns an error if that ends the run.
func (e execution) reconcileWorkflow(ctx context.Context) error {
	if m := &e.Workflow; !m.Exists || m.Explicit || e.run.Gone || e.run.Primary.GetDeletionTimestamp() != nil {
		return nil
	}
	return e.passEnds(e.run.passOf(ctx, workflow.Reconciling))
}

// cleanupWorkflow makes the pass before Cleanup, unless Cleanup asks for it. It returns an error if
// that ends the run.
func (e execution) cleanupWorkflow(ctx context.Context) error {
	if !e.cleansUpBefore() {
		return nil
	}
	return e.passEnds(e.run.passOf(ctx, workflow.CleaningUp))
}

func (e execution) cleansUpBefore() bool {
	return e.Workflow.Exists && (!e.Workflow.Explicit || !e.HasCleanup)
}

// passOf makes a pass that the framework asks for. It waits for one that is under way.
func (c *Run) passOf(ctx context.Context, way workflow.Pass) *workflow.Result {
	c.workflowRuns.turn.Lock()
	defer c.workflowRuns.turn.Unlock()
	return c.pass(ctx, way)
}

// passEnds returns the error of a pass that ends the run, nil if the error is left to the author.
func (e execution) passEnds(result *workflow.Result) error {
	err := result.Err()
	if err == nil || e.Workflow.Leaves && result.Cut == nil && !onlyConflicts(err) && !onlyNotSynced(err) {
		return nil
	}
	return PassError(err)
}

// PassError turns the panic of a node into a panic of the run. It returns other errors unchanged.
func PassError(err error) error {
	var panicked *workflow.PanicError
	if errors.As(err, &panicked) {
		return &nodePanicked{err, &scheduler.PanicError{Value: panicked.Value, Stack: panicked.Stack}}
	}
	return err
}

// nodePanicked is the error of a pass in which a node panicked.
type nodePanicked struct {
	error
	panicked *scheduler.PanicError
}

// Unwrap returns the error of the pass.
func (n *nodePanicked) Unwrap() error { return n.error }

// As finds the panic as a *scheduler.PanicError.
func (n *nodePanicked) As(target any) bool {
	if p, is := target.(**scheduler.PanicError); is {
		*p = n.panicked
		return true
	}
	return false
}

// notGone reports whether the workflow keeps the finalizer. It may return an error as well: the one
// of a cleanup that failed, if nothing else brings a further run.
func (e execution) notGone() (bool, error) {
	if !e.cleansUpBefore() {
		return false, nil
	}
	last := e.run.workflowRuns.cleaned()
	return !last.Gone(), PassError(last.Err())
}

// cutShort returns an error if the run's context ended during a pass, whatever the author makes of
// that.
func (c *Run) cutShort(ctx context.Context) error {
	if last := c.LastResult(); last != nil && last.Cut != nil && ctx.Err() != nil {
		return fmt.Errorf("framework: the workflow run was cancelled: %w", context.Cause(ctx))
	}
	return nil
}

// metConflict reports whether nodes of the last pass met conflicts although errors are left to the
// author. The author cannot know of these, so a further run looks again.
func (e execution) metConflict() bool {
	last := e.run.LastResult()
	return e.Workflow.Leaves && !e.Workflow.Explicit && last != nil &&
		slices.ContainsFunc(last.Nodes, func(n workflow.NodeResult) bool { return n.Err != nil && onlyConflicts(n.Err) })
}

// Hold holds a source for the primary. why is the reason why runs may not read it yet. The primary
// is due when they may.
func (c *Run) Hold(d *Dormant) (why, err error) {
	sources := &c.Controller.Sources
	if !sources.IsHeld(d.Name, &c.visit) {
		if d.given != nil {
			err = Holder{c.Controller, c}.AddSecondary(d.given, true)
		} else {
			err = Holder{c.Controller, c}.AddSource(d.Source, true)
		}
		if err != nil {
			return nil, err
		}
	}
	return sources.Awaits(d.Name, &c.visit), nil
}
