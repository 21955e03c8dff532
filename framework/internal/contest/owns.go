package contest

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// owns reports whether a field manager owns the field of a path, or a list or map that contains it
// as a whole. content is the object. It returns true if there are no managedFields.
func owns(entries []metav1.ManagedFieldsEntry, manager, path string, content any) bool {
	if len(entries) == 0 {
		return true
	}
	for _, e := range entries {
		if e.Manager != manager || e.FieldsV1 == nil {
			continue
		}
		var fields map[string]any
		if json.Unmarshal(e.FieldsV1.GetRawBytes(), &fields) == nil && has(fields, segments(path), content) {
			return true
		}
	}
	return false
}

// segment is a part of a path: a key of a map, or a position in a list.
type segment struct {
	key  string
	at   int
	list bool
}

// has reports whether a set of fields has the field of a path in an object.
func has(fields map[string]any, path []segment, content any) bool {
	for _, s := range path {
		if len(fields) == 0 {
			return true // the set has all that is below
		}
		name := "f:" + s.key
		if s.list {
			list, _ := content.([]any)
			if s.at >= len(list) {
				return false
			}
			content, name = list[s.at], nameOf(fields, list[s.at], s.at)
		} else {
			below, _ := content.(map[string]any)
			content = below[s.key]
		}
		below, found := fields[name].(map[string]any)
		if !found {
			return false
		}
		fields = below
	}
	return true
}

// nameOf returns the name by which a set of fields has an element of a list: by its keys, its value
// or its position. It is empty if there is none.
func nameOf(fields map[string]any, element any, at int) string {
	for name := range fields {
		kind, text, _ := strings.Cut(name, ":")
		var is any
		if json.Unmarshal([]byte(text), &is) != nil {
			continue
		}
		switch kind {
		case "i":
			if text == strconv.Itoa(at) {
				return name
			}
		case "v":
			if equal(is, element) {
				return name
			}
		case "k":
			keys, _ := is.(map[string]any)
			of, _ := element.(map[string]any)
			matches := len(keys) > 0
			for key, value := range keys {
				matches = matches && equal(value, of[key])
			}
			if matches {
				return name
			}
		}
	}
	return ""
}

// equal reports whether two values are the same as JSON.
func equal(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// segments returns the parts of a path; see package fieldpath. A key in brackets is never a number.
func segments(path string) (all []segment) {
	for path != "" {
		var s segment
		if rest, bracket := strings.CutPrefix(path, "["); bracket {
			s.key, path = cutBracket(rest)
			at, err := strconv.Atoi(s.key)
			s.at, s.list = at, err == nil
		} else {
			end := strings.IndexAny(path, ".[")
			if end < 0 {
				end = len(path)
			}
			s.key, path = path[:end], path[end:]
		}
		all, path = append(all, s), strings.TrimPrefix(path, ".")
	}
	return all
}

// cutBracket returns the text before the bracket that ends a segment, and what is after it.
func cutBracket(text string) (key, rest string) {
	for end := range len(text) {
		if text[end] == ']' && (end+1 == len(text) || text[end+1] == '.' || text[end+1] == '[') {
			return text[:end], text[end+1:]
		}
	}
	return text, ""
}
