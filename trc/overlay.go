package trc

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Proof is what the server has proven about a write by carrying it out. The zero value proves nothing.
// It matters where versions are no integers; see [Store.Comparable].
type Proof struct {
	// Base is the version that the write was conditional on: nothing came between it and the answer.
	Base string
	// Created is set if the write made the object come into being.
	Created bool
}

// Acknowledge takes in the answer to a successful write, or to a consistent read, before that returns to
// its caller: reads begun after it are at least as new. The store takes ownership of the object. An
// object in a namespace that no watch covers is ignored; one outside the store's selector hides the key
// until the watch has passed it.
//
// An answer may be [Undecoded]: the object is then set aside, as if the watch had delivered it so, until the watch
// has passed it; see [Store.SetAside].
//
// An answer that the watch, or a newer answer, has passed already is not shown. What is shown instead,
// be it nothing, is told as a [Transition] from it that is Late, unless it is the very same version: the
// object may have been changed or deleted by another in between, and nobody would hear of it (O16). One
// that is known to be gone is told of like any other, as who knows may not be whose answer this is. An
// answer outside the selector leads nowhere.
//
// It returns an error for what is no API object, is nil, or lacks a name, resourceVersion or UID, and
// then has changed nothing.
func (s *Store) Acknowledge(o Object, proof Proof) error {
	var answer [1]filing
	_, err := objectOf(o)
	visible := err == nil && s.isVisible(o) // of the whole object
	if err == nil {
		answer[0], err = s.take(o, inAnswer)
	}
	if err != nil {
		return fmt.Errorf("trc: store %s: acknowledge: %w", s.options.Name, err)
	}
	s.lockFiled(answer[:])
	s.acknowledgeLocked(KeyOf(o), &answer[0], visible, proof)
	s.tidyLocked(o)
	s.unlockAndDeliver()
	return nil
}

func (s *Store) isVisible(o Object) bool {
	if u, ok := o.(*Undecoded); ok {
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
			s.tellLateLocked(key, answer)
		}
		return
	}
	e := &entry{key: key, watch: w, version: version, uid: answer.uid()}
	if visible {
		e.result = *answer
	}
	if !s.overlayLocked(e) && visible {
		s.tellLateLocked(key, answer)
	}
}

// tellLateLocked emits the step from an answer to what is shown instead, unless that is it. Of an answer that is
// undecodable, only its end is a step: a newer version of it is an addition, which was emitted when it was shown.
func (s *Store) tellLateLocked(key Key, late *filing) {
	var shown Object
	answer := late.known()
	if aside := s.aside[key]; aside != nil && aside.undecoded.GetUID() == answer.GetUID() {
		if late.aside == nil {
			aside.missed(answer)
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
	case late.aside == nil && shown.GetResourceVersion() != answer.GetResourceVersion():
		s.queueLocked(Transition{Old: answer, New: shown, Late: true})
	}
}

// AcknowledgeGone takes in the proof that the object with that UID, last seen by us at version, no
// longer exists. Reads begun after it do not return it, whatever the watch still delivers of it. If
// we never saw a version, as when an object is deleted by UID alone, version is empty: then only a
// UID that is shown or written by us is hidden. Without a name or UID nothing happens.
//
// Limit: an object that another puts into the store's selector after version and before its deletion
// is shown from the one event to the other, as nothing tells the version of the deletion.
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
	e := &entry{key: key, watch: w, gone: true, uid: uid}
	if version != "" {
		e.version, _ = s.parseLocked(version)
	}
	if s.incomparable {
		s.hideLocked(e)
		return
	}
	s.overlayLocked(e)
}

// overlayLocked lays e over its key, unless what lies there is newer, and reports whether it did.
// Versions order the incarnations of a name too: all of a later one are beyond all of an earlier one.
// Within an incarnation, that it is gone outdoes all else, and then the newest version it is known to
// have had counts: up to there the name belongs to it and reads absent.
func (s *Store) overlayLocked(e *entry) bool {
	before := s.ahead[e.key]
	if before == nil {
		e.base = s.filingLocked(e.key)
	} else {
		e.base = before.base
		switch {
		case before.uid != e.uid || before.gone == e.gone:
			if before.version >= e.version && !e.decodes(before) {
				return false // an older answer that came late
			}
		case before.gone:
			s.raiseLocked(before, e.version)
			return false
		default:
			e.version = max(before.version, e.version)
		}
	}
	if e.version <= e.watch.progress && e.base.uid() != e.uid {
		return false // the watch has seen it go
	}
	s.keepLocked(e)
	s.showLocked(e.key, &e.result, false, false)
	if u := e.result.aside; u != nil {
		s.aside[e.key].missed(u.Object) // who wrote it hears of its end
	}
	return true
}

// decodes reports whether e holds the object of another entry that is undecodable, at the same version.
func (e *entry) decodes(before *entry) bool {
	return before.result.aside != nil && before.version == e.version && before.uid == e.uid && e.result.aside == nil
}

// parseLocked reads a version as KEP-5504 defines it: a positive integer without leading zeros. One
// beyond 64 bits counts as none. So does "0" or none at all, as some servers version no lists: what they
// then deliver is in no order that could be relied on.
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

// observeLocked takes in what a watch says of one key at a version; f has no object if it is absent.
func (s *Store) observeLocked(key Key, version uint64, f *filing, initial, renewed bool) {
	e := s.ahead[key]
	if s.incomparable {
		if f = s.judgeLocked(e, f); f == nil {
			return
		}
		s.noteDeletedLocked(key, e, f)
	}
	if e != nil {
		e.base = *f
		if e.hides(version, f) {
			return
		}
		s.forgetLocked(key)
	}
	s.showLocked(key, f, initial, renewed)
}
