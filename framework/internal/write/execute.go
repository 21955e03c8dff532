package write

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/trc"
)

// execute sends a write until its outcome is known, and adds the answer to the caches.
func (w *Writer) execute(ctx context.Context, q Request) (trc.Object, error) {
	ctx, done, err := w.enter(ctx, underway{q.verb, q.resource, q.key, w.Run})
	if err != nil {
		return nil, err
	}
	defer done()
	if err := w.Port.AwaitRoom(ctx, q.resource.GVK); err != nil {
		return nil, fmt.Errorf("framework: %s: %w", q.describe(), err)
	}
	got, lost, err := w.definite(ctx, q)
	if got.Undecodable != nil {
		err = nil // that it is undecodable concerns only the caller
	}
	switch {
	case q.deletes != nil:
		return nil, w.deleted(ctx, q, got, lost, err)
	case q.drawn != nil && err != nil && (lost || isOutcomeUnknown(err)):
		return w.exists(ctx, q, lost, err)
	case err != nil:
		return nil, w.refused(ctx, q, lost, err)
	case q.options.DryRun:
	case got.Object == nil:
		return w.readCarriedOut(ctx, q, got)
	case got.GetDeletionTimestamp() != nil && isGone(got.Object):
		w.acknowledgeGone(q.resource.GVK, got.Object)
	default:
		w.take(ctx, q, got)
	}
	return q.carriedOut(got.Object, got.Undecodable)
}

// take records what the answer proves, then adds the answer to the caches. In this order the events
// of the caches are already explained.
func (w *Writer) take(ctx context.Context, q Request, got client.Answer) {
	gvk, proof := q.resource.GVK, q.proof(got)
	if w.inRun() && !q.options.Unfiltered && (proof.Created || proof.Base != "") && w.Port.Comparable(gvk) {
		w.prove(trc.Edge{UID: got.GetUID(), From: proof.Base, To: got.GetResourceVersion()})
		w.recordProof(got, proof)
	} else {
		w.recordUnproven(q, got.Object, got.GetResourceVersion())
	}
	w.acknowledge(ctx, gvk, got, proof)
	if q.base != nil && got.Undecodable == nil {
		w.follow(q, got.Object)
	}
}

// prove records an edge in the ledger.
func (w *Writer) prove(edge trc.Edge) {
	w.mu.Lock()
	if w.page == nil {
		w.page = w.Port.Ledger.Open(w.Run)
	}
	page := w.page
	w.mu.Unlock()
	page.Record(edge)
}

// acknowledge adds an object from the server to the caches of its kind.
func (w *Writer) acknowledge(ctx context.Context, gvk schema.GroupVersionKind, got client.Answer, proof trc.Proof) {
	w.MarkWritten(gvk)
	w.Port.Acknowledge(ctx, gvk, got, proof)
}

// acknowledgeGone removes an object from the caches of its kind.
func (w *Writer) acknowledgeGone(gvk schema.GroupVersionKind, o trc.Object) {
	w.MarkWritten(gvk)
	w.Port.AcknowledgeGone(gvk, o)
}

// MarkWritten records that the caches of a kind are about to be changed by an answer.
func (w *Writer) MarkWritten(gvk schema.GroupVersionKind) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.written == nil {
		w.written = map[schema.GroupKind]bool{}
	}
	w.written[gvk.GroupKind()] = true
}

// deleted handles the answer to a deletion.
func (w *Writer) deleted(ctx context.Context, q Request, got client.Answer, lost bool, err error) error {
	gvk := q.resource.GVK
	if apierrors.IsConflict(err) {
		// The object may be deleted or replaced, or, with IfUnchanged, it may have a newer version.
		live, _, readErr := w.read(ctx, q.resource, q.key)
		switch {
		case apierrors.IsNotFound(readErr):
			err = nil
		case live.Object != nil && live.GetUID() != q.deletes.GetUID():
			return nil // the object was replaced: this says more than its version
		case live.Object != nil && q.options.IfUnchanged:
			return w.refused(ctx, q, false, err)
		case readErr != nil && live.Object == nil:
			err = unread(err, readErr)
		}
	}
	switch {
	case isOutcomeUnknown(err), lost && err != nil && !apierrors.IsNotFound(err):
		return w.unknown(ctx, q, lost, fmt.Errorf("framework: %s: %w", q.describe(), err))
	case err != nil && !apierrors.IsNotFound(err):
		return fmt.Errorf("framework: %s: %w", q.describe(), err)
	case q.options.DryRun:
		return nil
	}
	if err == nil {
		w.recordUnproven(q, q.deletes, "")
	}
	if got.Object == nil || isGone(got.Object) {
		w.acknowledgeGone(gvk, q.deletes)
		return nil
	}
	w.acknowledge(ctx, gvk, got, trc.Proof{})
	return nil
}
