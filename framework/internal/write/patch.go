package write

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/trc"
)

// Patch sends a patch of the author's. The patch holds only for the version that it is about.
func (w *Writer) Patch(ctx context.Context, object trc.Object, kind types.PatchType, patch []byte, options Options) (trc.Object, error) {
	r, key, err := w.Target(ctx, object)
	if err == nil {
		err = options.check("patch "+r.Describe(key), canAddress)
	}
	other := false
	if err == nil {
		other, err = w.Port.isAnsweredAsOther(ctx, r, key, "patch", options)
	}
	if err != nil {
		return nil, err
	}
	if other {
		return w.patchPart(ctx, r, object, kind, patch, options)
	}
	if err := w.sparesPruned(ctx, r, rewrite{
		// A JSON patch can replace a map without naming its entries.
		from: object, options: options, anyVersion: true, spelledOut: kind != types.JSONPatchType, becomes: patchedBy(kind, patch),
	}); err != nil {
		return nil, err
	}
	q, patch, err := w.patchFor(r, key, object, kind, patch, options)
	if err != nil {
		return nil, err
	}
	return w.sendPatch(ctx, q, kind, patch)
}

// patchFor makes an author's patch hold only for the version of o, or, if o has none, for the
// newest cached version.
func (w *Writer) patchFor(r *client.Client, key trc.Key, o trc.Object, kind types.PatchType, patch []byte, options Options) (Request, []byte, error) {
	var from trc.Object
	var err error
	switch {
	case options.Unconditional:
	case o.GetResourceVersion() != "":
		from = o
	default:
		if from = w.Primary(r, key); from == nil {
			from = w.Port.NewestMetadata(r, key)
		}
	}
	if from == nil {
		return Request{verb: "patch", resource: r, key: key, options: options}, patch, nil
	}
	if from, err = object.Copy(from); err != nil {
		return Request{}, nil, err
	}
	q := Request{verb: "patch", resource: r, key: key, options: options, base: from}
	if kind == types.JSONPatchType {
		patch, err = jsonPatchFor(from, patch)
	} else {
		var isFor bool
		if patch, isFor, err = mergePatchFor(from, patch); !isFor {
			q.base = nil
		}
	}
	if err != nil {
		return Request{}, nil, fmt.Errorf("framework: patch %s: %w", r.Describe(key), err)
	}
	return q, patch, nil
}

// patchPart sends a patch of a sub-resource that is of another kind, with the object's version.
func (w *Writer) patchPart(ctx context.Context, r *client.Client, object trc.Object, kind types.PatchType, patch []byte, options Options) (trc.Object, error) {
	q, patch, err := w.patchFor(r, trc.KeyOf(object), object, kind, patch, options)
	if err != nil {
		return nil, err
	}
	q.send = func(ctx context.Context) (client.Answer, error) {
		return r.PatchPart(ctx, q.key, kind, patch, options.Options)
	}
	stored, err := w.execute(ctx, q)
	if err == nil && stored == nil {
		err = &Conflict{error: fmt.Errorf("framework: %s: it was carried out, and the object is gone since", q.describe())}
	}
	return stored, err
}

// mergePatchFor makes a merge patch hold only for that object and version. A patch that has its own
// UID or version keeps it, even if that is null; isFor is false then.
func mergePatchFor(from trc.Object, patch []byte) (_ []byte, isFor bool, err error) {
	// Only the metadata is rewritten: the author's numbers must not change.
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(patch, &raw); err != nil || raw == nil {
		return nil, false, errors.New("the merge patch is no JSON object") // it may hold a Secret's data
	}
	metadata := map[string]json.RawMessage{}
	if given, ok := raw["metadata"]; ok {
		if err := json.Unmarshal(given, &metadata); err != nil || metadata == nil {
			return nil, false, errors.New("the merge patch's metadata is no JSON object")
		}
	}
	isFor = true
	for field, value := range preconditionsOf(from) {
		quoted, err := json.Marshal(value)
		if err != nil {
			return nil, false, err
		}
		if given, ok := metadata[field]; !ok {
			metadata[field] = quoted
		} else if !bytes.Equal(given, quoted) {
			isFor = false
		}
	}
	encoded, err := json.Marshal(metadata)
	if err != nil {
		return nil, false, err
	}
	raw["metadata"] = encoded
	patch, err = json.Marshal(raw)
	return patch, isFor, err
}

