package write

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/trc"
)

// Apply sends what the author wants of an object: by server-side apply or, with ByPatch, as a
// create or merge patch. It returns the object as stored, which the caller owns. Nothing is sent if
// the apply is known to change nothing.
func (w *Writer) Apply(ctx context.Context, desired trc.Object, options Options) (trc.Object, error) {
	r, key, err := w.Target(ctx, desired)
	if err != nil {
		return nil, err
	}
	if err := w.check(); err != nil {
		return nil, err
	}
	can := canOwn | canLeave | canInsist | canMatch
	if options.Mode == ByPatch {
		can = canOwn | canInsist | canMatch // a patch takes every field over
	}
	if err := options.check("apply "+r.Describe(key), can); err != nil {
		return nil, err
	}
	options.authorVersion = desired.GetResourceVersion()
	if options.IfAbsent && (options.Unconditional || options.authorVersion != "") {
		return nil, fmt.Errorf("framework: apply %s: IfAbsent, and Unconditional or a resourceVersion, contradict each other", r.Describe(key))
	}
	if options.Mode == ByPatch {
		return w.applyByPatch(ctx, r, key, desired, options)
	}
	if options.Owned || len(options.Marks) > 0 {
		if desired, err = object.Copy(desired); err != nil {
			return nil, err
		}
		if err := w.relate(r, desired, options); err != nil {
			return nil, err
		}
	}
	intent, err := freshIntentOf(r, key, desired)
	if err != nil {
		return nil, err
	}
	delete(intent, "status")
	if options.Matches != nil && !options.IfAbsent {
		live, err := w.compared(ctx, r, key)
		if err != nil {
			return nil, err
		}
		if live != nil {
			if matched, err := w.matched(r, live, desired, options); matched || err != nil {
				return live.DeepCopyObject().(trc.Object), err
			}
		}
	}
	options.IsTyped = object.FormOf(desired) == object.Typed
	return w.SendApply(ctx, r, key, intent, options)
}

// compared returns the object that a matcher is asked about, which may be shared. It is the newest
// cached version. If the caches keep a poorer form of the whole object, it is the server's version.
// It is nil if there is no object, or if caches keep only a part of it.
func (w *Writer) compared(ctx context.Context, r *client.Client, key trc.Key) (trc.Object, error) {
	if o := w.Port.Newest(r, key); o != nil || w.Port.NewestIn(object.Typed, r, key) == nil {
		return o, nil
	}
	live, _, err := w.read(ctx, r, key)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("framework: get %s: %w", r.Describe(key), err)
	}
	return live.Object, nil
}

// matched asks the author's matcher about a copy, in the form of the desired object.
func (w *Writer) matched(r *client.Client, live, desired trc.Object, options Options) (bool, error) {
	asked, err := w.Port.Convert(live, object.FormOf(desired), r.GVK)
	return err == nil && options.Matches(asked, desired), err
}

// ApplyStatus applies the status of desired to the status sub-resource, and nothing else.
func (w *Writer) ApplyStatus(ctx context.Context, desired trc.Object, options Options) (trc.Object, error) {
	r, key, err := w.Target(ctx, desired)
	if err == nil {
		err = options.check("apply status of "+r.Describe(key), canLeave)
	}
	if err != nil {
		return nil, err
	}
	intent, err := freshIntentOf(r, key, desired)
	if err != nil {
		return nil, err
	}
	options.authorVersion, options.Subresource = desired.GetResourceVersion(), []string{"status"}
	options.IsTyped = object.FormOf(desired) == object.Typed
	return w.SendApply(ctx, r, key, object.Status(key, intent), options)
}

