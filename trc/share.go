package trc

import (
	"hash/maphash"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// shareLimit bounds how many different values are remembered of each sort: some 100 bytes each beside the value.
const shareLimit = 20_000

// sharing lets typed objects share what many of them have alike: labels, owner references, finalizers, the namespace and
// the keys of annotations. Objects in a store are never changed, so nobody can tell. It remembers the values that it
// saw, and forgets all of them when they are too many, after which what comes in shares with what comes after it.
type sharing struct {
	seed maphash.Seed

	mu         sync.Mutex // guards what is below; a leaf
	labels     map[uint64]map[string]string
	owners     map[uint64][]metav1.OwnerReference
	finalizers map[uint64][]string
	strings    map[string]string
}

func newSharing() *sharing { return &sharing{seed: maphash.MakeSeed()} }

// shareFrom is how many objects a store has when every event pays for sharing: some 0.3 µs. A list always does.
const shareFrom = 4096

// sharesWith returns what is shown under a key, and tells whether an object that is to take its place should share.
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

// share replaces parts of an object, that nobody else sees yet, by equal ones of what was shown in its place, or else of
// others. Unstructured objects are left as they are.
func (s *sharing) share(o, before Object) {
	m := metadataIn(o)
	if m == nil {
		return
	}
	inherited := false // the annotations: that map is read by others from then on
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

// inherit lets an object have what it has alike with what it replaces, and reports whether that was all that is looked
// for elsewhere. Mostly it is, and costs a fraction of that.
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

// sameMap is maps.Equal without its generic detour.
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

// shareWithAll shares with whatever is remembered; the keys of annotations only if nobody else has the map.
func (s *sharing) shareWithAll(m *metav1.ObjectMeta, annotations bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(m.Labels) > 0 {
		m.Labels = alike(&s.labels, s.hashOfMap(m.Labels), m.Labels, sameMap)
	}
	if len(m.OwnerReferences) > 0 {
		m.OwnerReferences = alike(&s.owners, s.hashOfOwners(m.OwnerReferences), m.OwnerReferences, sameOwners)
	}
	if len(m.Finalizers) > 0 {
		m.Finalizers = alike(&s.finalizers, s.hashOfStrings(m.Finalizers), m.Finalizers, slices.Equal)
	}
	if m.Namespace != "" {
		m.Namespace = s.string(m.Namespace)
	}
	if !annotations {
		return
	}
	for key, value := range m.Annotations {
		m.Annotations[s.string(key)] = value // the runtime keeps the key that was assigned last
	}
}

// alike returns the value that is remembered under a hash, if it is the same, and remembers this one otherwise.
func alike[V any](known *map[uint64]V, hash uint64, value V, equal func(a, b V) bool) V {
	if found, ok := (*known)[hash]; ok && equal(found, value) {
		return found
	}
	if *known == nil || len(*known) >= shareLimit {
		*known = map[uint64]V{}
	}
	(*known)[hash] = value
	return value
}

func (s *sharing) string(value string) string {
	if known, ok := s.strings[value]; ok {
		return known
	}
	if s.strings == nil || len(s.strings) >= shareLimit {
		s.strings = map[string]string{}
	}
	s.strings[value] = value
	return value
}

// hashOfMap does not depend on the order.
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
