package write

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/retry"
	"github.com/evenkeel/evenkeel/trc"
)

// Live reads an object past the caches for the author, who owns it.
func (w *Writer) Live(ctx context.Context, r *client.Client, key trc.Key) (trc.Object, error) {
	if err := w.Port.AwaitRoom(ctx, r.GVK); err != nil {
		return nil, err
	}
	found, _, err := w.read(ctx, r, key)
	if err != nil {
		return nil, fmt.Errorf("framework: get %s: %w", r.Describe(key), err)
	}
	return r.Formed(found), nil
}

// read reads an object past the caches, and has them show what was found; see cluster.read.
func (w *Writer) read(ctx context.Context, r *client.Client, key trc.Key) (found client.Answer, missed bool, err error) {
	w.MarkWritten(r.GVK)
	return w.Port.Read(ctx, r, key)
}

// refused follows a refusal that says that the caches are behind by a consistent read, so that the next
// run does not meet the same stale view. lost says that an earlier attempt may have been carried out: then
// the refusal may be our own doing.
func (w *Writer) refused(ctx context.Context, q Request, lost bool, refusal error) error {
	if asField := w.Port.fieldConflict(q.resource.Describe(q.key), refusal); asField != nil {
		return asField
	}
	stale := IsStale(refusal)
	if stale && q.optimistic {
		return refusal
	}
	err := fmt.Errorf("framework: %s: %w", q.describe(), refusal)
	exists := apierrors.IsAlreadyExists(refusal)
	switch {
	case object.IsTooLarge(refusal):
		return retry.Final(fmt.Errorf("framework: %s: %w: %w", q.describe(), ErrTooLarge, refusal))
	case isOutcomeUnknown(refusal):
		return w.unknown(ctx, q, lost, err)
	case errors.Is(refusal, client.ErrUndecodable): // it was carried out
	case stale, exists, apierrors.IsNotFound(refusal):
	case lost: // it says nothing of the attempt before, as when rights were revoked in between
		return w.unknown(ctx, q, lost, err)
	default:
		return err
	}
	live, readErr := w.readBack(ctx, q)
	if readErr != nil {
		q.creates = false // that there is an object is known; the next run begins with the read
		w.leave(q)
		if stale || lost && exists {
			return unread(err, readErr)
		}
		return errors.Join(err, readErr)
	}
	if stale || (lost && exists) || live.missed {
		return &Conflict{error: err, Live: live.Object, undecodable: live.undecodable}
	}
	return err
}

// unread joins the refusal of a stale view with why the present one could not be read. If the server has too much
// to do for that, neither is a failure.
func unread(stale, readErr error) error {
	err := errors.Join(stale, readErr)
	if busy := Classify(readErr); busy.Class == retry.Soon {
		return retry.Refused(err, busy.NotBefore)
	}
	return err
}

// unknown follows a write of unknown fate by a consistent read, so that no later view is older than it. A
// create may still be on its way; and without the read nothing is known: then the next run begins with it.
func (w *Writer) unknown(ctx context.Context, q Request, lost bool, fate error) error {
	_, readErr := w.readBack(ctx, q)
	if readErr != nil || (q.creates && (lost || !hasFailed(fate))) {
		w.leave(q)
	}
	return errors.Join(fate, readErr)
}

// leave leaves it to the next run of the primary to find out what became of a write.
func (w *Writer) leave(q Request) {
	if !w.inRun() || q.options.DryRun {
		return
	}
	q.port = w.Port
	w = w.Home()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unresolved = append(w.unresolved, q)
}

// resolve finds out what became of a write that a former run left: it repeats a create, as only that keeps
// one under way from coming later, and reads what others have done. What is still to be found out after an error
// stays in q.
func (w *Writer) resolve(ctx context.Context, q *Request) error {
	through := w.At(q.port)
	if !q.creates {
		_, err := through.readBack(ctx, *q)
		return err
	}
	q.tried = false // a refusal now is an answer: nothing of it comes later
	_, err := through.execute(ctx, *q)
	w.mu.Lock()
	left := w.unresolved
	w.unresolved = nil // the caller has it
	w.mu.Unlock()
	if len(left) > 0 {
		*q = left[0] // by now perhaps only to be read
		return err
	}
	// A server that fails on it, as at an admission webhook, has ended it as well: nothing of it comes later, and
	// only a run can tell whether it is still wanted.
	if err == nil || apierrors.IsAlreadyExists(err) || IsAnswer(err) || hasFailed(err) {
		return nil
	}
	return err
}

// found is what a consistent read found: no object if there is none, and missed if caches had shown one.
type found struct {
	trc.Object
	missed      bool
	undecodable error // why there is only its metadata; nil if there is all
}

// readBack reads the object consistently and lays it, or its absence, over the caches. Of one that is undecodable it
// returns the metadata.
func (w *Writer) readBack(ctx context.Context, q Request) (found, error) {
	live, missed, err := w.read(ctx, q.resource, q.key)
	switch {
	case apierrors.IsNotFound(err):
		// What no cache showed is missing for another reason: a namespace, a sub-resource.
		return found{missed: missed}, nil
	case err != nil && live.Object == nil:
		return found{}, fmt.Errorf("framework: get %s: %w", q.resource.Describe(q.key), err)
	}
	return found{Object: live.Object, undecodable: live.Undecodable}, nil
}

// isGone tells from the answer to a write whether the object no longer exists: the server answers so
// to a deletion that took effect at once, and to the removal of the last finalizer.
func isGone(answer trc.Object) bool {
	if len(answer.GetFinalizers()) > 0 || hasSpecFinalizers(answer) {
		return false
	}
	grace := answer.GetDeletionGracePeriodSeconds()
	return answer.GetDeletionTimestamp() == nil || grace == nil || *grace == 0
}

// hasSpecFinalizers knows the one kind whose finalizers stand elsewhere.
func hasSpecFinalizers(o trc.Object) bool {
	switch o := o.(type) {
	case *corev1.Namespace:
		return len(o.Spec.Finalizers) > 0
	case *unstructured.Unstructured:
		if o.GroupVersionKind() == corev1.SchemeGroupVersion.WithKind("Namespace") {
			list, _, _ := unstructured.NestedSlice(o.Object, "spec", "finalizers")
			return len(list) > 0
		}
	}
	return false
}
