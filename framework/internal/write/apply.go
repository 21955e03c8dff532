package write

import (
	"context"
	"encoding/json"
	"fmt"

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
	i := intent{w: w, resource: r, key: key, options: options, by: applierOf(options)}
	if options.Mode == ByPatch {
		return i.applyByPatch(ctx, desired)
	}
	if options.Owned || len(options.Marks) > 0 {
		if desired, err = object.Copy(desired); err != nil {
			return nil, err
		}
		if err := w.relate(r, desired, options); err != nil {
			return nil, err
		}
	}
	if i.content, err = freshIntentOf(r, key, desired); err != nil {
		return nil, err
	}
	delete(i.content, "status")
	if options.Matches != nil && !options.IfAbsent {
		live, err := i.compared(ctx)
		if err != nil {
			return nil, err
		}
		if live != nil {
			if matched, err := i.matches(live, desired); matched || err != nil {
				return live.DeepCopyObject().(trc.Object), err
			}
		}
	}
	i.options.IsTyped = object.FormOf(desired) == object.Typed
	return i.apply(ctx)
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
	content, err := freshIntentOf(r, key, desired)
	if err != nil {
		return nil, err
	}
	options.authorVersion, options.Subresource = desired.GetResourceVersion(), []string{"status"}
	options.IsTyped = object.FormOf(desired) == object.Typed
	return w.SendApply(ctx, r, key, object.Status(key, content), options)
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
	if content, err = freshIntentOf(r, key, named); err != nil {
		return nil, err
	}
	options.authorVersion = named.GetResourceVersion()
	if options.IsStatus() {
		content = object.Status(key, content)
	}
	return w.SendApply(ctx, r, key, content, options)
}

// SendApply sends what the framework wants of an object, by server-side apply.
func (w *Writer) SendApply(ctx context.Context, r *client.Client, key trc.Key, content map[string]any, options Options) (trc.Object, error) {
	i := intent{w: w, resource: r, key: key, options: options, by: applierOf(options), content: content}
	return i.apply(ctx)
}

// freshIntentOf returns the intent of o. It refuses an object that was read from the API server:
// applying it would take over every field, and would create a deleted object again.
func freshIntentOf(r *client.Client, key trc.Key, o trc.Object) (map[string]any, error) {
	if created := o.GetCreationTimestamp(); o.GetUID() != "" || !created.IsZero() {
		return nil, fmt.Errorf("framework: apply %s: it takes a fresh object that holds only what the controller wants to own, not a changed copy of one that was read (it has a UID or creationTimestamp); use Update for that", r.Describe(key))
	}
	return object.Intent(r.GVK, o)
}

// apply sends an intent by server-side apply. Applies to one object take turns, so that each can be
// for the version that the one before made.
func (i *intent) apply(ctx context.Context) (trc.Object, error) {
	w := i.w
	if err := w.check(); err != nil {
		return nil, err
	}
	leave, err := w.Port.Locks.enter(ctx, objectKey{i.resource.GVK.GroupKind(), i.key})
	if err != nil {
		return nil, i.errorf("waiting for another apply to it: %w", err)
	}
	defer leave()
	if len(i.options.Subresource) == 0 && i.options.FieldManager == w.FieldManager {
		// The server removes the fields that a field manager applied before and leaves out now.
		object.KeepFinalizer(i.content, w.primary.finalizerToKeep(i.resource, i.key))
	}
	if err := i.encode(); err != nil {
		return nil, err
	}
	held, err := i.base(ctx)
	if err != nil {
		return nil, err
	}
	if held != nil && i.options.authorVersion == "" && !i.options.DryRun && !i.options.IfAbsent {
		if confirmed := i.confirmed(held); confirmed != nil {
			return confirmed, nil
		}
	}
	stored, err := i.sendFor(ctx, held)
	if err == nil && !i.options.DryRun {
		i.remember(stored)
	}
	return stored, err
}

// sendFor sends an intent for the version held, which is nil if there is none.
func (i *intent) sendFor(ctx context.Context, held trc.Object) (trc.Object, error) {
	q := i.request()
	switch {
	case i.options.IfAbsent:
		// No object has this resourceVersion: the server creates a missing object without looking at it,
		// and refuses it for an existing one.
		i.metadata()["resourceVersion"] = "1"
		return i.send(ctx, q)
	case held == nil:
		return i.sendBody(ctx, q, i.body)
	}
	return i.optimistically(ctx, q, held)
}

