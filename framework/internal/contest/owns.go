package contest

import (
	"encoding/json"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// owns reports whether a field manager owns the field of a path, or a list or map that contains it
// as a whole. It returns true if there are no managedFields.
func owns(entries []metav1.ManagedFieldsEntry, manager, path string) bool {
	if len(entries) == 0 {
		return true
	}
	for _, e := range entries {
		if e.Manager != manager || e.FieldsV1 == nil {
			continue
		}
		var fields map[string]any
		if json.Unmarshal(e.FieldsV1.GetRawBytes(), &fields) == nil && has(fields, segments(path)) {
			return true
		}
	}
	return false
}

// has reports whether a set of fields has the field of a path. The set names elements of lists by
// their keys, a path by their position, so below a list each element counts.
func has(fields map[string]any, path []string) bool {
	for _, key := range path {
		if len(fields) == 0 {
			return true // the set has all that is below
		}
		if _, err := strconv.Atoi(key); err == nil && fields["f:"+key] == nil {
			return true
		}
		below, found := fields["f:"+key].(map[string]any)
		if !found {
			return false
		}
		fields = below
	}
	return true
}

// segments returns the keys of a path; see package fieldpath.
func segments(path string) (keys []string) {
	for path != "" {
		var key string
		if rest, bracket := strings.CutPrefix(path, "["); bracket {
			key, path, _ = strings.Cut(rest, "]")
		} else {
			end := strings.IndexAny(path, ".[")
			if end < 0 {
				end = len(path)
			}
			key, path = path[:end], path[end:]
		}
		keys, path = append(keys, key), strings.TrimPrefix(path, ".")
	}
	return keys
}
