package apimodel

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// Serves reports whether objects of the kind are served.
func (m *Model) Serves(kind schema.GroupVersionKind) bool { return m.of(kind) != nil }

// IsNamespaced reports whether objects of the kind have a namespace. It panics if the kind is not
// served.
func (m *Model) IsNamespaced(kind schema.GroupVersionKind) bool { return !m.of(kind).ClusterScoped }

func (s served) of(kind schema.GroupVersionKind) *resource {
	for _, r := range s {
		if r.GroupVersionKind == kind {
			return r
		}
	}
	return nil
}

func (m *Model) of(kind schema.GroupVersionKind) *resource { return m.served.of(kind) }

// Seed stores an object as it is, with its status, UID, generation and deletion timestamp, as if it
// had been there for long. What is missing of these is filled in. It replaces an object of that
// name.
func (m *Model) Seed(o *unstructured.Unstructured) error {
	r := m.of(o.GroupVersionKind())
	if r == nil {
		return fmt.Errorf("apimodel: seed %s %s: the kind is not served", o.GroupVersionKind(), o.GetName())
	}
	if o.GetName() == "" {
		return fmt.Errorf("apimodel: seed %s: a name is missing", o.GroupVersionKind())
	}
	o, err := r.normalise(o.DeepCopy())
	if err != nil {
		return fmt.Errorf("apimodel: seed %s %s: %w", o.GroupVersionKind(), o.GetName(), err)
	}
	o = r.stored(o)
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &call{resource: r, Request: Request{Verb: "seed", Resource: r.Plural, Namespace: o.GetNamespace(), Name: o.GetName()}}
	if o.GetUID() == "" {
		o.SetUID(m.newUIDLocked(r, c.key()))
	}
	if at := o.GetCreationTimestamp(); at.IsZero() {
		o.SetCreationTimestamp(metav1.Now().Rfc3339Copy())
	}
	if r.Generation && o.GetGeneration() == 0 {
		o.SetGeneration(1)
	}
	m.commitLocked(c, watch.Added, o)
	return nil
}
