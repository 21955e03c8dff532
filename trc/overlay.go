package trc

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Proof is what the server has proven about a write by carrying it out. The zero value proves nothing.
type Proof struct {
	// Base is the version that the write was conditional on: nothing came between it and the answer.
	Base string
	// Created is set if the write made the object come into being.
	Created bool
}

// Acknowledge takes in the answer to a successful write, before the write call returns to its
// caller: reads begun after it are at least as new. The store takes ownership of the object. An
// answer that the watch has already passed changes nothing. An object in a namespace that no watch
// covers is ignored; one outside the store's selector hides the key until the watch has passed it.
//
// It returns an error for an object without a name or version.
func (s *Store) Acknowledge(o Object, proof Proof) error {
	if o.GetName() == "" || o.GetResourceVersion() == "" {
		return fmt.Errorf("trc: store %s: acknowledge %s: name %q, resourceVersion %q: neither may be empty",
			s.options.Name, KeyOf(o), o.GetName(), o.GetResourceVersion())
	}
	s.transform(o)
	s.mu.Lock()
	s.acknowledgeLocked(KeyOf(o), o)
	s.mu.Unlock()
	s.deliver()
	return nil
}

func (s *Store) acknowledgeLocked(key Key, o Object) {
	w := s.watchOfLocked(key.Namespace)
	if w == nil {
		return
	}
	version, ok := s.parseLocked(o.GetResourceVersion())
	if !ok || version <= w.progress {
		return
	}
	e := &entry{version: version, uid: o.GetUID(), object: o}
	if s.options.Visible != nil && !s.options.Visible(o) {
		e.object = nil
	}
	s.overlayLocked(w, key, e)
}

// AcknowledgeGone takes in the proof that the object with that UID, last seen by us at version, no
// longer exists. Reads begun after it do not return it, whatever the watch still delivers of it. If
// we never saw a version, as when an object is deleted by UID alone, version is empty: then only a
// UID that is shown or written by us is hidden.
//
// Limit: an object that another puts into the store's selector after version and before its deletion
// is shown from the one event to the other, as nothing tells the version of the deletion.
func (s *Store) AcknowledgeGone(key Key, uid types.UID, version string) {
	s.mu.Lock()
	s.goneLocked(key, uid, version)
	s.mu.Unlock()
	s.deliver()
}

func (s *Store) goneLocked(key Key, uid types.UID, version string) {
	w := s.watchOfLocked(key.Namespace)
	if w == nil || s.incomparable {
		return
	}
	e := &entry{gone: true, uid: uid}
	if version != "" {
		var ok bool
		if e.version, ok = s.parseLocked(version); !ok {
			return
		}
	}
	s.overlayLocked(w, key, e)
}

// overlayLocked lays e over its key, unless what lies there is newer. Versions order the
// incarnations of a name too: all of a later one are beyond all of an earlier one. Within an
// incarnation, that it is gone outdoes all else, and then the newest version it is known to have had
// counts: up to there the name belongs to it and reads absent.
func (s *Store) overlayLocked(w *Watch, key Key, e *entry) {
	e.base = s.Get(key)
	if before := s.ahead[key]; before != nil {
		e.base = before.base
		switch {
		case before.uid != e.uid || before.gone == e.gone:
			if before.version >= e.version {
				return // an older answer that came late
			}
		case before.gone:
			before.version = max(before.version, e.version)
			return
		default:
			e.version = max(before.version, e.version)
		}
	}
	if e.version <= w.progress && (e.base == nil || e.base.GetUID() != e.uid) {
		return // the watch has seen it go
	}
	s.ahead[key] = e
	s.showLocked(key, e.object, false)
}

func (s *Store) watchOfLocked(namespace string) *Watch {
	for _, w := range s.watches {
		if w.namespace == "" || w.namespace == namespace {
			return w
		}
	}
	return nil
}

// parseLocked reads a version as KEP-5504 defines it: an integer without leading zeros. Anything
// else turns the overlay off for good: nothing is ever guessed.
func (s *Store) parseLocked(version string) (uint64, bool) {
	if s.incomparable {
		return 0, false
	}
	v, err := strconv.ParseUint(version, 10, 64)
	if err != nil || strings.HasPrefix(version, "0") || strings.HasPrefix(version, "+") {
		s.incomparable = true
		for key, e := range s.ahead {
			delete(s.ahead, key)
			s.showLocked(key, e.base, false)
		}
		return 0, false
	}
	return v, true
}

// observeLocked takes in what a watch says of one key at a version; o is nil for a deletion.
func (s *Store) observeLocked(key Key, version uint64, o Object, initial bool) {
	e := s.ahead[key]
	if e == nil {
		s.showLocked(key, o, initial)
		return
	}
	e.base = o
	if e.hides(version, o) {
		return
	}
	delete(s.ahead, key)
	s.showLocked(key, o, initial)
}

// hides reports whether the entry outlives the news that its key is o (nil: absent) as of version.
func (e *entry) hides(version uint64, o Object) bool {
	if version < e.version {
		return true
	}
	return e.gone && o != nil && o.GetUID() == e.uid
}

// passLocked moves the progress of a watch and lets go of the entries it has passed. Those that the
// watch said nothing of are not what readers of it would see: its own state is shown again.
func (s *Store) passLocked(w *Watch, version uint64) {
	w.progress = version
	if w.progress < s.lowestAheadLocked() {
		return
	}
	for key, e := range s.ahead {
		if s.watchOfLocked(key.Namespace) == w && !e.hides(version, e.base) {
			delete(s.ahead, key)
			s.showLocked(key, e.base, false)
		}
	}
}

func (s *Store) lowestAheadLocked() uint64 {
	lowest := ^uint64(0)
	for _, e := range s.ahead {
		lowest = min(lowest, e.version)
	}
	return lowest
}
