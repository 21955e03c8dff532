package run

import (
	"context"

	"github.com/evenkeel/evenkeel/framework/workflow"
)

// Author is what the author of a controller wrote, without the type of its primaries. [framework.reconcilerOf] is the only implementation.
type Author interface {
	// newRun returns an empty run with its writer, which is part of what the author gets.
	NewRun() *Run
	Reconcile(ctx context.Context, r *Run) (Update, error)
	// cleanup is only called if the controller hasCleanup, errorStatus if it showsErrors.
	Cleanup(ctx context.Context, r *Run) (Deletion, error)
	ErrorStatus(ctx context.Context, r *Run, failure error) ErrorStatus
	// pass makes a pass through the workflow.
	Pass(ctx context.Context, r *Run, way workflow.Pass) *workflow.Result
}
