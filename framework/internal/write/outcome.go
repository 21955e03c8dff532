package write

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/retry"
)

// outcomeTimeout is how long a write of unknown outcome is repeated. Then the run fails, so that
// the problem is visible.
const outcomeTimeout = time.Minute

// outcomePauses spaces the repetitions of a write of unknown outcome.
var outcomePauses = retry.Policy{Initial: 20 * time.Millisecond, Max: 2 * time.Second, MaxElapsed: outcomeTimeout}

// definite sends a write until its outcome is known: an answer, or a refusal. Attempts without an
// answer set lost. The error is of an unknown outcome if ctx or the time ends before, or if the
// server names a time to come back, which a worker must not wait for.
func (x *exchange) definite(ctx context.Context) (got client.Answer, err error) {
	var failures retry.State
	for {
		if got, err = (client.Answer{}), error(ErrStandby); x.port.Fence.Allowed() {
			number := x.w.Run.Record.request(&x.Request)
			got, err = x.attempt(ctx)
			got.Noted = number
		}
		switch {
		case err == nil || x.once, !x.lost && !isOutcomeUnknown(err), x.lost && IsAnswer(err), hasFailed(err):
			return got, err
		}
		x.lost = true
		if seconds, _ := apierrors.SuggestsClientDelay(err); seconds > 0 {
			return client.Answer{}, fmt.Errorf("its outcome is unknown: %w", err)
		}
		next, again := outcomePauses.Next(&failures)
		if !again {
			return client.Answer{}, fmt.Errorf("its outcome is unknown after %v: %w", outcomeTimeout, err)
		}
		pause := time.NewTimer(next)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return client.Answer{}, fmt.Errorf("%w; its outcome is unknown: %w", context.Cause(ctx), err)
		}
	}
}

// attempt sends a request once.
func (q *Request) attempt(ctx context.Context) (client.Answer, error) {
	ctx, cancel := client.WithRequestTimeout(ctx)
	defer cancel()
	got, err := q.send(q.resource.Discreet(ctx))
	return got, client.DiscreetError(q.resource.GVK, err) // also of a request of the author's
}

// IsAnswer reports whether an error is about the request itself. It returns false if the server, or
// the way to it, is out of order.
func IsAnswer(err error) bool {
	var status apierrors.APIStatus
	if errors.Is(err, client.ErrUndecodable) || errors.Is(err, client.ErrUnsent) || object.IsTooLarge(err) {
		return true
	}
	return errors.As(err, &status) && status.Status().Code < http.StatusInternalServerError && status.Status().Code != http.StatusTooManyRequests
}

// isOutcomeUnknown reports whether the write may or may not have been carried out: the connection
// broke after the request had begun, or the server failed on it.
func isOutcomeUnknown(err error) bool {
	if err == nil || IsAnswer(err) || isDial(err) || errors.Is(err, ErrRunEnded) || errors.Is(err, ErrStandby) {
		return false
	}
	var status apierrors.APIStatus
	return !errors.As(err, &status) || status.Status().Code >= http.StatusInternalServerError
}

// hasFailed reports whether the server has ended the attempt with an internal error, for instance
// because an admission webhook cannot be called. Repeating it would fail again, and nothing is
// still on its way. Only a read shows the outcome.
func hasFailed(err error) bool { return apierrors.IsInternalError(err) }

// isDial reports whether the request was never sent.
func isDial(err error) bool {
	var failed *net.OpError
	return errors.As(err, &failed) && failed.Op == "dial"
}
