package framework

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/trc"
)

// patch sends an author's patch, made to hold only for the version it is about.
func (w *writer) patch(ctx context.Context, object Object, kind types.PatchType, patch []byte, options writeOptions) (Object, error) {
	r, key, err := w.target(ctx, object)
	if err != nil {
		return nil, err
	}
	var from Object
	switch {
	case options.unconditional:
	case object.GetResourceVersion() != "":
		from = object
	default:
		if from = w.primary(r, key); from == nil {
			from = w.cluster.shown(r, key)
		}
	}
	if from == nil {
		return w.sendPatch(ctx, write{verb: "patch", resource: r, key: key, options: options}, kind, patch)
	}
	if from, err = privateCopy(from); err != nil {
		return nil, err
	}
	if kind == types.JSONPatchType {
		patch, err = jsonPatchFor(from, patch)
	} else {
		patch, err = mergePatchFor(from, patch)
	}
	if err != nil {
		return nil, fmt.Errorf("framework: patch %s: %w", r.describe(key), err)
	}
	return w.sendPatch(ctx, write{verb: "patch", resource: r, key: key, options: options, base: from}, kind, patch)
}

// mergePatchFor makes a merge patch hold only for the very object and version.
func mergePatchFor(from Object, patch []byte) ([]byte, error) {
	// Only the metadata is rewritten: what the author's numbers are must stay.
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(patch, &raw); err != nil || raw == nil {
		return nil, fmt.Errorf("the merge patch %q is no JSON object", patch)
	}
	metadata := map[string]json.RawMessage{}
	if given, ok := raw["metadata"]; ok {
		if err := json.Unmarshal(given, &metadata); err != nil || metadata == nil {
			return nil, fmt.Errorf("the merge patch's metadata %s is no JSON object", given)
		}
	}
	for field, value := range preconditionsOf(from) {
		quoted, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		if _, given := metadata[field]; !given {
			metadata[field] = quoted
		}
	}
	encoded, err := json.Marshal(metadata)
	if err != nil {
		return nil, err
	}
	raw["metadata"] = encoded
	return json.Marshal(raw)
}

// jsonPatchFor makes a JSON patch hold only for the very object and version: a patch that sets another
// version or UID than the object's is refused.
func jsonPatchFor(from Object, patch []byte) ([]byte, error) {
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

// preconditionsOf is what metadata a request for that very object and version carries.
func preconditionsOf(from Object) map[string]string {
	preconditions := map[string]string{"resourceVersion": from.GetResourceVersion()}
	if uid := from.GetUID(); uid != "" {
		preconditions["uid"] = string(uid)
	}
	return preconditions
}

// sendMergePatch sends a merge patch that holds only for the very object and version it was computed
// from.
func (w *writer) sendMergePatch(ctx context.Context, r *resource, key trc.Key, from Object, patch map[string]any, options writeOptions) (Object, error) {
	metadata, _ := patch["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
		patch["metadata"] = metadata
	}
	for field, value := range preconditionsOf(from) {
		metadata[field] = value
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("framework: patch %s: %w", r.describe(key), err)
	}
	return w.sendPatch(ctx, write{verb: "patch", resource: r, key: key, options: options, base: from}, types.MergePatchType, body)
}

func (w *writer) sendPatch(ctx context.Context, q write, kind types.PatchType, body []byte) (Object, error) {
	q.send = func(ctx context.Context) (answer, error) {
		return q.resource.patch(ctx, q.key, kind, body,
			metav1.PatchOptions{FieldManager: q.options.fieldManager, DryRun: q.options.dryRunValue()}, q.options.subresource...)
	}
	return w.execute(ctx, q)
}

// applyByPatch is Apply for those who cannot or do not want to use server-side apply: create, or
// patch what differs from what is there.
func (w *writer) applyByPatch(ctx context.Context, r *resource, key trc.Key, desired Object, options writeOptions) (Object, error) {
	desired, err := privateCopy(desired)
	if err != nil {
		return nil, err
	}
	current, err := w.cluster.current(ctx, r, key)
	if err != nil {
		return nil, fmt.Errorf("framework: get %s: %w", r.describe(key), err)
	}
	if current == nil {
		created, err := w.create(ctx, desired, options)
		if apierrors.IsAlreadyExists(err) {
			err = &conflict{error: err, live: w.cluster.shown(r, key)} // the cache did not show it yet, but does now
		}
		return created, err
	}
	if options.owned {
		// A merge patch replaces the list: it must hold the owners that others have added, too.
		desired.SetOwnerReferences(append(desired.GetOwnerReferences(), othersThan(desired, current.GetOwnerReferences())...))
		if err := w.own(r, desired); err != nil {
			return nil, err
		}
	}
	if options.matches != nil && options.matches(current, desired) {
		return current, nil
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
