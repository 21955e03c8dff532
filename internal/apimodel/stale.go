package apimodel

import (
	"maps"
	"sort"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// acceptsAny reports whether the request may be answered with a state of the past.
func (c *call) acceptsAny() bool {
	version := c.query.Get("resourceVersion")
	legacyWatch := c.Verb == "watch" && c.query.Get("sendInitialEvents") != "true"
	return version == "0" || version == "" && legacyWatch
}

// stateLocked returns the objects that a read of the call's resource shows, and their version. The
// map must not be changed.
func (m *store) stateLocked(c *call) (map[key]*unstructured.Unstructured, int64) {
	r, newest := c.resource, m.versionLocked()
	if m.stale <= 0 || !c.acceptsAny() {
		return r.objects, newest
	}
	until := time.Now().Add(-m.stale)
	version := m.history.versionAt(sort.Search(len(m.history), func(i int) bool { return m.history[i].At.After(until) }))
	version = max(version, r.oldest, m.history.first())
	return r.objectsAt(version, m.history), version
}

// objectsAt undoes what the history says was done after the version.
func (r *resource) objectsAt(version int64, history commits) map[key]*unstructured.Unstructured {
	objects := maps.Clone(r.objects)
	for i := len(history) - 1; i >= history.after(version); i-- {
		c := history[i]
		if c.resource != r {
			continue
		}
		k := key{c.Object.GetNamespace(), c.Object.GetName()}
		if c.Previous == nil {
			delete(objects, k)
		} else {
			objects[k] = c.Previous
		}
	}
	return objects
}
