package plan

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// difference returns the lines of YAML that differ between two states of an object, below the
// fields that they are in. before is nil for an object that would be created.
func difference(before, after map[string]any) string {
	if isSecret(after) {
		before, after = masked(before, after)
	}
	d := &differ{}
	if before == nil {
		d.whole('+', 0, "", presented(after))
	} else {
		d.maps(0, presented(before), presented(after))
	}
	return d.String()
}

// lastApplied is the annotation in which kubectl apply keeps the whole object.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// presented returns what is shown of an object. The copy that kubectl apply keeps in an annotation
// says nothing new, and that of a Secret has its values.
func presented(o map[string]any) map[string]any {
	o = bare(o)
	metadata := o["metadata"].(map[string]any)
	if all, _ := metadata["annotations"].(map[string]any); all[lastApplied] != nil {
		all = maps.Clone(all)
		all[lastApplied] = hiddenValue
		metadata["annotations"] = all
	}
	return o
}

// differ writes the lines of a difference.
type differ struct{ strings.Builder }

// line writes a line of YAML.
func (d *differ) line(sign byte, indent int, text string) {
	fmt.Fprintf(d, "%c %s%s\n", sign, strings.Repeat(" ", indent), text)
}

// whole writes a value with all its lines: as the value of a field, or by itself if key is empty.
func (d *differ) whole(sign byte, indent int, key string, value any) {
	if key != "" {
		value = map[string]any{key: value}
	}
	text, err := yaml.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("plan: %v", err)) // decoded JSON can always be encoded
	}
	for line := range strings.Lines(string(text)) {
		d.line(sign, indent, strings.TrimSuffix(line, "\n"))
	}
}

func (d *differ) maps(indent int, before, after map[string]any) {
	all := maps.Clone(before)
	maps.Copy(all, after)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		from, had := before[key]
		to, has := after[key]
		switch {
		case had && has && reflect.DeepEqual(from, to):
		case had && has && d.inner(indent, key, from, to):
		default:
			if had {
				d.whole('-', indent, key, from)
			}
			if has {
				d.whole('+', indent, key, to)
			}
		}
	}
}

// inner writes what differs within a field, if both values are objects or both are lists.
func (d *differ) inner(indent int, key string, from, to any) bool {
	if was, isMap := from.(map[string]any); isMap {
		if now, isMap := to.(map[string]any); isMap && len(was) > 0 && len(now) > 0 {
			d.line(' ', indent, key+":")
			d.maps(indent+2, was, now)
			return true
		}
	}
	if was, isList := from.([]any); isList {
		if now, isList := to.([]any); isList && len(was) > 0 && len(now) > 0 {
			d.line(' ', indent, key+":")
			d.lists(indent, was, now)
			return true
		}
	}
	return false
}

// lists writes what differs between two lists. Items that name themselves are compared with the one
// of the same name; others are either equal or different. Their order is not shown.
func (d *differ) lists(indent int, before, after []any) {
	left := slices.Clone(before)
	for _, to := range after {
		at := slices.IndexFunc(left, func(from any) bool { return reflect.DeepEqual(from, to) })
		id, named := nameOf(to)
		if at < 0 && named {
			at = slices.IndexFunc(left, func(from any) bool { other, _ := nameOf(from); return other == id })
		}
		if at < 0 {
			d.whole('+', indent, "", []any{to})
			continue
		}
		from := left[at]
		left = slices.Delete(left, at, at+1)
		if !reflect.DeepEqual(from, to) {
			d.line(' ', indent, "- "+id)
			d.maps(indent+2, from.(map[string]any), to.(map[string]any))
		}
	}
	for _, from := range left {
		d.whole('-', indent, "", []any{from})
	}
}

// nameOf returns the field by which an item of a list names itself.
func nameOf(item any) (name string, named bool) {
	o, _ := item.(map[string]any)
	for _, field := range []string{"name", "type", "uid", "key", "containerPort", "port"} {
		if value, has := o[field]; has {
			return fmt.Sprintf("%s: %v", field, value), true
		}
	}
	return "", false
}