// jsonPatchFor makes a JSON patch hold only for that object and version. The server refuses a patch
// that sets another version or UID.
func jsonPatchFor(from trc.Object, patch []byte) ([]byte, error) {
	var operations []json.RawMessage
	if err := json.Unmarshal(patch, &operations); err != nil {
		return nil, fmt.Errorf("the JSON patch is no JSON array: %w", err)
	}
	for _, field := range []string{"uid", "resourceVersion"} {
		value := preconditionsOf(from)[field]
		if value == "" {
			continue
		}
		operation, err := json.Marshal(map[string]string{"op": "add", "path": "/metadata/" + field, "value": value})
		if err != nil {
			return nil, err
		}
		operations = append(operations, operation)
	}
	return json.Marshal(operations)
}

// preconditionsOf returns the metadata that ties a request to that object and version.
func preconditionsOf(from trc.Object) map[string]string {
	preconditions := map[string]string{"resourceVersion": from.GetResourceVersion()}
	if uid := from.GetUID(); uid != "" {
		preconditions["uid"] = string(uid)
	}
	return preconditions
}

// SendMergePatch sends a merge patch. It holds only for the object and version that it was computed
// from, unless options say Unconditional.
func (w *Writer) SendMergePatch(ctx context.Context, r *client.Client, key trc.Key, from trc.Object, patch map[string]any, options Options) (trc.Object, error) {
	metadata, _ := patch["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
		patch["metadata"] = metadata
	}
	q := Request{verb: "patch", resource: r, key: key, options: options}
	if !options.Unconditional {
		q.base = from
		for field, value := range preconditionsOf(from) {
			metadata[field] = value
		}
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("framework: patch %s: %w", r.Describe(key), err)
	}
	return w.sendPatch(ctx, q, types.MergePatchType, body)
}

// sendPatch sends a patch as it is.
func (w *Writer) sendPatch(ctx context.Context, q Request, kind types.PatchType, body []byte) (trc.Object, error) {
	q.send = func(ctx context.Context) (client.Answer, error) {
		return q.resource.Patch(ctx, q.key, kind, body, q.options.Options)
	}
	return w.execute(ctx, q)
}

// applyByPatch is Apply without server-side apply. It creates the object, or patches what differs
// from the present object. It sends nothing if the same intent made the object what it is.
func (w *Writer) applyByPatch(ctx context.Context, r *client.Client, key trc.Key, desired trc.Object, options Options) (trc.Object, error) {
	desired, err := object.Copy(desired)
	if err != nil {
		return nil, err
	}
	options.IsTyped = object.FormOf(desired) == object.Typed
	if err := w.relate(r, desired, options); err != nil {
		return nil, err
	}
	var current trc.Object
	if !options.IfAbsent {
		if current, err = w.currentFor(ctx, r, key, desired, options); err != nil {
			return nil, err
		}
	}
	said := memoKey{r.GVK, key, applier{manager: options.FieldManager, byPatch: true}}
	if current == nil {
		return w.createByPatch(ctx, r, said, desired, options)
	}
	if options.Owned {
		// A merge patch replaces the list: it must hold the owners that others have added, too.
		desired.SetOwnerReferences(append(desired.GetOwnerReferences(), othersThan(desired, current.GetOwnerReferences())...))
	}
	if options.Matches != nil {
		if matched, err := w.matched(r, current, desired, options); matched || err != nil {
			return current, err
		}
	}
	intent, body, err := w.patchIntent(r, key, desired)
	if err != nil {
		return nil, err
	}
	if w.isPatched(r, said, body, intent, current, options) {
		return current, nil
	}
	var keys object.ListKeys
	if desired.GetUID() == "" { // a changed copy holds its lists completely
		keys = object.ListKeysOf(w.Port.Scheme, r.GVK, desired)
	}
	patch, err := object.Additions(current, intent, keys)
	if err != nil || patch == nil {
		return current, err
	}
	stored, err := w.patchWith(ctx, r, key, current, desired, patch, options)
	if err == nil && !options.DryRun {
		w.remember(r, said, body, stored)
	}
	return stored, err
}

