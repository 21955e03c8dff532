package write

import (
	"errors"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/framework/conditions"
	"github.com/evenkeel/evenkeel/retry"
	"github.com/evenkeel/evenkeel/trc"
)

// Classify says what follows a failure; see [framework.Classify].
func Classify(err error) retry.Verdict {
	if errors.Is(err, ErrTooLarge) {
		return retry.Verdict{Class: retry.NotAgain}
	}
	if seconds, _ := apierrors.SuggestsClientDelay(err); seconds > 0 || apierrors.IsTooManyRequests(err) {
		return retry.Verdict{Class: retry.Soon, NotBefore: time.Duration(seconds) * time.Second}
	}
	return retry.Verdict{}
}

// Conflict is the refusal of a write that was computed from a view which is not the present one. The
// present one has been read and laid over the caches.
type Conflict struct {
	error
	Live trc.Object // nil if there is none
	// undecodable is why live is no more than metadata; nil if it is all.
	undecodable error
}

func (c *Conflict) Unwrap() error { return c.error }

// IsStale tells the refusals that say that the version or the UID is not the object's any more. Another
// field manager's claim is a conflict by name only: looking again does not help.
func IsStale(refusal error) bool {
	if apierrors.IsConflict(refusal) {
		return !apierrors.HasStatusCause(refusal, metav1.CauseTypeFieldManagerConflict)
	}
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(refusal) || !errors.As(refusal, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool { return c.Field == "metadata.uid" })
}

// ErrRunEnded refuses writes of a run that has ended, or of an operator that has.
var ErrRunEnded = errors.New("framework: the run has ended, its Context cannot be used any more")

// ErrStandby refuses writes while another instance leads, and those of a run that began before the lease was lost.
var ErrStandby = errors.New("framework: the operator stands by: it does not hold the lease")

// ErrTooLarge is the failure of a write that the API server cannot store.
var ErrTooLarge error = conditions.StallError("framework: the object is too large for the API server to store; keep large data elsewhere and refer to it")
