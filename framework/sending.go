package framework

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/retry"
	"github.com/evenkeel/evenkeel/trc"
)

// write is one write: what is asked of the API server, and what its answer proves.
type write struct {
	verb     string
	resource *client.Client
	key      trc.Key
	options  writeOptions
	send     func(context.Context) (client.Answer, error)

	// base is the object whose version and UID the request carries; nil if it carries none.
	base Object
	// deletes is the object to delete, nil for other writes.
	deletes Object
	// creates says that the request is a POST; applies, that 201 answers one that created.
	creates, applies bool
	// optimistic says that the caller handles the refusal of a stale version itself.
	optimistic bool
	// once says that the request must not be repeated if its fate is unknown.
	once bool
	// drawn is what a create sends under a name that was drawn for it at random; nil for other writes.
	drawn Object
	// tried says that the request was sent before, without an answer.
	tried bool
	// in is the cluster that it is left unresolved in.
	in *cluster
}

func (q *write) describe() string {
	verb := q.verb
	if len(q.options.Subresource) > 0 {
		verb += " " + q.options.Subresource[0] + " of"
	}
	return verb + " " + q.resource.Describe(q.key)
}

// proof is what the answer proves: that nothing came between the base, or nothing, and it.
func (q *write) proof(got client.Answer) trc.Proof {
	switch {
	case got.Created && (q.creates || q.applies):
		return trc.Proof{Created: true}
	case q.base != nil && q.base.GetUID() == got.GetUID():
		return trc.Proof{Base: q.base.GetResourceVersion()}
	}
	return trc.Proof{}
}

