package client

import (
	"context"
	"fmt"
	"time"
)

// requestTimeout is the timeout of one attempt of a write, after which its outcome is unknown, and
// of one read. The API server gives up after 60 s at the latest.
const requestTimeout = 30 * time.Second

var errNoAnswer = fmt.Errorf("no answer after %v", requestTimeout)

// WithRequestTimeout returns a context with the timeout of one request.
func WithRequestTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, requestTimeout, errNoAnswer)
}
