package planning

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
)

// Plan is asked before a run begins, and before anything is done that no dry run can show.
type Plan interface {
	// Expects is called once, with the names of all controllers.
	Expects(controllers []string)
	// Starts is called when the caches of a controller are filled and before its first run, with the
	// primaries that are due. exists reports whether a primary still exists.
	Starts(controller string, due []types.NamespacedName, exists func(types.NamespacedName) bool)
	// Begins is called before a run. It returns the context of the run, and the function to call when
	// it has ended. The run must not begin if that is nil.
	Begins(ctx context.Context, controller string, primary types.NamespacedName) (context.Context, Ends)
	// Withhold records a change outside of the cluster that is not made.
	Withhold(ctx context.Context, what string)
	// Refuse records what cannot be planned, and returns the error for it.
	Refuse(ctx context.Context, what string) error
}

// Ends ends a run. again says that the run had no effect yet, or waits for a source: the primary
// needs another one.
type Ends func(failure error, again bool)

type contextKey struct{}

// With returns a context with a plan.
func With(ctx context.Context, p Plan) context.Context {
	return context.WithValue(ctx, contextKey{}, p)
}

// Of returns the plan of a context, or nil.
func Of(ctx context.Context) Plan {
	p, _ := ctx.Value(contextKey{}).(Plan)
	return p
}
