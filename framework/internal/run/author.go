package run

import (
	"context"

	"github.com/evenkeel/evenkeel/framework/workflow"
)

// Author is the code of a controller's author, without the Go type of its primaries. The only
// implementation is framework.reconcilerOf.
type Author interface {
	// NewRun returns an empty run with its writer. It is part of the Context that the author gets.
	NewRun() *Run
	// Reconcile calls the author's Reconcile.
	Reconcile(ctx context.Context, r *Run) (Update, error)
	// Cleanup calls the author's Cleanup. It must only be called if Controller.HasCleanup is true.
	Cleanup(ctx context.Context, r *Run) (Deletion, error)
	// ErrorStatus calls the author's ErrorStatusHandler. It must only be called if
	// Controller.ShowsErrors is true.
	ErrorStatus(ctx context.Context, r *Run, failure error) ErrorStatus
	// Pass makes a pass through the workflow.
	Pass(ctx context.Context, r *Run, way workflow.Pass) *workflow.Result
}
