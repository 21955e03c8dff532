package trc

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// Comparable reports whether versions are integers, as they are since Kubernetes 1.35 (KEP-5504).
// It becomes false for good once the store has met a version that is not, as some aggregated API
// servers have. The store then cannot know whether an answer is newer than what the watch has
// delivered, and it does not guess:
//
//   - The answer to a write is visible only if its [Proof] says what it was based on, and only
//     while the watch shows exactly that version (equality), or an earlier version in a chain of
//     own writes that are based on each other. Anything else ends it: another version, another UID,
//     absence.
//   - A creation is visible until the watch reports anything about its name, including a list that
//     lacks it. It does not become visible if the watch has already seen it come and go. Limit:
//     absence before the creation and absence after it look alike. If both lie in a gap of the
//     watch, or a thousand other objects are deleted before the answer is acknowledged, the
//     creation is visible until the next event or list. And a list, or another object of that name,
//     from before the creation ends it too soon. So does absence from a selector that a chain has
//     left and entered again. Readers then see older state until the next event arrives.
//   - Before the first list, and without a proof, an answer does not become visible.
//   - An object that is proven gone is hidden while the watch shows its UID. It is also hidden if
//     the watch shows it later, unless a thousand other objects were deleted in between.
//   - No transition is Late.
//
// When the store meets the first such version, the answers in the overlay stop being visible,
// because their proofs were not kept. UIDs that were proven gone stay hidden.
func (s *Store) Comparable() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return !s.incomparable
}

func (s *Store) becomeIncomparableLocked(version string) {
	s.incomparable = true
	if hook := s.options.OnIncomparable; hook != nil {
		s.pending = append(s.pending, delivery{call: func() { hook(version) }})
	}
	for key, e := range maps.Clone(s.ahead) {
		s.removeEntryLocked(key)
		if e.gone {
			s.deleted.add(e.uid, true)
		}
		if e.gone && e.base.uid() == e.uid {
			e.version = 0
			s.putEntryLocked(e)
		} else {
			s.setVisibleLocked(key, &e.base, false, false)
		}
	}
}

// recordDeletedLocked records the UID of the object that the watch of a key replaces or removes, if
// f is another object or none.
func (s *Store) recordDeletedLocked(key Key, e *overlayEntry, f *filing) {
	var before types.UID
	if e != nil {
		before = e.base.uid()
	} else {
		now := s.filingLocked(key)
		before = now.uid()
	}
	if before != "" && f.uid() != before {
		s.deleted.add(before, false)
	}
}

// dropGoneLocked returns f, unless f is an object that is proven gone and the watch is late to
// report it. Then it returns an absent state, or nil if there is nothing to apply.
func (s *Store) dropGoneLocked(e *overlayEntry, f *filing) *filing {
	switch {
	case f.uid() == "" || !s.deleted.proven(f.uid()) || e != nil && e.uid == f.uid():
		return f
	case e != nil && e.base.uid() == "":
		return nil
	}
	return &filing{}
}

// recentlyDeleted is a bounded set of the UIDs that were last deleted: seen by a watch, or proven
// gone.
type recentlyDeleted struct {
	uids  map[types.UID]bool // value: whether the deletion is proven
	order []types.UID        // a ring buffer
	next  int
}

const recentLimit = 1000

func (r *recentlyDeleted) add(uid types.UID, proven bool) {
	before, known := r.uids[uid]
	if r.uids == nil {
		r.uids = map[types.UID]bool{}
	}
	r.uids[uid] = before || proven
	switch {
	case known:
	case len(r.order) < recentLimit:
		r.order = append(r.order, uid)
	default:
		delete(r.uids, r.order[r.next])
		r.order[r.next] = uid
		r.next = (r.next + 1) % recentLimit
	}
}

func (r *recentlyDeleted) has(uid types.UID) bool {
	_, known := r.uids[uid]
	return known
}

func (r *recentlyDeleted) proven(uid types.UID) bool { return r.uids[uid] }

// isBeyond reports whether the entry's result is proven to be newer than f.
func (e *overlayEntry) isBeyond(f *filing) bool {
	return f.object != nil && f.object.GetUID() == e.uid && slices.Contains(e.links, f.object.GetResourceVersion())
}

// linkLocked makes an answer visible if its proof links it to what is visible.
func (s *Store) linkLocked(w *Watch, key Key, answer *filing, visible bool, proof Proof) {
	version, uid := answer.version(), answer.uid()
	e := &overlayEntry{key: key, watch: w, uid: uid, tip: version}
	if before := s.ahead[key]; before != nil {
		if before.tip == "" || before.uid != uid || before.tip != proof.Base {
			return
		}
		e.base, e.links = before.base, append(before.links, before.tip)
	} else {
		e.base = s.filingLocked(key)
		switch {
		case e.base.undecodable != nil:
			return
		case !w.listed || !proof.holdsOf(&e.base, answer):
			return
		case e.base.object == nil && (!visible || s.deleted.has(uid)):
			return // outside the selector, or deleted again
		}
		e.links = []string{proof.Base}
	}
	if slices.Contains(e.links, version) {
		return // the write changed nothing
	}
	if visible {
		e.result = *answer
	}
	s.putEntryLocked(e)
	s.setVisibleLocked(key, &e.result, false, false)
}

// holdsOf reports whether the proof is based on what the watch shows.
func (p Proof) holdsOf(base, answer *filing) bool {
	if base.object == nil {
		return p.Created
	}
	return !p.Created && p.Base != "" && p.Base == base.object.GetResourceVersion() &&
		base.object.GetUID() == answer.uid()
}

// hideLocked hides a UID that is gone while the watch shows it, and when the watch shows it later.
func (s *Store) hideLocked(e *overlayEntry) {
	s.deleted.add(e.uid, true)
	e.version = 0
	if before := s.ahead[e.key]; before == nil {
		e.base = s.filingLocked(e.key)
	} else if before.uid == e.uid {
		e.base = before.base
	} else {
		return
	}
	switch base := e.base.uid(); base {
	case e.uid:
		s.putEntryLocked(e)
		s.setVisibleLocked(e.key, &e.result, false, false)
	case "":
		s.removeEntryLocked(e.key)
		s.setVisibleLocked(e.key, &e.result, false, false)
	}
}
