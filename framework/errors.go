package framework

import (
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/framework/internal/write"
	"github.com/evenkeel/evenkeel/retry"
)

// FieldConflict is one field that another field manager owns with another value.
type FieldConflict struct {
	// Field is the path of the field, as in ".spec.replicas".
	Field string
	// Manager is the field manager that owns it, as the API server describes it.
	Manager string
}

// FieldConflictError is the error of an apply with [WithoutForce] that would have taken fields
// over. Reading again does not help, so the run fails.
type FieldConflictError struct {
	// Object is the kind and name of the object.
	Object string
	// Conflicts are the fields and their managers.
	Conflicts []FieldConflict

	refusal error
}

// Error names the fields and their managers.
func (e *FieldConflictError) Error() string {
	fields := make([]string, len(e.Conflicts))
	for i, c := range e.Conflicts {
		fields[i] = c.Field + " (" + c.Manager + ")"
	}
	return fmt.Sprintf("framework: apply %s: other field managers own %s", e.Object, strings.Join(fields, ", "))
}

// Unwrap returns the API server's refusal.
func (e *FieldConflictError) Unwrap() error { return e.refusal }

// asFieldConflict returns a FieldConflictError, or nil if the refusal has another reason.
func asFieldConflict(object string, refusal error) error {
	var status apierrors.APIStatus
	if !apierrors.HasStatusCause(refusal, metav1.CauseTypeFieldManagerConflict) || !errors.As(refusal, &status) {
		return nil
	}
	found := &FieldConflictError{Object: object, refusal: refusal}
	for _, cause := range status.Status().Details.Causes {
		if cause.Type != metav1.CauseTypeFieldManagerConflict {
			continue
		}
		// The message reads: conflict with "manager" using v1 at some time.
		manager := cause.Message
		if _, rest, ok := strings.Cut(manager, `"`); ok {
			if name, _, ok := strings.Cut(rest, `"`); ok {
				manager = name
			}
		}
		found.Conflicts = append(found.Conflicts, FieldConflict{Field: cause.Field, Manager: manager})
	}
	return found
}

// ErrTooLarge is wrapped by the error of a write of an object that the API server cannot store. An
// object may have about 1.5 MB. The run is not retried, because a retry would send the same.
var ErrTooLarge = write.ErrTooLarge

// Classify is the default of Classify in [ControllerOptions.Retry]. A classifier of your own may
// call it for errors that it does not handle itself.
//
//   - A temporary refusal (429, or any with Retry-After): a run follows soon, but not before the
//     time that the server names, which counts up to [retry.Policy.Patience].
//   - [ErrTooLarge]: not retried.
//   - Everything else: retried by the policy. This includes what the server found invalid, because
//     a change of a quota, a webhook or a definition may make it valid. It includes conflicts,
//     because the next run may still not see the cause. Conflicts of the framework's own writes do
//     not come here: the newer state has been read, and the run follows at once.
func Classify(err error) retry.Verdict { return write.Classify(err) }