// ApplyConfiguration sends the fields that a generated apply configuration sets, and nothing else.
// sample is an empty object of the type of the answer.
func (w *Writer) ApplyConfiguration(ctx context.Context, sample trc.Object, configuration runtime.ApplyConfiguration, options Options) (trc.Object, error) {
	if object.IsNil(configuration) {
		return nil, fmt.Errorf("framework: apply: the apply configuration is nil")
	}
	content, err := object.JSON(configuration)
	if err != nil {
		return nil, fmt.Errorf("framework: apply %T: %w", configuration, err)
	}
	named := &unstructured.Unstructured{Object: content}
	if u, ok := sample.(*unstructured.Unstructured); ok {
		u.SetGroupVersionKind(named.GroupVersionKind())
	}
	sample.SetNamespace(named.GetNamespace())
	sample.SetName(named.GetName())
	r, key, err := w.Target(ctx, sample)
	if err == nil {
		err = options.check("apply "+r.Describe(key), canOwn|canLeave|canAddress)
	}
	if err == nil {
		var other bool
		if other, err = w.Port.isAnsweredAsOther(ctx, r, key, "patch", options); other {
			err = fmt.Errorf("framework: apply %s of %s: it does not take a %s: use MergePatch; %w", options.Subresource[0], r.Describe(key), r.GVK.Kind, errNothingSent)
		}
	}
	if err != nil {
		return nil, err
	}
	if named.GroupVersionKind() != r.GVK {
		return nil, fmt.Errorf("framework: apply %s: the apply configuration is of %s, the answer is to be %s", r.Describe(key), named.GroupVersionKind(), r.GVK)
	}
	if err := w.relate(r, named, options); err != nil {
		return nil, err
	}
	intent, err := freshIntentOf(r, key, named)
	if err != nil {
		return nil, err
	}
	options.authorVersion = named.GetResourceVersion()
	if options.IsStatus() {
		intent = object.Status(key, intent)
	}
	return w.SendApply(ctx, r, key, intent, options)
}

// SendApply sends an intent. Applies to one object take turns, so that each can be for the version
// that the one before made.
func (w *Writer) SendApply(ctx context.Context, r *client.Client, key trc.Key, intent map[string]any, options Options) (trc.Object, error) {
	if err := w.check(); err != nil {
		return nil, err
	}
	leave, err := w.Port.Locks.enter(ctx, objectKey{r.GVK.GroupKind(), key})
	if err != nil {
		return nil, fmt.Errorf("framework: apply %s: waiting for another apply to it: %w", r.Describe(key), err)
	}
	defer leave()
	if len(options.Subresource) == 0 && options.FieldManager == w.FieldManager {
		// The server removes the fields that a field manager applied before and leaves out now.
		object.KeepFinalizer(intent, w.finalizerToKeep(r, key))
	}
	body, err := json.Marshal(intent)
	if err != nil {
		return nil, fmt.Errorf("framework: apply %s: %w", r.Describe(key), err)
	}
	held, err := w.base(ctx, r, key, options)
	if err != nil {
		return nil, err
	}
	said := memoKey{r.GVK, key, applier{
		manager: options.FieldManager, subresource: strings.Join(options.Subresource, "/"), withoutForce: options.WithoutForce,
	}}
	if options.IfAbsent {
		return w.createByApply(ctx, r, said, body, intent, options)
	}
	if held != nil && options.authorVersion == "" && !options.DryRun {
		if confirmed := w.confirmed(r, said, body, intent, held, options); confirmed != nil {
			return confirmed, nil
		}
	}
	q := Request{verb: "apply", resource: r, key: key, options: options, applies: true}
	var stored trc.Object
	if held == nil {
		stored, err = w.sendEncoded(ctx, q, body)
	} else {
		stored, err = w.optimistically(ctx, q, intent, held)
	}
	if err == nil && !options.DryRun {
		w.remember(r, said, body, stored)
	}
	return stored, err
}

// createByApply sends an intent that must create the object. No object has this resourceVersion:
// the server creates a missing object without looking at it, and refuses it for an existing one.
func (w *Writer) createByApply(ctx context.Context, r *client.Client, said memoKey, body []byte, intent map[string]any, options Options) (trc.Object, error) {
	intent["metadata"].(map[string]any)["resourceVersion"] = "1"
	stored, err := w.sendIntent(ctx, Request{verb: "apply", resource: r, key: said.key, options: options, applies: true}, intent)
	if err == nil && !options.DryRun {
		w.remember(r, said, body, stored)
	}
	return stored, err
}

// confirmed returns a copy of the object if the apply is known to change nothing, or nil. held is
// the version that the apply would be for, in any form; it may be metadata only.
func (w *Writer) confirmed(r *client.Client, said memoKey, body []byte, intent map[string]any, held trc.Object, options Options) trc.Object {
	live, is := w.isConfirmed(r, said, body, intent, held, options)
	if !is {
		return nil
	}
	if object.FormOf(live) != r.Form { // cheaper than to convert it
		if o := w.Port.NewestIn(r.Form, r, said.key); o != nil && o.GetUID() == held.GetUID() && o.GetResourceVersion() == held.GetResourceVersion() {
			live = o
		}
	}
	confirmed, err := w.Port.As(r.Form, r.GVK, client.Answer{Object: live})
	if _, isUndecodable := confirmed.(*trc.Undecodable); err != nil || isUndecodable {
		return nil
	}
	return confirmed
}

