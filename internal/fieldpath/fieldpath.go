package fieldpath

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Change is a field whose value differs between two versions of an object. A value is nil if the
// field is absent. Values belong to the objects, and must not be changed or shown.
type Change struct {
	Path     string
	Old, New any
}

// Changes returns the fields that differ, sorted by path: at most limit of them, and whether there
// are more. It returns none for objects that cannot be converted to JSON.
func Changes(old, new runtime.Object, limit int) (changes []Change, more bool) {
	a, b := Content(old), Content(new)
	if a == nil || b == nil {
		return nil, false
	}
	d := differ{limit: limit}
	d.maps("", a, b)
	return d.found[:min(len(d.found), limit)], len(d.found) > limit
}

// Content returns the fields of an object as JSON has them, nil if it cannot be converted. They may
// be shared with the object, and must not be changed.
func Content(o runtime.Object) map[string]any {
	if u, ok := o.(*unstructured.Unstructured); ok {
		return u.Object
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil
	}
	return fields
}

// differ collects changes, at most one more than its limit.
type differ struct {
	limit int
	found []Change
}

// counted are the fields that the API server sets itself with each write.
var counted = []string{"metadata.resourceVersion", "metadata.generation", "metadata.managedFields", "metadata.uid", "metadata.creationTimestamp"}

func (d *differ) value(path string, a, b any) {
	if len(d.found) > d.limit || slices.Contains(counted, path) {
		return
	}
	switch a := a.(type) {
	case map[string]any:
		if b, same := b.(map[string]any); same {
			d.maps(path, a, b)
			return
		}
	case []any:
		if b, same := b.([]any); same && len(a) == len(b) {
			for i := range a {
				d.value(fmt.Sprintf("%s[%d]", path, i), a[i], b[i])
			}
			return
		}
	}
	if !reflect.DeepEqual(a, b) {
		d.found = append(d.found, Change{path, a, b})
	}
}

func (d *differ) maps(path string, a, b map[string]any) {
	all := make(map[string]any, len(a)) // a may be nil
	maps.Copy(all, a)
	maps.Copy(all, b)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		d.value(Join(path, key), a[key], b[key])
	}
}

// Join returns the path of a key below a path.
func Join(path, key string) string {
	switch {
	case strings.ContainsAny(key, "./[] ,") || key == "":
		return path + "[" + key + "]"
	case path == "":
		return key
	}
	return path + "." + key
}

// SecretKind is the kind whose paths are cut: the keys of its data may say too much.
const SecretKind = "Secret"

// Describe returns the paths of the fields in which two versions of an object of a kind differ, as
// one line, shortened.
func Describe(kind string, old, new runtime.Object) string {
	changes, more := Changes(old, new, maxDescribed)
	return Text(changes, kind == SecretKind, more)
}

// maxDescribed is how many changes are counted for a description.
const maxDescribed = 50

// shown is how many paths a text has.
const shown = 8

// Text returns the paths of changes as one line, shortened. If top is set, as for a Secret, only
// the first part of each path is shown.
func Text(changes []Change, top, more bool) string {
	var paths []string
	for _, c := range changes {
		path := c.Path
		if top {
			path, _, _ = strings.Cut(path, ".")
			path, _, _ = strings.Cut(path, "[")
		}
		if path = plain(path); !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	text := strings.Join(paths[:min(len(paths), shown)], ", ")
	switch n := len(paths) - shown; {
	case more:
		return text + " and more"
	case n > 0:
		return fmt.Sprintf("%s and %d more", text, n)
	}
	return text
}

// maxPath is how many bytes of a path are shown.
const maxPath = 256

// plain returns a path as a text on one line, shortened. Keys may hold anything.
func plain(path string) string {
	end := ""
	if len(path) > maxPath {
		path, end = path[:maxPath], "…"
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, path) + end
}
