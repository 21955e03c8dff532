package workflow_test

import (
	"context"
	"errors"
	"testing"

	"github.com/evenkeel/evenkeel/framework/workflow"
)

type (
	one struct{ _ int }
	two struct{ _ string }
)

// TestServedMarksAConditionAndNothingElse: its answers are those of the condition.
func TestServedMarksAConditionAndNothingElse(t *testing.T) {
	checkMark[*one](t)
	checkMark[*two](t)
	checkMark[int](t)
	checkMark[one](t)
}

func checkMark[C any](t *testing.T) {
	t.Helper()
	failure := errors.New("no answer")
	plain := func(v workflow.Verdict, err error) workflow.Condition[C] {
		return func(context.Context, C) (workflow.Verdict, error) { return v, err }
	}
	var c C
	for _, answer := range []struct {
		verdict workflow.Verdict
		err     error
	}{{workflow.Met(), nil}, {workflow.Stalled("never"), nil}, {workflow.Verdict{}, failure}} {
		condition := plain(answer.verdict, answer.err)
		marked := workflow.Served(condition)
		if workflow.IsServed(condition) || !workflow.IsServed(marked) || !workflow.IsServed(workflow.Served(marked)) {
			t.Errorf("%T: marked: %v, before: %v", c, workflow.IsServed(marked), workflow.IsServed(condition))
		}
		if v, err := marked(t.Context(), c); v != answer.verdict || err != answer.err {
			t.Errorf("%T: the marked one answers %v, %v", c, v, err)
		}
	}
	if workflow.Served[C](nil) != nil || workflow.IsServed[C](nil) {
		t.Errorf("%T: what is no condition is marked", c)
	}
	around := workflow.Served(plain(workflow.Met(), nil))
	if workflow.IsServed(func(ctx context.Context, c C) (workflow.Verdict, error) { return around(ctx, c) }) {
		t.Errorf("%T: what asks a marked one, and perhaps more, is marked", c)
	}
}
