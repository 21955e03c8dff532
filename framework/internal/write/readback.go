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

// Live reads an object from the API server for the author, who owns it.
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

// read reads an object from the API server, and adds it to the caches; see Cluster.Read.
func (w *Writer) read(ctx context.Context, r *client.Client, key trc.Key) (found client.Answer, missed bool, err error) {
	w.MarkWritten(r.GVK)
	return w.Port.Read(ctx, r, key)
}

// refused handles a refusal. If it says that the caches are behind, it reads the object, so that
// the next run does not meet the same outdated view. lost says that an earlier attempt may have
// been carried out: then our own write may be the reason for the refusal.
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
	case lost: // it says nothing of the earlier attempt: rights may have been revoked in between
		return w.unknown(ctx, q, lost, err)
	default:
		return err
	}
	live, readErr := w.readBack(ctx, q)
	if readErr != nil {
		q.creates = false // the object is known to exist; the next run begins with the read
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

// unread joins a refusal with the reason why the present version could not be read. If the server
// is too busy for the read, neither is a failure.
func unread(stale, readErr error) error {
	err := errors.Join(stale, readErr)
	if busy := Classify(readErr); busy.Class == retry.Soon {
		return retry.Refused(err, busy.NotBefore)
	}
	return err
}

// unknown handles a write of unknown outcome by reading the object, so that no later view is older.
// A create may still be on its way, and without the read nothing is known: then the next run begins
// with it.
func (w *Writer) unknown(ctx context.Context, q Request, lost bool, fate error) error {
	_, readErr := w.readBack(ctx, q)
	if readErr != nil || (q.creates && (lost || !hasFailed(fate))) {
		w.leave(q)
	}
	return errors.Join(fate, readErr)
}

// leave leaves a write of unknown outcome to the next run of the primary.
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

// resolve finds out the outcome of a write that an earlier run left. It repeats a create, as only
// that prevents one in flight from being carried out later. It reads the object of other writes.
// After an error, q is what is still to be found out.
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
		*q = left[0] // it may only have to be read
		return err
	}
	// If the server fails on it, for instance at an admission webhook, it has ended as well: nothing
	// of it comes later, and only a run can decide whether the object is still wanted.
	if err == nil || apierrors.IsAlreadyExists(err) || IsAnswer(err) || hasFailed(err) {
		return nil
	}
	return err
}

// found is the result of a consistent read. Object is nil if there is none.
type found struct {
	trc.Object
	missed      bool  // caches had shown an object that does not exist
	undecodable error // why there is only metadata; nil if it is complete
}

// readBack reads the object consistently and adds it, or its absence, to the caches. Of an
// undecodable object it returns the metadata.
func (w *Writer) readBack(ctx context.Context, q Request) (found, error) {
	live, missed, err := w.read(ctx, q.resource, q.key)
	switch {
	case apierrors.IsNotFound(err):
		// If no cache had the object, something else is missing: a namespace, a sub-resource.
		return found{missed: missed}, nil
	case err != nil && live.Object == nil:
		return found{}, fmt.Errorf("framework: get %s: %w", q.resource.Describe(q.key), err)
	}
	return found{Object: live.Object, undecodable: live.Undecodable}, nil
}

// isGone reports whether an answer to a write says that the object no longer exists. The server
// answers with the last state of the object if a deletion took effect at once, or if the last
// finalizer was removed.
func isGone(answer trc.Object) bool {
	if len(answer.GetFinalizers()) > 0 || hasSpecFinalizers(answer) {
		return false
	}
	grace := answer.GetDeletionGracePeriodSeconds()
	return answer.GetDeletionTimestamp() == nil || grace == nil || *grace == 0
}

// hasSpecFinalizers reports whether a namespace has finalizers in its spec. It is the only kind
// with them.
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
