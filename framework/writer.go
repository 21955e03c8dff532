package framework

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/evenkeel/evenkeel/trc"
)

// ErrRunEnded is what writes return once the run they belong to has ended.
var ErrRunEnded = errors.New("framework: the run has ended, its Context cannot write any more")

// Writes is what [Apply] and the other writing functions write through: a [Context] during its run.
type Writes interface {
	writer() *writer
}

// writer sends the writes of one run, and lays their answers over the caches before it returns them.
type writer struct {
	cluster      *cluster
	fieldManager string
	// mode is how secondaries are written by Apply.
	mode WriteMode
	// owner is the primary, for OwnedByPrimary.
	owner    Object
	ownerGVK schema.GroupVersionKind

	flying flight // the requests of the run

	mu       sync.Mutex // guards everything below; a leaf
	requests []string
	// held is the primary as the run knows it: as it was read, moved on by those of the run's own writes
	// that the server has proven to follow it directly.
	held Object
}

// Apply makes the object exist with the fields it sets, and leaves other fields alone: a server-side
// apply, or what [ControllerOptions.SecondaryWrites] says instead. desired is reduced to intent:
// status, managedFields and nulls are not sent. It returns what the server stored, which reads
// return from then on.
func Apply[T Object](ctx context.Context, c Writes, desired T, options ...WriteOption) (T, error) {
	w := c.writer()
	return typed[T](w.apply(ctx, desired, w.options(options)))
}

// ApplyStatus is [Apply] for the status sub-resource: only desired's status is sent, always by
// server-side apply. The object must exist.
func ApplyStatus[T Object](ctx context.Context, c Writes, desired T, options ...WriteOption) (T, error) {
	w := c.writer()
	return typed[T](w.applyStatus(ctx, desired, w.options(options)))
}

// Create creates the object. A generateName is resolved here, so that a create whose answer is lost
// can be told from one that never arrived. An object that exists already is an error that
// apierrors.IsAlreadyExists recognises.
func Create[T Object](ctx context.Context, c Writes, object T, options ...WriteOption) (T, error) {
	w := c.writer()
	return typed[T](w.create(ctx, object, w.options(options)))
}

// Update replaces the object (PUT). It must carry the resourceVersion it was read with: if the
// object changed since, the error is one that apierrors.IsConflict recognises.
func Update[T Object](ctx context.Context, c Writes, object T, options ...WriteOption) (T, error) {
	w := c.writer()
	return typed[T](w.update(ctx, object, w.options(options)))
}

// UpdateStatus is [Update] for the status sub-resource.
func UpdateStatus[T Object](ctx context.Context, c Writes, object T, options ...WriteOption) (T, error) {
	w := c.writer()
	return typed[T](w.update(ctx, object, w.options(options), "status"))
}

// Delete deletes the very object: it must carry the UID it was read with, and an object of the same
// name with another UID is left alone. One that is gone already is a success.
func Delete(ctx context.Context, c Writes, object Object, options ...WriteOption) error {
	w := c.writer()
	return w.delete(ctx, object, w.options(options))
}

func typed[T Object](o Object, err error) (T, error) {
	if err != nil {
		var none T
		return none, err
	}
	return o.(T), nil
}

// target resolves and checks what is common to all writes.
func (w *writer) target(ctx context.Context, o Object) (*resource, trc.Key, error) {
	gvk, err := gvkOf(w.cluster.scheme, o)
	if err != nil {
		return nil, trc.Key{}, err
	}
	r, err := w.cluster.resourceOf(ctx, o, gvk)
	if err != nil {
		return nil, trc.Key{}, err
	}
	key := trc.KeyOf(o)
	return r, key, r.checkScope(key)
}

func (w *writer) apply(ctx context.Context, desired Object, options writeOptions) (Object, error) {
	r, key, err := w.target(ctx, desired)
	if err != nil {
		return nil, err
	}
	if options.mode == ByPatch {
		return w.applyByPatch(ctx, r, key, desired, options)
	}
	if options.owned {
		if desired, err = privateCopy(desired); err != nil {
			return nil, err
		}
		if err := w.own(r, desired); err != nil {
			return nil, err
		}
	}
	intent, err := freshIntentOf(r, key, desired)
	if err != nil {
		return nil, err
	}
	delete(intent, "status")
	return w.sendApply(ctx, r, key, intent, options)
}

func (w *writer) applyStatus(ctx context.Context, desired Object, options writeOptions) (Object, error) {
	r, key, err := w.target(ctx, desired)
	if err != nil {
		return nil, err
	}
	intent, err := freshIntentOf(r, key, desired)
	if err != nil {
		return nil, err
	}
	return w.sendApply(ctx, r, key, statusOf(key, intent), options, "status")
}

// sendApply sends an intent. One about the primary is sent for the version that the run holds, so that
// what the run writes after it can build on it; if that is not the present one, the apply, which is
// about its own fields only, is sent for whatever is there. Either way only for the very object: an
// apply without a UID would create one that has vanished anew.
func (w *writer) sendApply(ctx context.Context, r *resource, key trc.Key, intent map[string]any, options writeOptions, subresource ...string) (Object, error) {
	held := w.primary(r, key)
	if held == nil {
		return w.sendIntent(ctx, r, key, intent, options, subresource...)
	}
	metadata := intent["metadata"].(map[string]any)
	metadata["uid"], metadata["resourceVersion"] = string(held.GetUID()), held.GetResourceVersion()
	answer, err := w.sendIntent(ctx, r, key, intent, options, subresource...)
	var met *conflict
	if errors.As(err, &met) && met.live != nil && met.live.GetUID() == held.GetUID() {
		delete(metadata, "resourceVersion")
		return w.sendIntent(ctx, r, key, intent, options, subresource...)
	}
	if err == nil {
		w.follow(r, key, held.GetResourceVersion(), answer)
	}
	return answer, err
}

