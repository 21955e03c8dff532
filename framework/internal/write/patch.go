package write

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/trc"
)

// Patch sends a patch of the author's. The patch holds only for the version that it is about.
func (w *Writer) Patch(ctx context.Context, object trc.Object, kind types.PatchType, body []byte, options Options) (trc.Object, error) {
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
	p := patch{w: w, Request: Request{verb: "patch", resource: r, key: key, options: options}, kind: kind, body: body}
	if other {
		return p.sendPart(ctx, object)
	}
	changes := rewrite{
		// A JSON patch can replace a map without naming its entries.
		w: w, resource: r, from: object, options: options, anyVersion: true, spelledOut: kind != types.JSONPatchType, becomes: patchedBy(kind, body),
	}
	if err := changes.checkPruned(ctx); err != nil {
		return nil, err
	}
	if err := p.tieTo(object); err != nil {
		return nil, err
	}
	return w.sendPatch(ctx, p.Request, p.kind, p.body)
}

// patch is a patch of the author's on its way to the API server.
type patch struct {
	Request
	w    *Writer
	kind types.PatchType
	body []byte
}

// tieTo makes a patch hold only for the version of o, or, if o has none, for the newest cached
// version.
func (p *patch) tieTo(o trc.Object) error {
	var from trc.Object
	switch {
	case p.options.Unconditional:
	case o.GetResourceVersion() != "":
		from = o
	default:
		if from = p.w.primary.heldAs(p.resource, p.key); from == nil {
			from = p.w.Port.NewestMetadata(p.resource, p.key)
		}
	}
	if from == nil {
		return nil
	}
	from, err := object.Copy(from)
	if err != nil {
		return err
	}
	isFor := true
	if p.kind == types.JSONPatchType {
		p.body, err = jsonPatchFor(from, p.body)
	} else {
		p.body, isFor, err = mergePatchFor(from, p.body)
	}
	if err != nil {
		return fmt.Errorf("framework: patch %s: %w", p.resource.Describe(p.key), err)
	}
	if isFor {
		p.base = from
	}
	return nil
}

// sendPart sends a patch of a sub-resource that is of another kind, with the object's version.
func (p *patch) sendPart(ctx context.Context, object trc.Object) (trc.Object, error) {
	if err := p.tieTo(object); err != nil {
		return nil, err
	}
	p.send = func(ctx context.Context) (client.Answer, error) {
		return p.resource.PatchPart(ctx, p.key, p.kind, p.body, p.options.Options)
	}
	stored, err := p.w.exchange(p.Request).execute(ctx)
	if err == nil && stored == nil {
		err = &Conflict{error: fmt.Errorf("framework: %s: it was carried out, and the object is gone since", p.describe())}
	}
	return stored, err
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