// isConfirmed reports whether an apply is known to change nothing. Then it also returns the cached
// object, which is shared. Its form is one that the resource's form can be made from.
//
// A form may lack the field that was changed. Therefore another version than the confirmed one
// counts only in a form that shows all fields that the apply could change. See memo.
func (w *Writer) isConfirmed(r *client.Client, said memoKey, body []byte, intent map[string]any, held trc.Object, options Options) (live trc.Object, is bool) {
	known, ok := w.Port.Memo.recall(said)
	if !ok || !known.isOf(held, body) || !serves(object.FormOf(known.live), r.Form) {
		return nil, false
	}
	if known.live.GetResourceVersion() == held.GetResourceVersion() {
		return known.live, true
	}
	now := held
	if in := object.FormOf(known.live); object.FormOf(held) != in || w.Primary(r, said.key) == nil {
		now = w.Port.NewestIn(in, r, said.key)
	}
	if now == nil || now.GetUID() != held.GetUID() || now.GetResourceVersion() != held.GetResourceVersion() {
		return nil, false
	}
	return now, w.Port.Memo.stillConfirms(said, known, intent, now, options.IsTyped, r.StatusApart.Load())
}

// serves reports whether an object in one form can be converted completely to another.
func serves(from, to object.Form) bool { return from == to || from == object.Unstructured }

// remember keeps the object that the server stored for an intent, for as long as a cache has the
// object. It keeps the cache's own object if that is no poorer than the answer.
func (w *Writer) remember(r *client.Client, said memoKey, intent []byte, stored trc.Object) {
	if w.Port.NewestWhole(r, said.key) == nil {
		w.Port.Memo.drop(r.GVK, said.key) // its deletion would not be noticed
		return
	}
	live := w.Port.NewestIn(object.Unstructured, r, said.key)
	if live == nil && object.FormOf(stored) == object.Typed {
		live = w.Port.NewestIn(object.Typed, r, said.key)
	}
	if live == nil || live.GetResourceVersion() != stored.GetResourceVersion() {
		live = stored.DeepCopyObject().(trc.Object) // stored belongs to the author
	}
	w.Port.Memo.remember(said, intent, live)
	if w.Port.NewestWhole(r, said.key) == nil {
		w.Port.Memo.drop(r.GVK, said.key)
	}
}

// optimistically sends an intent for the version held. The answer then proves that no other write
// came in between. If the object has another version now, it sends the apply, which is about its
// own fields only, for any version. Both carry the UID: an apply without a UID would create a
// deleted object again.
func (w *Writer) optimistically(ctx context.Context, q Request, intent map[string]any, held trc.Object) (trc.Object, error) {
	metadata := intent["metadata"].(map[string]any)
	metadata["uid"], metadata["resourceVersion"] = string(held.GetUID()), held.GetResourceVersion()
	q.base, q.optimistic = held, q.options.authorVersion == ""
	stored, err := w.sendIntent(ctx, q, intent)
	if err == nil || !q.optimistic || !IsStale(err) {
		return stored, err
	}
	if len(q.options.Subresource) > 0 {
		return w.onLiveVersion(ctx, q, intent, err)
	}
	delete(metadata, "resourceVersion")
	q.base, q.optimistic = nil, false
	if stored, err = w.sendIntent(ctx, q, intent); err != nil && !object.Is[*Conflict](err) {
		w.leave(q) // the caches are behind the refused version, and no answer has shown the newer one
	}
	return stored, err
}

// liveTries bounds onLiveVersion. Each failure means that somebody else wrote, so a hundred in a
// row mean that something is wrong.
const liveTries = 100

// onLiveVersion repeats an apply to a sub-resource for the version that it reads. The server does
// not check the UID in patches of a custom resource's status, so only a version ties them to the
// object.
func (w *Writer) onLiveVersion(ctx context.Context, q Request, intent map[string]any, refusal error) (trc.Object, error) {
	uid := q.base.GetUID()
	for try := 1; ; try++ {
		live, err := w.readBack(ctx, q)
		if err != nil {
			w.leave(q)
			return nil, unread(refusal, err)
		}
		if live.Object == nil || live.GetUID() != uid || try > liveTries {
			return nil, &Conflict{error: fmt.Errorf("framework: %s: %w", q.describe(), refusal), Live: live.Object}
		}
		intent["metadata"].(map[string]any)["resourceVersion"] = live.GetResourceVersion()
		q.base = live.Object
		stored, err := w.sendIntent(ctx, q, intent)
		if err == nil || !IsStale(err) {
			return stored, err
		}
	}
}

