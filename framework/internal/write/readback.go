package write

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/evenkeel/evenkeel/framework/internal/cache"
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
	w.answers.mark(r.GVK)
	return w.Port.Read(ctx, r, key)
}

// LiveList lists objects from the API server for the author, and adds them to the caches; see
// Cluster.ListLive.
func (w *Writer) LiveList(ctx context.Context, r *client.Client, selected cache.Selection, yield func(trc.Object) bool) error {
	if err := w.Port.AwaitRoom(ctx, r.GVK); err != nil {
		return err
	}
	w.answers.mark(r.GVK)
	if err := w.Port.ListLive(ctx, r, selected, yield); err != nil {
		return fmt.Errorf("framework: list %s: %w", r.Describe(trc.Key{Namespace: selected.Namespace}), err)
	}
	return nil
}

// refused handles a refusal. If it says that the caches are behind, it reads the object, so that
// the next run does not meet the same outdated view. If an earlier attempt was lost, our own write
// may be the reason for the refusal.
func (x *exchange) refused(ctx context.Context, refusal error) error {
	if asField := x.port.fieldConflict(x.resource.Describe(x.key), refusal); asField != nil {
		return asField
	}
	stale := IsStale(refusal)
	if stale && x.optimistic {
		return refusal
	}
	err := fmt.Errorf("framework: %s: %w", x.describe(), refusal)
	exists := apierrors.IsAlreadyExists(refusal)
	switch {
	case object.IsTooLarge(refusal):
		return retry.Final(fmt.Errorf("framework: %s: %w: %w", x.describe(), ErrTooLarge, refusal))
	case isOutcomeUnknown(refusal):
		return x.unknown(ctx, err)
	case errors.Is(refusal, client.ErrUndecodable): // it was carried out
	case stale, exists, apierrors.IsNotFound(refusal):
	case x.lost: // it says nothing of the earlier attempt: rights may have been revoked in between
		return x.unknown(ctx, err)
	default:
		return err
	}
	live, readErr := x.readBack(ctx)
	if readErr != nil {
		x.creates = false // the object is known to exist; the next run begins with the read
		x.leave()
		if stale || x.lost && exists {
			return unread(err, readErr)
		}
		return errors.Join(err, readErr)
	}
	if stale || (x.lost && exists) || live.missed {
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
func (x *exchange) unknown(ctx context.Context, fate error) error {
	_, readErr := x.readBack(ctx)
	if readErr != nil || (x.creates && (x.lost || !hasFailed(fate))) {
		x.leave()
	}
	return errors.Join(fate, readErr)
}

// leave leaves a write of unknown outcome to the next run of the primary.
func (x *exchange) leave() {
	if x.w.Run.isRun() && !x.options.DryRun {
		x.w.Run.unresolved.add(x.Request)
	}
}

// found is the result of a consistent read. Object is nil if there is none.
type found struct {
	trc.Object
	missed      bool  // caches had shown an object that does not exist
	undecodable error // why there is only metadata; nil if it is complete
}

// readBack reads the object consistently and adds it, or its absence, to the caches. Of an
// undecodable object it returns the metadata.
func (x *exchange) readBack(ctx context.Context) (found, error) {
	live, missed, err := x.w.read(ctx, x.resource, x.key)
	switch {
	case apierrors.IsNotFound(err):
		// If no cache had the object, something else is missing: a namespace, a sub-resource.
		return found{missed: missed}, nil
	case err != nil && live.Object == nil:
		return found{}, fmt.Errorf("framework: get %s: %w", x.resource.Describe(x.key), err)
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
