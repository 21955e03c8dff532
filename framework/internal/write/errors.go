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

// Classify returns what follows a failure; see framework.Classify.
func Classify(err error) retry.Verdict {
	if errors.Is(err, ErrTooLarge) {
		return retry.Verdict{Class: retry.NotAgain}
	}
	if seconds, _ := apierrors.SuggestsClientDelay(err); seconds > 0 || apierrors.IsTooManyRequests(err) {
		return retry.Verdict{Class: retry.Soon, NotBefore: time.Duration(seconds) * time.Second}
	}
	return retry.Verdict{}
}

// Conflict is the refusal of a write that was computed from an outdated view. The present version
// has been read and added to the caches.
type Conflict struct {
	error
	Live trc.Object // the present version; nil if there is none
	// undecodable is why Live is only metadata; nil if Live is complete.
	undecodable error
}

// Unwrap returns the refusal.
func (c *Conflict) Unwrap() error { return c.error }

// IsStale reports whether a refusal says that the object no longer has that version or UID. A field
// that another field manager owns is a different kind of conflict: reading again does not help.
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

// ErrRunEnded is the error of writes of a run, or of an operator, that has ended.
var ErrRunEnded = errors.New("framework: the run has ended; its Context can no longer be used")

// ErrStandby is the error of writes while another instance leads, and of a run that began before
// the lease was lost.
var ErrStandby = errors.New("framework: this instance does not hold the lease")

// ErrTooLarge is the error of a write that the API server cannot store.
var ErrTooLarge error = conditions.StallError("framework: the object is too large for the API server to store; keep large data elsewhere and refer to it")
