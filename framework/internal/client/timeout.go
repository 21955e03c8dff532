package client

import (
	"context"
	"fmt"
	"time"
)

// requestTimeout bounds one attempt of a write, after which its fate is unknown, and one read. The API
// server gives up after 60 s at the latest by itself.
const requestTimeout = 30 * time.Second

var errNoAnswer = fmt.Errorf("no answer after %v", requestTimeout)

func WithRequestTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, requestTimeout, errNoAnswer)
}
