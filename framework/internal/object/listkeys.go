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

// A JSON merge patch replaces lists as a whole. So what is sent for a list is computed here: an item of the intent is
// merged into the one that has the same key, as a strategic merge patch does it on the server for built-in kinds, and
// items of others stay. Keys are what Go types say by the tags patchStrategy and patchMergeKey; other lists are one value.

// ListKeys finds the keys of lists by the fields of Go types. A nil one knows none.
type ListKeys struct{ strategicpatch.LookupPatchMeta }

// ListKeysOf are those of a kind: as the object's Go type says, or else the scheme's.
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

// fields are the keys below a field that is an object, and whether it keeps only fields that an intent names.
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

// listMerge is how a field that is a list merges.
type listMerge struct {
	items   ListKeys
	merges  bool
	key     string // empty if the items are plain values
	retains bool   // items keep only fields that an intent names
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

// merge sets in target what intent sets, field by field, and item by item in lists that merge by a key.
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

// mergeInto is merge for an object that may be a union: then what the intent does not name is dropped, unless the
// intent holds already.
func (k ListKeys) mergeInto(target, intent map[string]any, retains bool) {
	changes := !IsNoop(target, intent)
	for field := range intent {
		_, known := target[field]
		changes = changes || !known // an empty object may be what says which one it is
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

// merge returns the list of the present items, changed as wanted says, and those that are new. A list that does not merge
// by a key, or whose keys are not unique, is replaced.
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

// places are the items by their identity; not ok if they have none, or two have the same.
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

// identity tells an item from others. Ports are told by their protocol, too.
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