func (w *writer) sendIntent(ctx context.Context, r *resource, key trc.Key, intent map[string]any, options writeOptions, subresource ...string) (Object, error) {
	body, err := json.Marshal(intent)
	if err != nil {
		return nil, fmt.Errorf("framework: apply %s: %w", r.describe(key), err)
	}
	force := !options.leaveToOthers
	return w.send(ctx, r, key, verb("apply", subresource), func(ctx context.Context) (Object, error) {
		return r.patch(ctx, key, types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: options.fieldManager, Force: &force}, subresource...)
	})
}

// applyByPatch is Apply for those who cannot or do not want to use server-side apply: create, or
// patch what differs from what is there.
func (w *writer) applyByPatch(ctx context.Context, r *resource, key trc.Key, desired Object, options writeOptions) (Object, error) {
	desired, err := privateCopy(desired)
	if err != nil {
		return nil, err
	}
	current, err := w.cluster.current(ctx, r, key)
	if apierrors.IsNotFound(err) {
		return w.create(ctx, desired, options)
	}
	if err != nil {
		return nil, fmt.Errorf("framework: get %s: %w", r.describe(key), err)
	}
	if options.owned {
		// A merge patch replaces the list: it must hold the owners that others have added, too.
		desired.SetOwnerReferences(append(desired.GetOwnerReferences(), othersThan(desired, current.GetOwnerReferences())...))
		if err := w.own(r, desired); err != nil {
			return nil, err
		}
	}
	intent, err := intentOf(r.gvk, desired)
	if err != nil {
		return nil, err
	}
	delete(intent, "status")
	patch, err := additions(current, intent)
	if err != nil || patch == nil {
		return current, err
	}
	return w.sendMergePatch(ctx, r, key, current, patch, options)
}

// sendMergePatch sends a merge patch that holds only for the very object and version it was computed
// from.
func (w *writer) sendMergePatch(ctx context.Context, r *resource, key trc.Key, from Object, patch map[string]any, options writeOptions, subresource ...string) (Object, error) {
	metadata, _ := patch["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
		patch["metadata"] = metadata
	}
	metadata["uid"], metadata["resourceVersion"] = string(from.GetUID()), from.GetResourceVersion()
	body, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("framework: patch %s: %w", r.describe(key), err)
	}
	answer, err := w.send(ctx, r, key, verb("patch", subresource), func(ctx context.Context) (Object, error) {
		return r.patch(ctx, key, types.MergePatchType, body, metav1.PatchOptions{FieldManager: options.fieldManager}, subresource...)
	})
	if err == nil {
		w.follow(r, key, from.GetResourceVersion(), answer)
	}
	return answer, err
}

func (w *writer) create(ctx context.Context, object Object, options writeOptions) (Object, error) {
	object, err := privateCopy(object)
	if err != nil {
		return nil, err
	}
	if object.GetName() == "" && object.GetGenerateName() != "" {
		object.SetName(generateName(object.GetGenerateName()))
	}
	r, key, err := w.target(ctx, object)
	if err != nil {
		return nil, err
	}
	if options.owned {
		if err := w.own(r, object); err != nil {
			return nil, err
		}
	}
	object.SetResourceVersion("")
	return w.send(ctx, r, key, "create", func(ctx context.Context) (Object, error) {
		return r.create(ctx, object, metav1.CreateOptions{FieldManager: options.fieldManager})
	})
}

func (w *writer) update(ctx context.Context, object Object, options writeOptions, subresource ...string) (Object, error) {
	r, key, err := w.target(ctx, object)
	if err != nil {
		return nil, err
	}
	if object.GetResourceVersion() == "" {
		return nil, fmt.Errorf("framework: update %s: no resourceVersion: it would overwrite changes that were never read", r.describe(key))
	}
	answer, err := w.send(ctx, r, key, verb("update", subresource), func(ctx context.Context) (Object, error) {
		return r.update(ctx, object, metav1.UpdateOptions{FieldManager: options.fieldManager}, subresource...)
	})
	if err == nil {
		w.follow(r, key, object.GetResourceVersion(), answer)
	}
	return answer, err
}

func (w *writer) delete(ctx context.Context, object Object, options writeOptions) error {
	r, key, err := w.target(ctx, object)
	if err != nil {
		return err
	}
	uid := object.GetUID()
	if uid == "" {
		return fmt.Errorf("framework: delete %s: no UID: it might hit another object of that name", r.describe(key))
	}
	ctx, done, err := w.begin(ctx, "delete", r, key)
	if err != nil {
		return err
	}
	defer done()
	answer, err := r.delete(ctx, key, metav1.DeleteOptions{
		Preconditions:     &metav1.Preconditions{UID: &uid},
		PropagationPolicy: options.propagation, GracePeriodSeconds: options.gracePeriod,
	})
	if apierrors.IsConflict(err) && w.replaced(ctx, r, key, uid) {
		err = nil
	}
	switch {
	case err != nil && !apierrors.IsNotFound(err):
		return fmt.Errorf("framework: delete %s: %w", r.describe(key), err)
	case answer == nil || isGone(answer):
		w.cluster.acknowledgeGone(r.gvk, object)
		return nil
	}
	return w.cluster.acknowledge(r.gvk, answer, trc.Proof{})
}

func verb(verb string, subresource []string) string {
	if len(subresource) > 0 {
		return verb + " " + subresource[0] + " of"
	}
	return verb
}

// generateName does what the API server does: five random characters, within 63.
func generateName(base string) string {
	const suffix = 5
	return base[:min(len(base), 63-suffix)] + rand.String(suffix)
}
