// Package planning lets a plan hold the runs of an operator. Package plan implements [Plan] and
// passes it in the context of the operator:
//
//	op.Run(planning.With(ctx, plan))
//
// The contexts of runs and of their requests come from that one, so the rooms of the framework
// find the plan there. Without a plan, [Of] costs one lookup in the context.
//
// # Concurrency
//
// A Plan is called from many goroutines.
//
// # What it does not do
//
// It decides nothing, and sees no request.
package planning