// base returns the object whose version and UID an apply carries, nil for none. It may be metadata
// only.
func (i *intent) base(ctx context.Context) (trc.Object, error) {
	version := i.options.authorVersion
	if i.options.Unconditional {
		if version != "" {
			return nil, i.errorf("Unconditional, and it carries a resourceVersion")
		}
		return nil, nil
	}
	held := i.w.primary.heldAs(i.resource, i.key)
	if held == nil {
		held = i.w.Port.NewestMetadata(i.resource, i.key)
	}
	if version == "" || (held != nil && held.GetResourceVersion() == version) {
		return held, nil
	}
	return i.atVersion(ctx)
}

// confirmed returns a copy of the object if the apply is known to change nothing, or nil. held is
// the version that the apply would be for, in any form; it may be metadata only.
func (i *intent) confirmed(held trc.Object) trc.Object {
	live, is := i.isConfirmed(held)
	if !is {
		return nil
	}
	r, port := i.resource, i.w.Port
	if object.FormOf(live) != r.Form { // cheaper than to convert it
		if o := port.NewestIn(r.Form, r, i.key); o != nil && o.GetUID() == held.GetUID() && o.GetResourceVersion() == held.GetResourceVersion() {
			live = o
		}
	}
	confirmed, err := port.As(r.Form, r.GVK, client.Answer{Object: live})
	if _, isUndecodable := confirmed.(*trc.Undecodable); err != nil || isUndecodable {
		return nil
	}
	return confirmed
}

// optimistically sends an intent for the version held. The answer then proves that no other write
// came in between. If the object has another version now, it sends the apply, which is about its
// own fields only, for any version. Both carry the UID: an apply without a UID would create a
// deleted object again.
func (i *intent) optimistically(ctx context.Context, q Request, held trc.Object) (trc.Object, error) {
	metadata := i.metadata()
	metadata["uid"], metadata["resourceVersion"] = string(held.GetUID()), held.GetResourceVersion()
	q.base, q.optimistic = held, i.options.authorVersion == ""
	stored, err := i.send(ctx, q)
	if err == nil || !q.optimistic || !IsStale(err) {
		return stored, err
	}
	if len(i.options.Subresource) > 0 {
		return i.onLiveVersion(ctx, q, err)
	}
	delete(metadata, "resourceVersion")
	q.base, q.optimistic = nil, false
	if stored, err = i.send(ctx, q); err != nil && !object.Is[*Conflict](err) {
		i.w.exchange(q).leave() // the caches are behind the refused version, and no answer has shown the newer one
	}
	return stored, err
}

// liveTries bounds onLiveVersion. Each failure means that somebody else wrote, so a hundred in a
// row mean that something is wrong.
const liveTries = 100

// onLiveVersion repeats an apply to a sub-resource for the version that it reads. The server does
// not check the UID in patches of a custom resource's status, so only a version ties them to the
// object.
func (i *intent) onLiveVersion(ctx context.Context, q Request, refusal error) (trc.Object, error) {
	uid := q.base.GetUID()
	for try := 1; ; try++ {
		x := i.w.exchange(q)
		live, err := x.readBack(ctx)
		if err != nil {
			x.leave()
			return nil, unread(refusal, err)
		}
		if live.Object == nil || live.GetUID() != uid || try > liveTries {
			return nil, &Conflict{error: fmt.Errorf("framework: %s: %w", q.describe(), refusal), Live: live.Object}
		}
		i.metadata()["resourceVersion"] = live.GetResourceVersion()
		q.base = live.Object
		stored, err := i.send(ctx, q)
		if err == nil || !IsStale(err) {
			return stored, err
		}
	}
}

// send sends an intent with the preconditions that its metadata has.
func (i *intent) send(ctx context.Context, q Request) (trc.Object, error) {
	body, err := json.Marshal(i.content)
	if err != nil {
		return nil, i.errorf("%w", err)
	}
	return i.sendBody(ctx, q, body)
}

// sendBody sends an intent as it is encoded.
func (i *intent) sendBody(ctx context.Context, q Request, body []byte) (trc.Object, error) {
	return i.w.sendPatch(ctx, q, types.ApplyPatchType, body)
}

// ApplyPastCaches applies a status to an object that the caches do not hold. It sends the request
// once, and does not add the answer to the caches.
func (w *Writer) ApplyPastCaches(ctx context.Context, gvk schema.GroupVersionKind, key trc.Key, intent []byte, options client.Options) error {
	r, err := w.Port.ClientIn(ctx, object.Unstructured, gvk)
	if err != nil {
		return err
	}
	ctx, done, err := w.enter(ctx, "apply status of", r, key)
	if err != nil {
		return err
	}
	defer done()
	x := w.exchange(Request{verb: "apply", resource: r, key: key, options: Options{Options: options}, once: true, send: func(ctx context.Context) (client.Answer, error) {
		return r.Patch(ctx, key, types.ApplyPatchType, intent, options)
	}})
	_, err = x.definite(ctx)
	return err
}
