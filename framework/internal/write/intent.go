package write

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/trc"
)

// intent is what the author, or the framework, wants of one object. It is sent by server-side apply
// or by patches, unless the server is known to have confirmed it. It is not safe for concurrent
// use.
type intent struct {
	w        *Writer
	resource *client.Client
	key      trc.Key
	options  Options
	by       applier        // who wants it, and how it is sent
	content  map[string]any // the fields, and then the preconditions of the request
	body     []byte         // content without preconditions, as JSON
}

// errorf returns an error about the apply.
func (i *intent) errorf(format string, args ...any) error {
	return fmt.Errorf("framework: apply %s: %w", i.resource.Describe(i.key), fmt.Errorf(format, args...))
}

// request returns the request of an apply, without what it carries.
func (i *intent) request() Request {
	return Request{verb: "apply", resource: i.resource, key: i.key, options: i.options, applies: true}
}

// metadata returns the metadata of the content.
func (i *intent) metadata() map[string]any { return i.content["metadata"].(map[string]any) }

// encode sets the body.
func (i *intent) encode() (err error) {
	if i.body, err = json.Marshal(i.content); err != nil {
		return i.errorf("%w", err)
	}
	return nil
}

// refused handles a refusal that was found before anything was sent.
func (i *intent) refused(ctx context.Context, refusal error) error {
	return i.w.exchange(i.request()).refused(ctx, refusal)
}

// atVersion reads the object for the version that the author named. Only the server knows whether
// the object still has this version.
func (i *intent) atVersion(ctx context.Context) (trc.Object, error) {
	live, _, err := i.w.read(ctx, i.resource, i.key)
	if live.Object == nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("framework: get %s: %w", i.resource.Describe(i.key), err)
	}
	if live.Object == nil || live.GetResourceVersion() != i.options.authorVersion {
		stale := fmt.Errorf("its resourceVersion is no longer %s", i.options.authorVersion)
		return nil, i.refused(ctx, apierrors.NewConflict(i.resource.GroupResource(), i.key.Name, stale))
	}
	return live.Object, nil
}

// compared returns the object that a matcher is asked about, which may be shared. It is the newest
// cached version. If the caches keep a poorer form of the whole object, it is the server's version.
// It is nil if there is no object, or if caches keep only a part of it.
func (i *intent) compared(ctx context.Context) (trc.Object, error) {
	r, key, port := i.resource, i.key, i.w.Port
	if o := port.Newest(r, key); o != nil || port.NewestIn(object.Typed, r, key) == nil {
		return o, nil
	}
	live, _, err := i.w.read(ctx, r, key)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("framework: get %s: %w", r.Describe(key), err)
	}
	return live.Object, nil
}

// matches asks the author's matcher about a copy, in the form of the desired object.
func (i *intent) matches(live, desired trc.Object) (bool, error) {
	asked, err := i.w.Port.Convert(live, object.FormOf(desired), i.resource.GVK)
	return err == nil && i.options.Matches(asked, desired), err
}

// said returns the key of the intent's memory.
func (i *intent) said() memoKey { return memoKey{i.resource.GVK, i.key, i.by} }

// isConfirmed reports whether an apply is known to change nothing. Then it also returns the cached
// object, which is shared. Its form is one that the resource's form can be made from.
//
// A form may lack the field that was changed. Therefore another version than the confirmed one
// counts only in a form that shows all fields that the apply could change. See memo.
func (i *intent) isConfirmed(held trc.Object) (live trc.Object, is bool) {
	r, port := i.resource, i.w.Port
	known, ok := port.Memo.recall(i.said())
	if !ok || !known.isOf(held, i.body) || !serves(object.FormOf(known.live), r.Form) {
		return nil, false
	}
	if known.live.GetResourceVersion() == held.GetResourceVersion() {
		return known.live, true
	}
	now := held
	if in := object.FormOf(known.live); object.FormOf(held) != in || i.w.primary.heldAs(r, i.key) == nil {
		now = port.NewestIn(in, r, i.key)
	}
	if now == nil || now.GetUID() != held.GetUID() || now.GetResourceVersion() != held.GetResourceVersion() {
		return nil, false
	}
	return now, port.Memo.stillConfirms(i.said(), known, i.content, now, i.options.IsTyped, r.StatusApart.Load())
}

// serves reports whether an object in one form can be converted completely to another.
func serves(from, to object.Form) bool { return from == to || from == object.Unstructured }

// remember keeps the object that the server stored for an intent, for as long as a cache has the
// object. It keeps the cache's own object if that is no poorer than the answer.
func (i *intent) remember(stored trc.Object) {
	r, port := i.resource, i.w.Port
	if port.NewestWhole(r, i.key) == nil {
		port.Memo.drop(r.GVK, i.key) // its deletion would not be noticed
		return
	}
	live := port.NewestIn(object.Unstructured, r, i.key)
	if live == nil && object.FormOf(stored) == object.Typed {
		live = port.NewestIn(object.Typed, r, i.key)
	}
	if live == nil || live.GetResourceVersion() != stored.GetResourceVersion() {
		live = stored.DeepCopyObject().(trc.Object) // stored belongs to the author
	}
	port.Memo.remember(i.said(), i.body, live)
	if port.NewestWhole(r, i.key) == nil {
		port.Memo.drop(r.GVK, i.key)
	}
}
