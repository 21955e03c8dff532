package trc

import (
	"fmt"
	"slices"
)

// AddIndex adds an index over what readers see; it may be called at any time, and [Store.ByIndex]
// knows the index from its return on. The function must be pure. It is never called under the store's
// lock, but under that of nobody else either: for several objects at once. An object for which it
// panics is filed under no value; whoever wants to hear of it recovers by himself. A second index of
// the same name is refused.
func (s *Store) AddIndex(name string, values func(Object) []string) error {
	added := &index{name: name, values: values, buckets: map[string]*bucket{}}
	s.mu.Lock()
	before := s.indexesNow()
	if slices.ContainsFunc(before, func(i *index) bool { return i.name == name }) {
		s.mu.Unlock()
		return fmt.Errorf("trc: store %s: index %q exists", s.options.Name, name)
	}
	after := append(slices.Clone(before), added)
	s.indexes.Store(&after)
	return s.unlockAndFile(added)
}

// Refile asks the function of an index anew about all objects, as for one that could not tell before; there need not be
// one. Until it returns, [Store.ByIndex] does not know the index.
func (s *Store) Refile(name string) error {
	s.mu.Lock()
	before := s.indexesNow()
	at := slices.IndexFunc(before, func(i *index) bool { return i.name == name })
	if at < 0 {
		s.mu.Unlock()
		return nil
	}
	added := &index{name: name, values: before[at].values, buckets: map[string]*bucket{}}
	after := slices.Clone(before)
	after[at] = added
	s.indexes.Store(&after)
	s.emptyLocked(before[at])
	return s.unlockAndFile(added)
}

// unlockAndFile files what was there before an index: whatever enters the store from here on is filed already. It lets go
// of the lock, which it must be called with.
func (s *Store) unlockAndFile(added *index) error {
	missing := s.items.objects("")
	for _, e := range s.ahead {
		for _, f := range []*filing{&e.base, &e.result} {
			if f.object != nil {
				missing = append(missing, f.object)
			}
		}
	}
	s.mu.Unlock()

	late := make([]filing, len(missing))
	for i, o := range missing {
		late[i].object = o
		late[i].fileUnder(added)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.indexesNow(), added) {
		return fmt.Errorf("trc: store %s: index %q was removed while it was added", s.options.Name, added.name)
	}
	for i := range late {
		s.fileLateLocked(added, &late[i])
	}
	added.ready = true
	return nil
}

// RemoveIndex removes an index; there need not be one. [Store.ByIndex] knows it no more from the return on, and
// nothing is left of it. It takes a time that is proportional to what is filed there, during which readers wait.
func (s *Store) RemoveIndex(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.indexesNow()
	at := slices.IndexFunc(before, func(i *index) bool { return i.name == name })
	if at < 0 {
		return
	}
	after := slices.Delete(slices.Clone(before), at, at+1)
	s.indexes.Store(&after)
	s.emptyLocked(before[at])
}

// emptyLocked takes out all that is filed under an index that was removed.
func (s *Store) emptyLocked(removed *index) {
	for _, b := range removed.buckets {
		for _, p := range b.places {
			p.item.unlink(p.posting)
		}
	}
	for _, e := range s.ahead {
		e.base.dropOf(removed)
		e.result.dropOf(removed)
	}
}

// unlink takes a posting out of an item whose bucket goes.
func (it *item) unlink(gone *posting) {
	for at := &it.postings; *at != nil; at = &(*at).next {
		if *at == gone {
			*at = gone.next
			return
		}
	}
}

// dropOf forgets the values of an index.
func (f *filing) dropOf(i *index) {
	f.values = slices.DeleteFunc(f.values, func(v filedUnder) bool { return v.index == i })
}

// fileLateLocked files under an added index what was there before it, where that still is there.
func (s *Store) fileLateLocked(added *index, late *filing) {
	key := KeyOf(late.object)
	if it := s.items.find(key); it != nil && it.object == late.object {
		it.fileLate(added, late.values)
	}
	if e := s.ahead[key]; e != nil {
		for _, f := range []*filing{&e.base, &e.result} {
			has := slices.ContainsFunc(f.values, func(v filedUnder) bool { return v.index == added })
			if f.object == late.object && !has {
				f.values = append(f.values, late.values...)
			}
		}
	}
}

func (it *item) fileLate(added *index, values []filedUnder) {
	end := &it.postings
	for ; *end != nil; end = &(*end).next {
		if (*end).bucket.index == added {
			return // it was shown again meanwhile, and filed
		}
	}
	for _, v := range values {
		*end = it.post(v, nil)
		end = &(*end).next
	}
}

// ByIndex returns the objects that the named index files under value, in no order.
func (s *Store) ByIndex(name, value string) ([]Object, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, i := range s.indexesNow() {
		if i.name == name && i.ready {
			return i.objects(value), nil
		}
	}
	return nil, fmt.Errorf("trc: store %s: index %q does not exist", s.options.Name, name)
}

func (i *index) objects(value string) []Object {
	b := i.buckets[value]
	if b == nil {
		return nil
	}
	objects := make([]Object, len(b.places))
	for at, p := range b.places {
		objects[at] = p.item.object
	}
	return objects
}

// indexesNow returns the indexes in the order in which they were added. With the lock it is exact,
// without it may lack the latest.
func (s *Store) indexesNow() []*index { return indexesOf(s.indexes.Load()) }

func indexesOf(indexes *[]*index) []*index {
	if indexes == nil {
		return nil
	}
	return *indexes
}

// lockFiled locks the store with the filings filed under all of its indexes and no other, though none of their
// functions is called under the lock: it starts over when indexes were added or removed meanwhile.
func (s *Store) lockFiled(filings []filing) {
	var covered []*index
	for {
		indexes := s.indexes.Load()
		now := indexesOf(indexes)
		for _, gone := range covered {
			if !slices.Contains(now, gone) {
				for i := range filings {
					filings[i].dropOf(gone)
				}
			}
		}
		for _, missing := range now {
			if !slices.Contains(covered, missing) {
				for i := range filings {
					filings[i].fileUnder(missing)
				}
			}
		}
		covered = now
		s.mu.Lock()
		if s.indexes.Load() == indexes {
			return
		}
		s.mu.Unlock()
	}
}

// fileUnder adds the values of one more index, each once.
func (f *filing) fileUnder(i *index) {
	if f.object == nil {
		return
	}
	before := len(f.values)
	for _, value := range i.valuesOf(f.object) {
		v := filedUnder{index: i, value: value}
		if !slices.Contains(f.values[before:], v) {
			f.values = append(f.values, v)
		}
	}
}

func (i *index) valuesOf(o Object) (values []string) {
	defer func() {
		if recover() != nil {
			values = nil // AddIndex tells why nothing is made of it
		}
	}()
	return i.values(o)
}