// base returns the object whose version and UID an apply carries, nil for none. It may be metadata
// only.
func (w *Writer) base(ctx context.Context, r *client.Client, key trc.Key, options Options) (trc.Object, error) {
	if options.Unconditional {
		if options.authorVersion != "" {
			return nil, fmt.Errorf("framework: apply %s: Unconditional, and it carries a resourceVersion", r.Describe(key))
		}
		return nil, nil
	}
	held := w.Primary(r, key)
	if held == nil {
		held = w.Port.NewestMetadata(r, key)
	}
	if options.authorVersion == "" || (held != nil && held.GetResourceVersion() == options.authorVersion) {
		return held, nil
	}
	return w.atVersion(ctx, r, key, options)
}

// atVersion reads the object for the version that the author named. Only the server knows whether
// the object still has this version.
func (w *Writer) atVersion(ctx context.Context, r *client.Client, key trc.Key, options Options) (trc.Object, error) {
	live, _, err := w.read(ctx, r, key)
	if live.Object == nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("framework: get %s: %w", r.Describe(key), err)
	}
	if live.Object == nil || live.GetResourceVersion() != options.authorVersion {
		stale := apierrors.NewConflict(r.GroupResource(), key.Name, fmt.Errorf("it is not at resourceVersion %s any more", options.authorVersion))
		return nil, w.refused(ctx, Request{verb: "apply", resource: r, key: key, options: options}, false, stale)
	}
	return live.Object, nil
}

func (w *Writer) sendIntent(ctx context.Context, q Request, intent map[string]any) (trc.Object, error) {
	body, err := json.Marshal(intent)
	if err != nil {
		return nil, fmt.Errorf("framework: apply %s: %w", q.resource.Describe(q.key), err)
	}
	return w.sendEncoded(ctx, q, body)
}

func (w *Writer) sendEncoded(ctx context.Context, q Request, body []byte) (trc.Object, error) {
	q.send = func(ctx context.Context) (client.Answer, error) {
		return q.resource.Patch(ctx, q.key, types.ApplyPatchType, body, q.options.Options)
	}
	return w.execute(ctx, q)
}

// ApplyPastCaches applies a status to an object that the caches do not hold. It sends the request
// once, and does not add the answer to the caches.
func (w *Writer) ApplyPastCaches(ctx context.Context, gvk schema.GroupVersionKind, key trc.Key, intent []byte, options client.Options) error {
	r, err := w.Port.ClientIn(ctx, object.Unstructured, gvk)
	if err != nil {
		return err
	}
	ctx, done, err := w.enter(ctx, underway{"apply status of", r, key, w.Run})
	if err != nil {
		return err
	}
	defer done()
	q := Request{verb: "apply", resource: r, key: key, options: Options{Options: options}, once: true, send: func(ctx context.Context) (client.Answer, error) {
		return r.Patch(ctx, key, types.ApplyPatchType, intent, options)
	}}
	_, _, err = w.definite(ctx, q)
	return err
}

// Knows reports whether the server is known to have stored an intent of a field manager for that
// very object.
func (w *Writer) Knows(o trc.Object, fieldManager string) bool {
	gvk, err := client.GVKOf(w.Port.Scheme, o)
	return err == nil && o.GetUID() != "" && w.Port.Memo.knows(memoKey{gvk: gvk, key: trc.KeyOf(o), by: applier{manager: fieldManager}}, o.GetUID())
}

// freshIntentOf returns the intent of o. It refuses an object that was read from the API server:
// applying it would take over every field, and would create a deleted object again.
func freshIntentOf(r *client.Client, key trc.Key, o trc.Object) (map[string]any, error) {
	if created := o.GetCreationTimestamp(); o.GetUID() != "" || !created.IsZero() {
		return nil, fmt.Errorf("framework: apply %s: it takes a fresh object that holds only what the controller wants to own, not a changed copy of one that was read (it has a UID or creationTimestamp); use Update for that", r.Describe(key))
	}
	return object.Intent(r.GVK, o)
}
