package write

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/trc"
)

// Request is one write: the request to the API server, and what its answer proves.
type Request struct {
	verb     string
	resource *client.Client
	key      trc.Key
	options  Options
	send     func(context.Context) (client.Answer, error)

	// base is the object whose version and UID the request carries; nil if it carries none.
	base trc.Object
	// deletes is the object to delete; nil for other writes.
	deletes trc.Object
	// creates says that the request is a POST. applies says that the status 201 means that the request
	// created the object.
	creates, applies bool
	// optimistic says that the caller handles the refusal of an outdated version itself.
	optimistic bool
	// once says that the request must not be repeated if its outcome is unknown.
	once bool
	// generated is the object of a create whose name was generated; nil for other writes.
	generated trc.Object
	// port is the API server of the request. An exchange sets it.
	port *Port
}

// describe returns the verb and the object, for errors and records.
func (q *Request) describe() string {
	verb := q.verb
	if len(q.options.Subresource) > 0 {
		verb += " " + q.options.Subresource[0] + " of"
	}
	return verb + " " + q.resource.Describe(q.key)
}

// proof returns what the answer proves: nothing came between the base, or the absence of the
// object, and the answer.
func (q *Request) proof(got client.Answer) trc.Proof {
	switch {
	case got.Created && (q.creates || q.applies):
		return trc.Proof{Created: true}
	case q.base != nil && q.base.GetUID() == got.GetUID():
		return trc.Proof{Base: q.base.GetResourceVersion()}
	}
	return trc.Proof{}
}

// carriedOut returns the object of a write that was carried out, or an error if it is undecodable.
func (q *Request) carriedOut(o trc.Object, undecodable error) (trc.Object, error) {
	if undecodable != nil {
		return nil, fmt.Errorf("framework: %s: it was carried out: %w: %w", q.describe(), client.ErrUndecodable, undecodable)
	}
	return o, nil
}

// exchange is one request of a writer, from before it is sent until its outcome is known and the
// caches show it. It is not safe for concurrent use.
type exchange struct {
	Request
	w *Writer
	// lost says that an attempt had no answer: the server may have carried it out.
	lost bool
	// meeting is what the write meets, if it is of a run.
	meeting meeting
}

// exchange returns the exchange of a request, which is not sent yet.
func (w *Writer) exchange(q Request) *exchange {
	q.port = w.Port
	return &exchange{Request: q, w: w}
}

// sendPatch sends a patch or an apply, as it is encoded.
func (w *Writer) sendPatch(ctx context.Context, q Request, kind types.PatchType, body []byte) (trc.Object, error) {
	q.send = func(ctx context.Context) (client.Answer, error) {
		return q.resource.Patch(ctx, q.key, kind, body, q.options.Options)
	}
	return w.exchange(q).execute(ctx)
}

// execute sends a write until its outcome is known, and adds the answer to the caches.
func (x *exchange) execute(ctx context.Context) (trc.Object, error) {
	ctx, done, err := x.w.enter(ctx, x.verb, x.resource, x.key)
	if err != nil {
		return nil, err
	}
	defer done()
	if err := x.port.AwaitRoom(ctx, x.resource.GVK); err != nil {
		return nil, fmt.Errorf("framework: %s: %w", x.describe(), err)
	}
	x.meeting = x.meets()
	got, err := x.definite(ctx)
	if x.lost || isOutcomeUnknown(err) {
		x.meeting.missed(x)
	}
	if got.Undecodable != nil {
		err = nil // that it is undecodable concerns only the caller
	}
	switch {
	case x.deletes != nil:
		return nil, x.deleted(ctx, got, err)
	case x.generated != nil && err != nil && (x.lost || isOutcomeUnknown(err)):
		return x.exists(ctx, err)
	case err != nil:
		return nil, x.refused(ctx, err)
	case x.options.DryRun:
	case got.Object == nil:
		return x.readCarriedOut(ctx, got)
	case got.GetDeletionTimestamp() != nil && isGone(got.Object):
		x.acknowledgeGone(got.Object)
	default:
		x.take(ctx, got)
	}
	return x.carriedOut(got.Object, got.Undecodable)
}

// take records what the answer proves, then adds the answer to the caches. In this order the events
// of the caches are already explained.
func (x *exchange) take(ctx context.Context, got client.Answer) {
	w, proof := x.w, x.proof(got)
	if w.Run.isRun() && !x.options.Unfiltered && (proof.Created || proof.Base != "") && x.port.Comparable(x.resource.GVK) {
		w.answers.prove(x.port.Ledger, w.Run.By, trc.Edge{UID: got.GetUID(), From: proof.Base, To: got.GetResourceVersion()})
		w.Run.Record.proof(got, proof)
	} else {
		x.recordUnproven(got.Object, got.GetResourceVersion())
	}
	x.meeting.answered(got)
	x.acknowledge(ctx, got, proof)
	x.meeting.end(x)
	if x.base != nil && got.Undecodable == nil {
		w.primary.follow(&x.Request, got.Object)
	}
}

// recordUnproven records a write of a run without a proof.
func (x *exchange) recordUnproven(o trc.Object, version string) {
	if !x.w.Run.isRun() {
		return
	}
	what := Unproven{o.GetUID(), version, x.describe()}
	if x.w.Loops != nil && x.w.primary.heldAs(x.resource, x.key) != nil {
		x.w.Loops.Wrote(x.key, what)
	}
	x.w.Run.Record.wrote(what)
}

// acknowledge adds an object from the server to the caches of its kind. If one cannot show it, the
// run may have failed to read it, so the event that brings it needs another run.
func (x *exchange) acknowledge(ctx context.Context, got client.Answer, proof trc.Proof) {
	x.w.answers.mark(x.resource.GVK)
	if !x.port.Acknowledge(ctx, x.resource.GVK, got, proof) {
		x.w.answers.doubt(got.GetUID())
	}
}

// acknowledgeGone removes an object from the caches of its kind.
func (x *exchange) acknowledgeGone(o trc.Object) {
	x.w.answers.mark(x.resource.GVK)
	x.port.AcknowledgeGone(x.resource.GVK, o)
}

// deleted handles the answer to a deletion.
func (x *exchange) deleted(ctx context.Context, got client.Answer, err error) error {
	if apierrors.IsConflict(err) {
		// The object may be deleted or replaced, or, with IfUnchanged, it may have a newer version.
		live, _, readErr := x.w.read(ctx, x.resource, x.key)
		switch {
		case apierrors.IsNotFound(readErr):
			err = nil
		case live.Object != nil && live.GetUID() != x.deletes.GetUID():
			return nil // the object was replaced: this says more than its version
		case live.Object != nil && x.options.IfUnchanged:
			return x.refused(ctx, err)
		case readErr != nil && live.Object == nil:
			err = unread(err, readErr)
		}
	}
	switch {
	case isOutcomeUnknown(err), x.lost && err != nil && !apierrors.IsNotFound(err):
		return x.unknown(ctx, fmt.Errorf("framework: %s: %w", x.describe(), err))
	case err != nil && !apierrors.IsNotFound(err):
		return fmt.Errorf("framework: %s: %w", x.describe(), err)
	case x.options.DryRun:
		return nil
	}
	if err == nil {
		x.recordUnproven(x.deletes, "")
		x.recordDeletion(got.Object)
	}
	if got.Object == nil || isGone(got.Object) {
		x.acknowledgeGone(x.deletes)
		return nil
	}
	x.acknowledge(ctx, got, trc.Proof{})
	return nil
}
