package write

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/trc"
)

// execute sends a write until its fate is known, and lays the answer over the caches.
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
		err = nil // that is the matter of who gets the answer
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

// take notes what the answer proves before it is laid over the caches: what these then tell of it is
// explained already.
func (w *Writer) take(ctx context.Context, q Request, got client.Answer) {
	gvk, proof := q.resource.GVK, q.proof(got)
	if w.inRun() && !q.options.Unfiltered && (proof.Created || proof.Base != "") && w.Port.Comparable(gvk) {
		w.prove(trc.Edge{UID: got.GetUID(), From: proof.Base, To: got.GetResourceVersion()})
		w.recordProof(got, proof)
	} else {
		w.noteUnproven(q, got.Object, got.GetResourceVersion())
	}
	w.acknowledge(ctx, gvk, got, proof)
	if q.base != nil && got.Undecodable == nil {
		w.follow(q, got.Object)
	}
}

// prove notes what is proven.
func (w *Writer) prove(edge trc.Edge) {
	w.mu.Lock()
	if w.page == nil {
		w.page = w.Port.Ledger.Open(w.Run)
	}
	page := w.page
	w.mu.Unlock()
	page.Record(edge)
}

// acknowledge lays what the server said of an object over the caches of its kind.
func (w *Writer) acknowledge(ctx context.Context, gvk schema.GroupVersionKind, got client.Answer, proof trc.Proof) {
	w.MarkWritten(gvk)
	w.Port.Acknowledge(ctx, gvk, got, proof)
}

// acknowledgeGone takes the object out of the caches of its kind.
func (w *Writer) acknowledgeGone(gvk schema.GroupVersionKind, o trc.Object) {
	w.MarkWritten(gvk)
	w.Port.AcknowledgeGone(gvk, o)
}

// MarkWritten notes that the caches of a kind are about to be told something.
func (w *Writer) MarkWritten(gvk schema.GroupVersionKind) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.written == nil {
		w.written = map[schema.GroupKind]bool{}
	}
	w.written[gvk.GroupKind()] = true
}

// deleted takes in the answer to a deletion.
func (w *Writer) deleted(ctx context.Context, q Request, got client.Answer, lost bool, err error) error {
	gvk := q.resource.GVK
	if apierrors.IsConflict(err) {
		// The name may belong to no object or to another one by now, or, with IfUnchanged, to a newer version.
		live, _, readErr := w.read(ctx, q.resource, q.key)
		switch {
		case apierrors.IsNotFound(readErr):
			err = nil
		case live.Object != nil && live.GetUID() != q.deletes.GetUID():
			return nil // that another has the name says more than the version that the author's had
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
		w.noteUnproven(q, q.deletes, "")
	}
	if got.Object == nil || isGone(got.Object) {
		w.acknowledgeGone(gvk, q.deletes)
		return nil
	}
	w.acknowledge(ctx, gvk, got, trc.Proof{})
	return nil
}
