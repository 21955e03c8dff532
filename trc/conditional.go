package trc

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// Comparable reports whether versions are integers, as they are since Kubernetes 1.35 (KEP-5504). It is
// false for good once one was seen that is not, as some aggregated API servers have. Nothing tells then
// whether an answer is newer than what the watch has delivered, and nothing is guessed:
//
//   - The answer to a write is shown only if its [Proof] says what it was based on, and only while the
//     watch shows exactly that (equality), or an earlier one of a chain of own writes that are based on
//     each other. Anything else ends it: another version, another UID, absence.
//   - A creation is shown until the watch says anything of its name, a list that lacks it included, and
//     not at all if the watch has seen it come and go already. Limit: absence before it and absence
//     after it look alike. If both lie in a gap of the watch, or a thousand others go before its answer
//     is acknowledged, it is shown until the next news or list. And a list, or an
//     object of others by that name, from before the creation ends it too soon, as does absence from a
//     selector that a chain has left and entered again: readers go back until the next event comes.
//   - Before the first list, and without a proof, an answer is not shown.
//   - What is proven gone is hidden while the watch shows that very UID, and if it comes to show it
//     before a thousand others are gone.
//   - No transition is Late.
//
// The answers that were ahead when the first such version was met are no longer shown, for their proofs
// have not been kept; the UIDs that were proven gone stay hidden.
func (s *Store) Comparable() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return !s.incomparable
}

func (s *Store) becomeIncomparableLocked(version string) {
	s.incomparable = true
	if tell := s.options.OnIncomparable; tell != nil {
		s.pending = append(s.pending, delivery{call: func() { tell(version) }})
	}
	for key, e := range maps.Clone(s.ahead) {
		s.forgetLocked(key)
		if e.gone {
			s.deleted.add(e.uid, true)
		}
		if e.gone && e.base.uid() == e.uid {
			e.version = 0
			s.keepLocked(e)
		} else {
			s.showLocked(key, &e.base, false, false)
		}
	}
}

// noteDeletedLocked notes if the watch of a key goes over to f from an object that f is not.
func (s *Store) noteDeletedLocked(key Key, e *entry, f *filing) {
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

// judgeLocked returns what to make of the news that a key is f, which the watch may tell late of an
// object that is proven gone: nothing (nil), or that the key is absent.
func (s *Store) judgeLocked(e *entry, f *filing) *filing {
	switch {
	case f.uid() == "" || !s.deleted.proven(f.uid()) || e != nil && e.uid == f.uid():
		return f
	case e != nil && e.base.uid() == "":
		return nil
	}
	return &filing{}
}

// recentlyDeleted is the UIDs that the watches have seen leave, or that are proven gone, last.
type recentlyDeleted struct {
	uids  map[types.UID]bool // whether it is proven
	order []types.UID        // as a ring
	next  int
}

const recently = 1000

func (r *recentlyDeleted) add(uid types.UID, proven bool) {
	before, known := r.uids[uid]
	if r.uids == nil {
		r.uids = map[types.UID]bool{}
	}
	r.uids[uid] = before || proven
	switch {
	case known:
	case len(r.order) < recently:
		r.order = append(r.order, uid)
	default:
		delete(r.uids, r.order[r.next])
		r.order[r.next] = uid
		r.next = (r.next + 1) % recently
	}
}

func (r *recentlyDeleted) has(uid types.UID) bool {
	_, known := r.uids[uid]
	return known
}

func (r *recentlyDeleted) proven(uid types.UID) bool { return r.uids[uid] }

// isBeyond reports whether the entry's result is proven to come after f.
func (e *entry) isBeyond(f *filing) bool {
	return f.object != nil && f.object.GetUID() == e.uid && slices.Contains(e.links, f.object.GetResourceVersion())
}

// linkLocked shows an answer if it is proven to follow what is shown.
func (s *Store) linkLocked(w *Watch, key Key, answer *filing, visible bool, proof Proof) {
	version, uid := answer.version(), answer.uid()
	e := &entry{key: key, watch: w, uid: uid, tip: version}
	if before := s.ahead[key]; before != nil {
		if before.tip == "" || before.uid != uid || before.tip != proof.Base {
			return
		}
		e.base, e.links = before.base, append(before.links, before.tip)
	} else {
		e.base = s.filingLocked(key)
		switch {
		case e.base.aside != nil:
			return
		case !w.listed || !proof.holdsOf(&e.base, answer):
			return
		case e.base.object == nil && (!visible || s.deleted.has(uid)):
			return // nothing is to be seen of it, or no longer
		}
		e.links = []string{proof.Base}
	}
	if slices.Contains(e.links, version) {
		return // nothing was written
	}
	if visible {
		e.result = *answer
	}
	s.keepLocked(e)
	s.showLocked(key, &e.result, false, false)
}

// holdsOf reports whether the proof is about what the watch shows.
func (p Proof) holdsOf(base, answer *filing) bool {
	if base.object == nil {
		return p.Created
	}
	return !p.Created && p.Base != "" && p.Base == base.object.GetResourceVersion() &&
		base.object.GetUID() == answer.uid()
}

// hideLocked hides a UID that is gone for as long as the watch shows it, and if it comes to show it.
func (s *Store) hideLocked(e *entry) {
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
		s.keepLocked(e)
		s.showLocked(e.key, &e.result, false, false)
	case "":
		s.forgetLocked(e.key)
		s.showLocked(e.key, &e.result, false, false)
	}
}
