package object

import (
	"fmt"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/evenkeel/evenkeel/trc"
)

// A JSON merge patch replaces lists as a whole, so the new list is computed here. An item of the
// intent is merged into the item with the same key, as the server does in a strategic merge patch
// for built-in kinds. Items of other writers stay. The keys come from the tags patchStrategy and
// patchMergeKey of Go types. Lists without keys are one value.

// ListKeys returns the keys of lists by the fields of Go types. The zero value has none.
type ListKeys struct{ strategicpatch.LookupPatchMeta }

// ListKeysOf returns the list keys of a kind, from the object's Go type or else from the scheme's.
func ListKeysOf(scheme *runtime.Scheme, gvk schema.GroupVersionKind, o trc.Object) ListKeys {
	var sample runtime.Object = o
	if FormOf(o) != Typed {
		var err error
		if sample, err = scheme.New(gvk); err != nil {
			return ListKeys{}
		}
	}
	meta, err := strategicpatch.NewPatchMetaFromStruct(sample)
	if err != nil {
		return ListKeys{}
	}
	return ListKeys{meta}
}

// fields returns the keys below a field that is an object, and whether that object keeps only the
// fields that an intent names.
func (k ListKeys) fields(field string) (below ListKeys, retains bool) {
	if k.LookupPatchMeta == nil {
		return ListKeys{}, false
	}
	meta, how, err := k.LookupPatchMetadataForStruct(field)
	if err != nil {
		return ListKeys{}, false
	}
	return ListKeys{meta}, slices.Contains(how.GetPatchStrategies(), "retainKeys")
}

// listMerge describes how a list field is merged.
type listMerge struct {
	items   ListKeys
	merges  bool
	key     string // empty if the items are plain values
	retains bool   // items keep only the fields that an intent names
}

func (k ListKeys) list(field string) listMerge {
	if k.LookupPatchMeta == nil {
		return listMerge{}
	}
	meta, how, err := k.LookupPatchMetadataForSlice(field)
	if err != nil {
		return listMerge{}
	}
	strategies := how.GetPatchStrategies()
	return listMerge{ListKeys{meta}, slices.Contains(strategies, "merge"), how.GetPatchMergeKey(), slices.Contains(strategies, "retainKeys")}
}

// merge applies an intent to target, field by field, and item by item in lists that have a key.
func (k ListKeys) merge(target, intent map[string]any) {
	for field, value := range intent {
		switch value := value.(type) {
		case map[string]any:
			if present, both := target[field].(map[string]any); both {
				below, retains := k.fields(field)
				below.mergeInto(present, value, retains)
				continue
			}
		case []any:
			if present, both := target[field].([]any); both {
				target[field] = k.list(field).merge(present, value)
				continue
			}
		}
		target[field] = value
	}
}

// mergeInto is merge for an object that may be a union. Then it removes the fields that the intent
// does not name, unless the intent changes nothing.
func (k ListKeys) mergeInto(target, intent map[string]any, retains bool) {
	changes := !IsNoop(target, intent)
	for field := range intent {
		_, known := target[field]
		changes = changes || !known // an empty object may select the member of the union
	}
	if retains && changes {
		for field := range target {
			if _, named := intent[field]; !named {
				delete(target, field)
			}
		}
	}
	k.merge(target, intent)
}

// merge returns the present items, changed as wanted requires, followed by the new items. A list
// that has no key, or whose keys are not unique, is replaced.
func (l listMerge) merge(present, wanted []any) []any {
	places, ok := l.places(present)
	if _, unique := l.places(wanted); !ok || !unique {
		return wanted
	}
	merged := slices.Clone(present)
	for _, item := range wanted {
		id, _ := l.identity(item)
		at, known := places[id]
		switch {
		case !known:
			merged = append(merged, item)
		case l.key != "":
			l.items.mergeInto(merged[at].(map[string]any), item.(map[string]any), l.retains)
		}
	}
	return merged
}

// places returns the indexes of the items by identity. ok is false if an item has none, or two have
// the same.
func (l listMerge) places(items []any) (places map[string]int, ok bool) {
	if !l.merges {
		return nil, false
	}
	places = map[string]int{}
	for i, item := range items {
		id, ok := l.identity(item)
		if _, twice := places[id]; !ok || twice {
			return nil, false
		}
		places[id] = i
	}
	return places, true
}

// identity returns what identifies an item in its list. For ports that includes the protocol.
func (l listMerge) identity(item any) (id string, ok bool) {
	if l.key == "" {
		kind := reflect.ValueOf(item).Kind()
		return fmt.Sprint(item), kind != reflect.Map && kind != reflect.Slice
	}
	fields, isObject := item.(map[string]any)
	value := fields[l.key]
	if !isObject || value == nil {
		return "", false
	}
	if l.key == "port" || l.key == "containerPort" {
		protocol := fields["protocol"]
		if protocol == nil {
			protocol = "TCP"
		}
		return fmt.Sprint(value, "/", protocol), true
	}
	return fmt.Sprint(value), true
}
