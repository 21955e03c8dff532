package trc

import "k8s.io/apimachinery/pkg/types"

// setAside is an object that exists and cannot be shown.
type setAside struct {
	undecoded *Undecoded
	last      Object // of it that was shown; nil if nothing was since it was told as gone, or ever
}

// missed takes in an answer to an own write from before the object was set aside, which nobody was told of.
func (a *setAside) missed(answer Object) {
	if a.last == nil {
		a.last = answer
	}
}

// SetAside returns the object under a key if it exists, as far as the watch or an answer told, and cannot be shown
// because the Go type cannot hold it; otherwise nil. It is not to be changed.
//
// Such an object is not read, and no transition tells of it, for it has not gone. When it can be decoded again it
// comes as an addition. When it is deleted meanwhile, that is a transition from what was shown of it last, if
// anything was.
func (s *Store) SetAside(key Key) *Undecoded {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if aside := s.aside[key]; aside != nil {
		return aside.undecoded
	}
	return nil
}

// AllSetAside returns the objects that are set aside, in no order. It costs next to nothing while there are none.
func (s *Store) AllSetAside() []*Undecoded {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if len(s.aside) == 0 {
		return nil
	}
	all := make([]*Undecoded, 0, len(s.aside))
	for _, aside := range s.aside {
		all = append(all, aside.undecoded)
	}
	return all
}

// setAsideLocked stops showing an object, without a transition unless it replaces another one.
func (s *Store) setAsideLocked(key Key, u *Undecoded) {
	now, before := &setAside{undecoded: u, last: s.items.remove(key)}, s.aside[key]
	if before != nil {
		now.last = before.last
	}
	if now.last != nil && now.last.GetUID() != u.GetUID() {
		s.queueLocked(Transition{Old: now.last})
		now.last = nil
	}
	s.aside[key] = now
	if tell := s.options.OnSetAside; tell != nil && (before == nil || !before.undecoded.isLike(u)) {
		s.pending = append(s.pending, delivery{call: func() { tell(u) }})
	}
}

// isLike tells whether the same does not fit of the same object.
func (u *Undecoded) isLike(other *Undecoded) bool {
	return u.GetUID() == other.GetUID() && u.Err.Error() == other.Err.Error()
}

// fetchLocked ends that an object is set aside, which is about to be shown, or gone: then what was shown of it
// is told to be.
func (s *Store) fetchLocked(key Key, f *filing) {
	aside := s.aside[key]
	if aside == nil {
		return
	}
	delete(s.aside, key)
	if aside.last != nil && f.uid() != aside.last.GetUID() {
		s.queueLocked(Transition{Old: aside.last})
	}
}

// filingLocked returns what is shown under a key, as it was filed, or that it is set aside.
func (s *Store) filingLocked(key Key) filing {
	if aside := s.aside[key]; aside != nil {
		return filing{aside: aside.undecoded}
	}
	return s.items.filing(key)
}

// known returns the object, or what could be decoded of it; nil if there is none.
func (f *filing) known() Object {
	switch {
	case f.object != nil:
		return f.object
	case f.aside != nil:
		return f.aside.Object
	}
	return nil
}

// uid returns that of the object, shown or not; none if there is no object.
func (f *filing) uid() types.UID {
	if o := f.known(); o != nil {
		return o.GetUID()
	}
	return ""
}

// version returns that of the object, shown or not; none if there is no object.
func (f *filing) version() string {
	if o := f.known(); o != nil {
		return o.GetResourceVersion()
	}
	return ""
}
