package workflow

import (
	"context"
	"reflect"
	"runtime"
)

// Served marks an activation condition that says whether the platform serves the type of a node: while it is not met, nothing
// of that type exists. It returns a condition with the same answers, of which [IsServed] is true. Use it for conditions of
// your own; those of package dependent are marked already.
//
// Packages that must know that nothing is left use the mark. A node that is inactive counts as absent, which is true only if
// its type does not exist, or if it has DeleteInactive.
//
//go:noinline
func Served[C any](condition Condition[C]) Condition[C] {
	if condition == nil {
		return nil
	}
	return func(ctx context.Context, c C) (Verdict, error) { return condition(ctx, c) }
}

// IsServed reports whether [Served] has returned the condition.
func IsServed[C any](condition Condition[C]) bool {
	return condition != nil && literal(condition) == literal(Served(unanswered[C]))
}

// unanswered is a condition to compare with. It is never asked.
func unanswered[C any](context.Context, C) (Verdict, error) { return Verdict{}, nil }

// literal names the function literal that a condition is. All that Served returns is one, as it is never inlined; its code may be there
// several times, for several types.
func literal[C any](condition Condition[C]) string {
	return runtime.FuncForPC(reflect.ValueOf(condition).Pointer()).Name()
}
