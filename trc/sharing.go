package trc

import (
	"hash/maphash"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// shareLimit is how many different values of each sort are remembered: some 100 bytes each beside
// the value.
const shareLimit = 20_000

// sharing lets typed objects share equal parts of their metadata: labels, owner references,
// finalizers, the namespace and the keys of annotations. This is safe because objects in a store
// are never changed. It remembers the values that it has seen. When there are too many it forgets
// all of them and starts again.
type sharing struct {
	seed maphash.Seed

	mu         sync.Mutex // guards what is below; a leaf
	labels     map[uint64]map[string]string
	owners     map[uint64][]metav1.OwnerReference
	finalizers map[uint64][]string
	strings    map[string]string
}

func newSharing() *sharing { return &sharing{seed: maphash.MakeSeed()} }

// shareFrom is the number of objects from which a store also shares the parts of objects in events,
// which costs some 0.3 µs an event. Objects in lists always share.
const shareFrom = 4096

// sharesWith returns the visible object under a key, and reports whether the object that replaces
// it should share.
func (s *Store) sharesWith(key Key, how arrival) (before Object, worthwhile bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if how != inList && s.items.count() < shareFrom {
		return nil, false
	}
	if it := s.items.find(key); it != nil {
		before = it.object
	}
	return before, true
}

// share replaces parts of an object with equal parts of its predecessor, or else of other objects.
// The object must not be visible to others yet. Unstructured objects are left as they are.
func (s *sharing) share(o, before Object) {
	m := metadataIn(o)
	if m == nil {
		return
	}
	inherited := false // the annotations; others read that map from then on
	if before != nil {
		if was := metadataIn(before); was != nil {
			if inherit(m, was) {
				return
			}
			inherited = len(m.Annotations) > 0 && sameMap(was.Annotations, m.Annotations)
		}
	}
	s.shareWithAll(m, !inherited)
}

// metadataIn returns the metadata of a typed object, or nil.
func metadataIn(o Object) *metav1.ObjectMeta {
	if typed, ok := o.(metav1.ObjectMetaAccessor); ok {
		m, _ := typed.GetObjectMeta().(*metav1.ObjectMeta)
		return m
	}
	return nil
}

// inherit replaces parts of an object with equal parts of its predecessor. It reports whether
// nothing is left that shareWithAll would look up. Usually nothing is, at a fraction of the cost.
func inherit(m, was *metav1.ObjectMeta) bool {
	m.Namespace = was.Namespace
	same := sameOwners(was.OwnerReferences, m.OwnerReferences)
	if same {
		m.OwnerReferences = was.OwnerReferences
	}
	if slices.Equal(was.Finalizers, m.Finalizers) {
		m.Finalizers = was.Finalizers
	}
	if len(m.Annotations) > 0 && sameMap(was.Annotations, m.Annotations) {
		m.Annotations = was.Annotations
	}
	if len(m.Labels) > 0 {
		if !sameMap(was.Labels, m.Labels) {
			return false
		}
		m.Labels = was.Labels
	}
	return same
}

// sameMap is maps.Equal without the cost of the generic function.
func sameMap(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for key, value := range a {
		if other, ok := b[key]; !ok || other != value {
			return false
		}
	}
	return true
}

// shareWithAll shares with the remembered values. It shares the keys of annotations only if no
// other object has the map.
func (s *sharing) shareWithAll(m *metav1.ObjectMeta, annotations bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(m.Labels) > 0 {
		m.Labels = remembered(&s.labels, s.hashOfMap(m.Labels), m.Labels, sameMap)
	}
	if len(m.OwnerReferences) > 0 {
		m.OwnerReferences = remembered(&s.owners, s.hashOfOwners(m.OwnerReferences), m.OwnerReferences, sameOwners)
	}
	if len(m.Finalizers) > 0 {
		m.Finalizers = remembered(&s.finalizers, s.hashOfStrings(m.Finalizers), m.Finalizers, slices.Equal)
	}
	if m.Namespace != "" {
		m.Namespace = s.shared(m.Namespace)
	}
	if !annotations {
		return
	}
	for key, value := range m.Annotations {
		m.Annotations[s.shared(key)] = value // the map keeps the key that was assigned last
	}
}

// alike returns the remembered value with this hash if it is equal. Otherwise it remembers the
// given value and returns it.
func remembered[V any](known *map[uint64]V, hash uint64, value V, equal func(a, b V) bool) V {
	if found, ok := (*known)[hash]; ok && equal(found, value) {
		return found
	}
	if *known == nil || len(*known) >= shareLimit {
		*known = map[uint64]V{}
	}
	(*known)[hash] = value
	return value
}

func (s *sharing) shared(value string) string {
	if known, ok := s.strings[value]; ok {
		return known
	}
	if s.strings == nil || len(s.strings) >= shareLimit {
		s.strings = map[string]string{}
	}
	s.strings[value] = value
	return value
}

// hashOfMap does not depend on the order of the keys.
func (s *sharing) hashOfMap(of map[string]string) (sum uint64) {
	for key, value := range of {
		sum += maphash.String(s.seed, key)*31 + maphash.String(s.seed, value)
	}
	return sum
}

func (s *sharing) hashOfStrings(of []string) (sum uint64) {
	for _, value := range of {
		sum = sum*31 + maphash.String(s.seed, value)
	}
	return sum
}

func (s *sharing) hashOfOwners(of []metav1.OwnerReference) (sum uint64) {
	for i := range of {
		sum = sum*31 + maphash.String(s.seed, string(of[i].UID))
	}
	return sum
}

func sameOwners(a, b []metav1.OwnerReference) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		a, b := &a[i], &b[i]
		if a.UID != b.UID || a.Name != b.Name || a.Kind != b.Kind || a.APIVersion != b.APIVersion ||
			!same(a.Controller, b.Controller) || !same(a.BlockOwnerDeletion, b.BlockOwnerDeletion) {
			return false
		}
	}
	return true
}

func same(a, b *bool) bool { return a == b || a != nil && b != nil && *a == *b }
