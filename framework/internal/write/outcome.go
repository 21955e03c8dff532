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

// outcomeTimeout bounds how long a write of unknown fate is repeated: then the run fails, so that it shows.
const outcomeTimeout = time.Minute

// outcomePauses spaces the repetitions of a write of unknown fate.
var outcomePauses = retry.Policy{Initial: 20 * time.Millisecond, Max: 2 * time.Second, MaxElapsed: outcomeTimeout}

// definite sends a write until its fate is known: an answer, or a refusal. lost says that an attempt before
// the last was without one. If ctx or the time ends before, or the server names a time to come back, for which a
// worker is not to wait, the error is of an unknown fate.
func (w *Writer) definite(ctx context.Context, q Request) (got client.Answer, lost bool, err error) {
	var failures retry.State
	lost = q.tried
	for {
		if got, err = (client.Answer{}), error(ErrStandby); w.Port.Fence.Allowed() {
			noted := w.recordRequest(q)
			got, err = attempt(ctx, q)
			got.Noted = noted
		}
		switch {
		case err == nil || q.once, !lost && !isOutcomeUnknown(err), lost && IsAnswer(err), hasFailed(err):
			return got, lost, err
		}
		lost = true
		if seconds, _ := apierrors.SuggestsClientDelay(err); seconds > 0 {
			return client.Answer{}, true, fmt.Errorf("its fate is unknown: %w", err)
		}
		next, again := outcomePauses.Next(&failures)
		if !again {
			return client.Answer{}, true, fmt.Errorf("its fate is unknown after %v: %w", outcomeTimeout, err)
		}
		pause := time.NewTimer(next)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return client.Answer{}, true, fmt.Errorf("%w; its fate is unknown: %w", context.Cause(ctx), err)
		}
	}
}

func attempt(ctx context.Context, q Request) (client.Answer, error) {
	ctx, cancel := client.WithRequestTimeout(ctx)
	defer cancel()
	got, err := q.send(q.resource.Discreet(ctx))
	return got, client.DiscreetError(q.resource.GVK, err) // also of a request of the author's
}

// IsAnswer tells what was said about the request itself from the server or the way to it being out of order.
func IsAnswer(err error) bool {
	var status apierrors.APIStatus
	if errors.Is(err, client.ErrUndecodable) || errors.Is(err, client.ErrUnsent) || object.IsTooLarge(err) {
		return true
	}
	return errors.As(err, &status) && status.Status().Code < http.StatusInternalServerError && status.Status().Code != http.StatusTooManyRequests
}

// isOutcomeUnknown tells the errors after which nobody knows whether the write was carried out: the
// connection broke after the request had begun, or the server failed on it.
func isOutcomeUnknown(err error) bool {
	if err == nil || IsAnswer(err) || isDial(err) || errors.Is(err, ErrRunEnded) || errors.Is(err, ErrStandby) {
		return false
	}
	var status apierrors.APIStatus
	return !errors.As(err, &status) || status.Status().Code >= http.StatusInternalServerError
}

// hasFailed tells an attempt that the server has ended with an internal error, as when an admission webhook
// cannot be called: the same would come of repeating it, and nothing is on its way any more. What became of
// it, a read tells.
func hasFailed(err error) bool { return apierrors.IsInternalError(err) }

// isDial tells that the request never left.
func isDial(err error) bool {
	var failed *net.OpError
	return errors.As(err, &failed) && failed.Op == "dial"
}