// createByPatch creates the object that does not exist.
func (w *Writer) createByPatch(ctx context.Context, r *client.Client, said memoKey, desired trc.Object, options Options) (trc.Object, error) {
	_, body, err := w.patchIntent(r, said.key, desired)
	if err != nil {
		return nil, err
	}
	options.IfAbsent, options.Matches = false, nil // a create only makes missing objects
	created, err := w.Create(ctx, desired, options)
	switch {
	case apierrors.IsAlreadyExists(err):
		err = &Conflict{error: err, Live: w.Port.NewestMetadata(r, said.key)} // the cache has it now
	case err == nil && !options.DryRun:
		w.remember(r, said, body, created)
	}
	return created, err
}

// patchIntent returns what an apply by patch sends of the desired object, before it is compared,
// and its JSON form.
func (w *Writer) patchIntent(r *client.Client, key trc.Key, desired trc.Object) (intent map[string]any, body []byte, err error) {
	if intent, err = object.Intent(r.GVK, desired); err != nil {
		return nil, nil, err
	}
	delete(intent, "status")
	object.KeepFinalizerIfListed(intent, w.finalizerToKeep(r, key))
	if body, err = json.Marshal(intent); err != nil {
		return nil, nil, fmt.Errorf("framework: apply %s: %w", r.Describe(key), err)
	}
	return intent, body, nil
}

// isPatched reports whether current is known to be what the server makes of the intent. The server
// fills in defaults and rewrites values, so a stored object may differ from any intent for ever.
func (w *Writer) isPatched(r *client.Client, said memoKey, body []byte, intent map[string]any, current trc.Object, options Options) bool {
	if options.authorVersion != "" || options.DryRun || options.Unconditional {
		return false
	}
	held := w.Port.Newest(r, said.key)
	if held == nil || held.GetResourceVersion() != current.GetResourceVersion() {
		return false
	}
	_, is := w.isConfirmed(r, said, body, intent, held, options)
	return is
}

// patchWith sends the patch that turns current into the desired object.
func (w *Writer) patchWith(ctx context.Context, r *client.Client, key trc.Key, current, desired trc.Object, patch map[string]any, options Options) (trc.Object, error) {
	body, err := json.Marshal(patch)
	if err == nil {
		err = w.sparesPruned(ctx, r, rewrite{
			from: desired, options: options, anyVersion: true, spelledOut: true, becomes: patchedBy(types.MergePatchType, body),
		})
	}
	if err != nil {
		return nil, err
	}
	return w.SendMergePatch(ctx, r, key, current, patch, options)
}

// currentFor returns a private copy of the object that an apply by patch is computed from, nil if
// there is none. It must be the object and the version that desired is for.
func (w *Writer) currentFor(ctx context.Context, r *client.Client, key trc.Key, desired trc.Object, options Options) (trc.Object, error) {
	if options.authorVersion != "" {
		base := w.Port.Newest(r, key)
		if base == nil || base.GetResourceVersion() != options.authorVersion {
			var err error
			if base, err = w.atVersion(ctx, r, key, options); err != nil {
				return nil, err
			}
		}
		return object.Copy(base)
	}
	current, err := w.Port.Current(ctx, r, key)
	if err != nil {
		return nil, fmt.Errorf("framework: get %s: %w", r.Describe(key), err)
	}
	if uid := desired.GetUID(); uid != "" && (current == nil || current.GetUID() != uid) {
		another := apierrors.NewConflict(r.GroupResource(), key.Name, fmt.Errorf("there is no object with UID %s", uid))
		return nil, w.refused(ctx, Request{verb: "apply", resource: r, key: key, options: options}, false, another)
	}
	return current, nil
}
