package trc

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Proof is what the server has proven about a write by performing it. The zero value proves
// nothing. It is used only if versions are not integers; see [Store.Comparable].
type Proof struct {
	// Base is the version that the write was conditional on: nothing came between it and the answer.
	Base string
	// Created is set if the write created the object.
	Created bool
}

// Acknowledge adds the answer to a successful write, or to a consistent read. Call it before the
// request returns to its caller: reads that begin after Acknowledge returns are at least as new as
// the answer. The store takes ownership of the object. An object in a namespace that no watch
// covers is ignored. An object outside the store's selector hides the key until the watch has
// passed its version.
//
// An answer may be [Undecodable]. The object is then undecodable until the watch has passed it, as
// if the watch had delivered it; see [Store.Undecodable].
//
// An answer that the watch, or a newer answer, has already passed does not become visible. Instead
// the store emits a Late [Transition] from the answer to what is visible, even if that is nothing,
// unless that is the very same version. Another writer may have changed or deleted the object in
// between, and subscribers would otherwise miss it (O16). The same holds for an object that is
// known to be gone, because the answer may be another writer's. An answer outside the selector
// emits nothing.
//
// It returns an error, and changes nothing, if o is no API object, is nil, or lacks a name,
// resourceVersion or UID.
func (s *Store) Acknowledge(o Object, proof Proof) error {
	var answer [1]filing
	_, err := objectOf(o)
	visible := err == nil && s.isVisible(o) // judged before Transform
	if err == nil {
		answer[0], err = s.take(o, inAnswer)
	}
	if err != nil {
		return fmt.Errorf("trc: store %s: acknowledge: %w", s.options.Name, err)
	}
	s.lockFiled(answer[:])
	s.acknowledgeLocked(KeyOf(o), &answer[0], visible, proof)
	s.dropWholeUnlessVisibleLocked(o)
	s.unlockAndDeliver()
	return nil
}

func (s *Store) isVisible(o Object) bool {
	if u, ok := o.(*Undecodable); ok {
		o = u.Object // its metadata is complete
	}
	return s.options.Visible == nil || s.options.Visible(o)
}

func (s *Store) acknowledgeLocked(key Key, answer *filing, visible bool, proof Proof) {
	w := s.watchOfLocked(key.Namespace)
	if w == nil {
		return
	}
	version, ok := s.parseLocked(answer.version())
	if !ok {
		s.linkLocked(w, key, answer, visible, proof)
		return
	}
	if version <= w.progress {
		if visible {
			s.emitLateLocked(key, answer)
		}
		return
	}
	e := &overlayEntry{key: key, watch: w, version: version, uid: answer.uid()}
	if visible {
		e.result = *answer
	}
	if !s.overlayLocked(e) && visible {
		s.emitLateLocked(key, answer)
	}
}

// emitLateLocked emits the step from an answer to what is visible instead, unless they are the
// same. If the answer is undecodable, only its deletion is a step: a newer version of it is an
// addition, which was emitted when it became visible.
func (s *Store) emitLateLocked(key Key, late *filing) {
	var shown Object
	answer := late.known()
	if entry := s.undecodable[key]; entry != nil && entry.undecoded.GetUID() == answer.GetUID() {
		if late.undecodable == nil {
			entry.recordAnswer(answer)
		}
		return
	}
	if it := s.items.find(key); it != nil {
		shown = it.object
	}
	switch {
	case shown == nil:
		s.queueLocked(Transition{Old: answer, Late: true})
	case shown.GetUID() != answer.GetUID():
		s.queueLocked(Transition{Old: answer, Late: true})
		s.queueLocked(Transition{New: shown, Late: true})
	case late.undecodable == nil && shown.GetResourceVersion() != answer.GetResourceVersion():
		s.queueLocked(Transition{Old: answer, New: shown, Late: true})
	}
}

// AcknowledgeGone adds the proof that the object with that UID no longer exists. version is the
// last version of it that we saw. Reads that begin after it returns do not return the object,
// whatever the watch still delivers. version may be empty if no version is known, as when an object
// is deleted by UID alone: then a UID is hidden only if it is visible or was written by us. Without
// a name or UID it does nothing.
//
// Limit: another writer may put the object into the store's selector after version and before its
// deletion. The object is then visible between these two events, because nothing gives the version
// of the deletion.
func (s *Store) AcknowledgeGone(key Key, uid types.UID, version string) {
	if key.Name == "" || uid == "" {
		return
	}
	s.mu.Lock()
	s.goneLocked(key, uid, version)
	s.unlockAndDeliver()
}

func (s *Store) goneLocked(key Key, uid types.UID, version string) {
	w := s.watchOfLocked(key.Namespace)
	if w == nil {
		return
	}
	e := &overlayEntry{key: key, watch: w, gone: true, uid: uid}
	if version != "" {
		e.version, _ = s.parseLocked(version)
	}
	if s.incomparable {
		s.hideLocked(e)
		return
	}
	s.overlayLocked(e)
}

// overlayLocked makes e the overlay entry of its key, unless the present entry is newer, and
// reports whether it did. Versions also order the incarnations of a name: all versions of a later
// one are greater than all of an earlier one. Within an incarnation, a proven deletion wins over
// all else. After that the newest version that the object is known to have had counts: up to it the
// name belongs to that incarnation and reads as absent.
func (s *Store) overlayLocked(e *overlayEntry) bool {
	before := s.ahead[e.key]
	if before == nil {
		e.base = s.filingLocked(e.key)
	} else {
		e.base = before.base
		switch {
		case before.uid != e.uid || before.gone == e.gone:
			if before.version >= e.version && !e.decodes(before) {
				return false // an older answer that arrived late
			}
		case before.gone:
			s.raiseEntryLocked(before, e.version)
			return false
		default:
			e.version = max(before.version, e.version)
		}
	}
	if e.version <= e.watch.progress && e.base.uid() != e.uid {
		return false // the watch has seen it go
	}
	s.putEntryLocked(e)
	s.setVisibleLocked(e.key, &e.result, false, false)
	if u := e.result.undecodable; u != nil {
		s.undecodable[e.key].recordAnswer(u.Object) // so that its deletion is emitted to its writer
	}
	return true
}

// decodes reports whether e is the decoded object of an entry that is undecodable at the same
// version.
func (e *overlayEntry) decodes(before *overlayEntry) bool {
	return before.result.undecodable != nil && before.version == e.version && before.uid == e.uid && e.result.undecodable == nil
}

// parseLocked parses a version as KEP-5504 defines it: a positive integer without leading zeros. A
// version beyond 64 bits is not valid. "0" and "" are not valid either: some servers give their
// lists no version, and what they then deliver is in no reliable order. An invalid version makes
// the store incomparable.
func (s *Store) parseLocked(version string) (uint64, bool) {
	if s.incomparable {
		return 0, false
	}
	v, err := strconv.ParseUint(version, 10, 64)
	if err != nil || strings.HasPrefix(version, "0") {
		s.becomeIncomparableLocked(version)
		return 0, false
	}
	return v, true
}

// observeLocked applies what a watch reports of one key at a version; f has no object if the key is
// absent.
func (s *Store) observeLocked(key Key, version uint64, f *filing, initial, renewed bool) {
	e := s.ahead[key]
	if s.incomparable {
		if f = s.dropGoneLocked(e, f); f == nil {
			return
		}
		s.recordDeletedLocked(key, e, f)
	}
	if e != nil {
		e.base = *f
		if e.hides(version, f) {
			return
		}
		s.removeEntryLocked(key)
	}
	s.setVisibleLocked(key, f, initial, renewed)
}