// execute sends a write until its fate is known, and lays the answer over the caches.
func (w *writer) execute(ctx context.Context, q write) (Object, error) {
	ctx, done, err := w.begin(ctx, request{q.verb, q.resource, q.key, w.run})
	if err != nil {
		return nil, err
	}
	defer done()
	if err := w.cluster.AwaitRoom(ctx, q.resource.GVK); err != nil {
		return nil, fmt.Errorf("framework: %s: %w", q.describe(), err)
	}
	got, lost, err := w.definite(ctx, q)
	if got.Undecodable != nil {
		err = nil // that is the matter of who gets the answer
	}
	switch {
	case q.deletes != nil:
		return nil, w.deleted(ctx, q, got, lost, err)
	case q.drawn != nil && err != nil && (lost || isFateUnknown(err)):
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

// carriedOut returns the object that a write was carried out on, or, if it is undecodable, an error that says so.
func (q *write) carriedOut(o Object, undecodable error) (Object, error) {
	if undecodable != nil {
		return nil, fmt.Errorf("framework: %s: it was carried out: %w: %w", q.describe(), client.ErrUndecodable, undecodable)
	}
	return o, nil
}

// take notes what the answer proves before it is laid over the caches: what these then tell of it is
// explained already.
func (w *writer) take(ctx context.Context, q write, got client.Answer) {
	gvk, proof := q.resource.GVK, q.proof(got)
	if w.inRun() && !q.options.unfiltered && (proof.Created || proof.Base != "") && w.cluster.Comparable(gvk) {
		w.record(trc.Edge{UID: got.GetUID(), From: proof.Base, To: got.GetResourceVersion()})
		w.noteProof(got, proof)
	} else {
		w.leftWithoutProof(q, got.Object, got.GetResourceVersion())
	}
	w.acknowledge(ctx, gvk, got, proof)
	if q.base != nil && got.Undecodable == nil {
		w.follow(q, got.Object)
	}
}

// record notes what is proven.
func (w *writer) record(edge trc.Edge) {
	w.mu.Lock()
	if w.page == nil {
		w.page = w.cluster.Ledger.Open(w.run)
	}
	page := w.page
	w.mu.Unlock()
	page.Record(edge)
}

// acknowledge lays what the server said of an object over the caches of its kind.
func (w *writer) acknowledge(ctx context.Context, gvk schema.GroupVersionKind, got client.Answer, proof trc.Proof) {
	w.wrote(gvk)
	w.cluster.Acknowledge(ctx, gvk, got, proof)
}

// read reads an object past the caches, and has them show what was found; see cluster.read.
func (w *writer) read(ctx context.Context, r *client.Client, key trc.Key) (found client.Answer, missed bool, err error) {
	w.wrote(r.GVK)
	return w.cluster.Read(ctx, r, key)
}

// acknowledgeGone takes the object out of the caches of its kind.
func (w *writer) acknowledgeGone(gvk schema.GroupVersionKind, o Object) {
	w.wrote(gvk)
	w.cluster.AcknowledgeGone(gvk, o)
}

// wrote notes that the caches of a kind are about to be told something.
func (w *writer) wrote(gvk schema.GroupVersionKind) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.written == nil {
		w.written = map[schema.GroupKind]bool{}
	}
	w.written[gvk.GroupKind()] = true
}

// deleted takes in the answer to a deletion.
func (w *writer) deleted(ctx context.Context, q write, got client.Answer, lost bool, err error) error {
	gvk := q.resource.GVK
	if apierrors.IsConflict(err) {
		// The name may belong to no object or to another one by now, or, with IfUnchanged, to a newer version.
		live, _, readErr := w.read(ctx, q.resource, q.key)
		switch {
		case apierrors.IsNotFound(readErr):
			err = nil
		case live.Object != nil && live.GetUID() != q.deletes.GetUID():
			return nil // that another has the name says more than the version that the author's had
		case live.Object != nil && q.options.ifUnchanged:
			return w.refused(ctx, q, false, err)
		case readErr != nil && live.Object == nil:
			err = unread(err, readErr)
		}
	}
	switch {
	case isFateUnknown(err), lost && err != nil && !apierrors.IsNotFound(err):
		return w.unknown(ctx, q, lost, fmt.Errorf("framework: %s: %w", q.describe(), err))
	case err != nil && !apierrors.IsNotFound(err):
		return fmt.Errorf("framework: %s: %w", q.describe(), err)
	case q.options.DryRun:
		return nil
	}
	if err == nil {
		w.leftWithoutProof(q, q.deletes, "")
	}
	if got.Object == nil || isGone(got.Object) {
		w.acknowledgeGone(gvk, q.deletes)
		return nil
	}
	w.acknowledge(ctx, gvk, got, trc.Proof{})
	return nil
}

// refused follows a refusal that says that the caches are behind by a consistent read, so that the next
// run does not meet the same stale view. lost says that an earlier attempt may have been carried out: then
// the refusal may be our own doing.
func (w *writer) refused(ctx context.Context, q write, lost bool, refusal error) error {
	if asField := asFieldConflict(q.resource.Describe(q.key), refusal); asField != nil {
		return asField
	}
	stale := isStale(refusal)
	if stale && q.optimistic {
		return refusal
	}
	err := fmt.Errorf("framework: %s: %w", q.describe(), refusal)
	exists := apierrors.IsAlreadyExists(refusal)
	switch {
	case object.IsTooLarge(refusal):
		return retry.Final(fmt.Errorf("framework: %s: %w: %w", q.describe(), ErrTooLarge, refusal))
	case isFateUnknown(refusal):
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
		return &conflict{error: err, live: live.Object, undecodable: live.undecodable}
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
func (w *writer) unknown(ctx context.Context, q write, lost bool, fate error) error {
	_, readErr := w.readBack(ctx, q)
	if readErr != nil || (q.creates && (lost || !hasFailed(fate))) {
		w.leave(q)
	}
	return errors.Join(fate, readErr)
}

// leave leaves it to the next run of the primary to find out what became of a write.
func (w *writer) leave(q write) {
	if !w.inRun() || q.options.DryRun {
		return
	}
	q.in = w.cluster
	w = w.ofHome()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unresolved = append(w.unresolved, q)
}

// resolve finds out what became of a write that a former run left: it repeats a create, as only that keeps
// one under way from coming later, and reads what others have done. What is still to be found out after an error
// stays in q.
func (w *writer) resolve(ctx context.Context, q *write) error {
	through := w.in(q.in)
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
	if err == nil || apierrors.IsAlreadyExists(err) || isAnswer(err) || hasFailed(err) {
		return nil
	}
	return err
}

// seen is what a consistent read found: no object if there is none, and missed if caches had shown one.
type seen struct {
	Object
	missed      bool
	undecodable error // why there is only its metadata; nil if there is all
}

// readBack reads the object consistently and lays it, or its absence, over the caches. Of one that is undecodable it
// returns the metadata.
func (w *writer) readBack(ctx context.Context, q write) (seen, error) {
	live, missed, err := w.read(ctx, q.resource, q.key)
	switch {
	case apierrors.IsNotFound(err):
		// What no cache showed is missing for another reason: a namespace, a sub-resource.
		return seen{missed: missed}, nil
	case err != nil && live.Object == nil:
		return seen{}, fmt.Errorf("framework: get %s: %w", q.resource.Describe(q.key), err)
	}
	return seen{Object: live.Object, undecodable: live.Undecodable}, nil
}

// isGone tells from the answer to a write whether the object no longer exists: the server answers so
// to a deletion that took effect at once, and to the removal of the last finalizer.
func isGone(answer Object) bool {
	if len(answer.GetFinalizers()) > 0 || hasSpecFinalizers(answer) {
		return false
	}
	grace := answer.GetDeletionGracePeriodSeconds()
	return answer.GetDeletionTimestamp() == nil || grace == nil || *grace == 0
}

// hasSpecFinalizers knows the one kind whose finalizers stand elsewhere.
func hasSpecFinalizers(o Object) bool {
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

// primary returns the primary as the run holds it, if the key is its; nil otherwise.
func (w *writer) primary(r *client.Client, key trc.Key) Object {
	if r.GVK != w.ownerGVK || key != trc.KeyOf(w.owner) {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.held
}

// follow takes the answer to a write of the primary as what the run holds, if the server carried it out
// on the version that the run held before: nothing foreign lies in between then.
func (w *writer) follow(q write, answer Object) {
	held := w.primary(q.resource, q.key)
	if held == nil || held.GetResourceVersion() != q.base.GetResourceVersion() || held.GetUID() != answer.GetUID() {
		return
	}
	if !q.options.internal { // the author may change it
		answer = answer.DeepCopyObject().(Object)
	}
	w.hold(answer)
}

// hold takes an object that is not changed any more as what the run holds of the primary.
func (w *writer) hold(primary Object) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = primary
}
