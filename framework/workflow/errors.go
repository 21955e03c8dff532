package workflow

import (
	"context"
	"errors"
	"fmt"

	"github.com/evenkeel/evenkeel/internal/author"
)

// NodeError is the failure of a node.
type NodeError struct {
	Node string
	// Step is the function that failed.
	Step Step
	Err  error
}

func (e *NodeError) Error() string {
	return fmt.Sprintf("workflow: node %q: %v: %s", e.Node, e.Step, author.Text(e.Err))
}

func (e *NodeError) Unwrap() error { return e.Err }

// PanicError is the failure of a function that panicked.
type PanicError struct {
	// Value is the value passed to panic.
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return "panic: " + author.Sprint(e.Value) }

// Unwrap returns the value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return author.Sound(err)
}

// ErrExited is the failure of a function that ended its goroutine (runtime.Goexit, as testing's
// FailNow does). If that is the caller's goroutine, the pass ends with it and there is no result.
var ErrExited = errors.New("the function ended its goroutine")

// cancellation reports whether an error means that the context has ended.
func cancellation(ctx context.Context, err error) bool {
	return ctx.Err() != nil &&
		(errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Cause(ctx)))
}
