package trc

import "k8s.io/apimachinery/pkg/types"

// undecodableEntry is an object that exists but cannot be shown to readers.
type undecodableEntry struct {
	undecoded   *Undecodable
	lastVisible Object // the last emitted version; nil after its deletion was emitted
}

// recordAnswer records an answer to an own write that is older than the undecodable version, if no
// version of the object was emitted.
func (a *undecodableEntry) recordAnswer(answer Object) {
	if a.lastVisible == nil {
		a.lastVisible = answer
	}
}

// Undecodable returns the object under a key if it is undecodable, otherwise nil. An undecodable
// object exists, as far as the watch or an answer showed, but its Go type cannot hold it. The
// result must not be changed.
//
// Readers do not see such an object. No transition is emitted when it becomes undecodable, because
// it was not deleted. When it decodes again, an addition is emitted. When it is deleted meanwhile,
// a transition from the last version that readers saw is emitted, if there was one.
func (s *Store) Undecodable(key Key) *Undecodable {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if entry := s.undecodable[key]; entry != nil {
		return entry.undecoded
	}
	return nil
}

// AllUndecodable returns the undecodable objects. The value of each is the last version that
// readers saw, nil if they saw none. It costs next to nothing if there are none.
func (s *Store) AllUndecodable() map[*Undecodable]Object {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if len(s.undecodable) == 0 {
		return nil
	}
	all := make(map[*Undecodable]Object, len(s.undecodable))
	for _, entry := range s.undecodable {
		all[entry.undecoded] = entry.lastVisible
	}
	return all
}

// markUndecodableLocked hides an object from readers. It emits a transition only if the object
// replaces another one.
func (s *Store) markUndecodableLocked(key Key, u *Undecodable) {
	now, before := &undecodableEntry{undecoded: u, lastVisible: s.items.remove(key)}, s.undecodable[key]
	if before != nil {
		now.lastVisible = before.lastVisible
	}
	if now.lastVisible != nil && now.lastVisible.GetUID() != u.GetUID() {
		s.queueLocked(Transition{Old: now.lastVisible})
		now.lastVisible = nil
	}
	s.undecodable[key] = now
	if hook := s.options.OnUndecodable; hook != nil && (before == nil || !before.undecoded.isLike(u)) {
		s.pending = append(s.pending, delivery{call: func() { hook(u) }})
	}
}

// isLike reports whether both are the same object with the same error.
func (u *Undecodable) isLike(other *Undecodable) bool {
	return u.GetUID() == other.GetUID() && u.Err.Error() == other.Err.Error()
}

// clearUndecodableLocked ends the undecodable state of a key that is about to become f. If f is
// another object or none, it emits the deletion of the last visible version.
func (s *Store) clearUndecodableLocked(key Key, f *filing) {
	entry := s.undecodable[key]
	if entry == nil {
		return
	}
	delete(s.undecodable, key)
	if entry.lastVisible != nil && f.uid() != entry.lastVisible.GetUID() {
		s.queueLocked(Transition{Old: entry.lastVisible})
	}
}

// filingLocked returns the visible state of a key as it was filed, or its undecodable object.
func (s *Store) filingLocked(key Key) filing {
	if entry := s.undecodable[key]; entry != nil {
		return filing{undecodable: entry.undecoded}
	}
	return s.items.filing(key)
}

// known returns the object, or its decoded part if it is undecodable; nil if there is none.
func (f *filing) known() Object {
	switch {
	case f.object != nil:
		return f.object
	case f.undecodable != nil:
		return f.undecodable.Object
	}
	return nil
}

// uid returns the UID of the object, visible or not; "" if there is no object.
func (f *filing) uid() types.UID {
	if o := f.known(); o != nil {
		return o.GetUID()
	}
	return ""
}

// version returns the version of the object, visible or not; "" if there is no object.
func (f *filing) version() string {
	if o := f.known(); o != nil {
		return o.GetResourceVersion()
	}
	return ""
}
