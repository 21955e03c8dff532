package framework

import (
	"context"

	"github.com/evenkeel/evenkeel/framework/workflow"
)

// WorkflowResult returns what the newest pass of this run came to, nil if there was none: the controller has no [Workflow], or
// it is Explicit. Nobody must change it.
func (c *Context[P]) WorkflowResult() *workflow.Result { return c.run.LastResult() }

// ReconcileWorkflow makes a pass through the workflow of the controller, for one that is Explicit; any may make further ones. The
// result is complete; whether its errors fail the run is up to the caller: see [workflow.Result.Err]. Without a workflow it has no nodes.
//
// A pass ends with ctx and with the run. After the run, or while there is another pass of the same run, it does nothing: [workflow.Result.Cut] is
// [ErrRunEnded] or says so.
func (c *Context[P]) ReconcileWorkflow(ctx context.Context) *workflow.Result {
	return c.run.PassOnDemand(ctx, workflow.Reconciling)
}

// CleanupWorkflow is [Context.ReconcileWorkflow] the other way: it deletes everything in reverse order. Cleanup keeps the finalizer until
// [workflow.Result.Gone].
func (c *Context[P]) CleanupWorkflow(ctx context.Context) *workflow.Result {
	return c.run.PassOnDemand(ctx, workflow.CleaningUp)
}
