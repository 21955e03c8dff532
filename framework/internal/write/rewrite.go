package write

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/evenkeel/evenkeel/framework/internal/cache"
	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/trc"
)

// outcome returns what a write makes of the content of an object in some form.
type outcome func(content map[string]any, form object.Form) (map[string]any, error)

// rewrite is a write that was computed from an object that was read.
type rewrite struct {
	w        *Writer
	resource *client.Client
	from     trc.Object
	options  Options
	// anyVersion says that the write holds for any version, not only for the one of from.
	anyVersion bool
	// spelledOut says that the write names the fields that it changes. A write that replaces the
	// object does not.
	spelledOut bool
	becomes    outcome
}

// checkPruned refuses a write that would change fields which a cache of the kind does not keep. A
// write that is spelled out may set or remove a field of which the cache keeps nothing, unless it
// is a list, to which others may have added elements.
func (q *rewrite) checkPruned(ctx context.Context) error {
	r, key := q.resource, trc.KeyOf(q.from)
	prunes := q.w.Port.Pruned(r)
	if len(prunes) == 0 || q.from.GetUID() == "" {
		return nil
	}
	live, _, err := q.w.read(ctx, r, key)
	if apierrors.IsNotFound(err) || live.Object != nil && !q.anyVersion && live.GetResourceVersion() != q.from.GetResourceVersion() {
		return nil // the server refuses it, and the refusal is handled then
	}
	if err != nil && live.Object == nil {
		return fmt.Errorf("framework: get %s: %w", r.Describe(key), err)
	}
	for _, kept := range prunes {
		whole, err := q.w.Port.As(kept.Form, r.GVK, live)
		if _, isUndecodable := whole.(*trc.Undecodable); isUndecodable || errors.Is(err, cache.ErrPoorer) {
			continue // nobody has read the object in that form
		}
		var where string
		if err == nil {
			where, err = q.changesPruned(whole, kept)
		}
		if err != nil {
			return fmt.Errorf("framework: write %s: %w", r.Describe(key), err)
		}
		if where != "" {
			return fmt.Errorf("framework: write %s: it would change %s, which a cache does not keep (Transform %q): an object that was read from that cache is incomplete; use Apply, or read the object with Live or GetWhole and change that",
				r.Describe(key), where, kept.Prune.Label())
		}
	}
	return nil
}

// changesPruned returns the path of the first field that a write would change and that the cache
// does not keep unchanged, empty if there is none. whole is the object in the form of the cache.
func (q *rewrite) changesPruned(whole trc.Object, cache cache.StoreKey) (path string, err error) {
	before, err := object.Content(whole)
	if err != nil {
		return "", err
	}
	if abandoned := trc.Prune(whole, q.w.Port.GuardedPrune(cache.Prune)); abandoned != nil {
		return "", abandoned.Err
	}
	known, err := object.Content(whole)
	if err != nil {
		return "", err
	}
	after, err := q.becomes(runtime.DeepCopyJSON(before), cache.Form)
	if err != nil {
		return "", err
	}
	for _, content := range []map[string]any{before, known, after} {
		q.options.reduce(q.resource, content)
	}
	return changesPrunedAt("", before, known, after, q.spelledOut), nil
}

// reduce removes everything from content that a write cannot change.
func (o *Options) reduce(r *client.Client, content map[string]any) {
	object.DropServerFields(content)
	delete(content, "apiVersion")
	delete(content, "kind")
	switch {
	case o.IsStatus():
		for field := range content {
			if field != "status" {
				delete(content, field)
			}
		}
	case r.StatusApart.Load():
		delete(content, "status")
	}
}

// changesPrunedAt does the work of changesPruned, for the fields under path.
func changesPrunedAt(path string, whole, known, after map[string]any, spelledOut bool) string {
	for field, value := range whole {
		if reflect.DeepEqual(value, known[field]) || reflect.DeepEqual(value, after[field]) {
			continue
		}
		at := path + "." + field
		fields, isObject := value.(map[string]any)
		if now, isStill := after[field].(map[string]any); isObject && isStill {
			part, _ := known[field].(map[string]any)
			if first := changesPrunedAt(at, fields, part, now, spelledOut); first != "" {
				return first
			}
			continue
		}
		if _, isList := after[field].([]any); !spelledOut || known[field] != nil || isList {
			return at
		}
	}
	return ""
}

// replacedBy returns the outcome of a PUT.
func (c *Port) replacedBy(r *client.Client, o trc.Object) outcome {
	return func(_ map[string]any, form object.Form) (map[string]any, error) {
		converted, err := c.Convert(o, form, r.GVK)
		if err != nil {
			return nil, err
		}
		return object.Content(converted)
	}
}

// patchedBy returns the outcome of a patch. A patch that does not fit changes nothing: the server
// refuses it.
func patchedBy(kind types.PatchType, patch []byte) outcome {
	return func(content map[string]any, _ object.Form) (map[string]any, error) {
		before, err := json.Marshal(content)
		if err != nil {
			return nil, err
		}
		after, err := patched(before, kind, patch)
		if err != nil {
			return content, nil
		}
		var result map[string]any
		err = json.Unmarshal(after, &result)
		return result, err
	}
}

// patched returns a JSON document with a patch applied.
func patched(document []byte, kind types.PatchType, patch []byte) ([]byte, error) {
	if kind != types.JSONPatchType {
		return jsonpatch.MergePatch(document, patch)
	}
	operations, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, err
	}
	return operations.Apply(document)
}
