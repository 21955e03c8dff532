package workflow

import (
	"context"
	"reflect"
	"runtime"
)

// Served marks an activation condition that reports whether the platform serves the type of a node:
// while it is not met, nothing of that type exists. It returns a condition with the same verdicts,
// for which [IsServed] is true. Use it for your own conditions; those of package dependent are
// already marked.
//
// Packages that must be certain that nothing is left use the mark. An inactive node counts as
// absent, which is true only if its type does not exist, or if it has DeleteInactive.
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

// unanswered is a condition to compare with. It is never called.
func unanswered[C any](context.Context, C) (Verdict, error) { return Verdict{}, nil }

// literal returns the name of the function literal behind a condition. All results of Served share
// one name, because Served is never inlined; its code may exist several times, for several types.
func literal[C any](condition Condition[C]) string {
	return runtime.FuncForPC(reflect.ValueOf(condition).Pointer()).Name()
}
