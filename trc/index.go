package trc

import (
	"fmt"
	"slices"
)

// AddIndex adds an index over what readers see. It may be called at any time. [Store.ByIndex] can
// use the index once AddIndex has returned. It returns an error if an index of that name exists.
//
// The function must be pure. It is called without any lock, possibly for several objects at once.
// If it panics for an object, the object gets no value in the index; a function that wants to
// report its panic must recover by itself.
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

// Refile calls the function of an index again for all objects, as when its result depends on
// something that changed. If there is no such index it does nothing. [Store.ByIndex] cannot use the
// index until Refile returns.
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

// unlockAndFile files the objects that were there before an index was added; objects that enter the
// store from here on are filed already. It releases the lock, which the caller must hold.
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

// RemoveIndex removes an index with all its contents. If there is no such index it does nothing.
// [Store.ByIndex] cannot use the index after it returns. It takes time proportional to the
// contents, and readers wait meanwhile.
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

// emptyLocked removes everything that is filed under a removed index.
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

// unlink removes a posting from an item whose bucket is being removed.
func (it *item) unlink(gone *posting) {
	for at := &it.postings; *at != nil; at = &(*at).next {
		if *at == gone {
			*at = gone.next
			return
		}
	}
}

// dropOf removes the values of an index.
func (f *filing) dropOf(i *index) {
	f.values = slices.DeleteFunc(f.values, func(v indexValue) bool { return v.index == i })
}

// fileLateLocked files an object under an index that was added after it, if the object is still
// there.
func (s *Store) fileLateLocked(added *index, late *filing) {
	key := KeyOf(late.object)
	if it := s.items.find(key); it != nil && it.object == late.object {
		it.fileLate(added, late.values)
	}
	if e := s.ahead[key]; e != nil {
		for _, f := range []*filing{&e.base, &e.result} {
			has := slices.ContainsFunc(f.values, func(v indexValue) bool { return v.index == added })
			if f.object == late.object && !has {
				f.values = append(f.values, late.values...)
			}
		}
	}
}

func (it *item) fileLate(added *index, values []indexValue) {
	end := &it.postings
	for ; *end != nil; end = &(*end).next {
		if (*end).bucket.index == added {
			return // it was put again meanwhile, and filed then
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

// indexesNow returns the indexes in the order in which they were added. Without the lock the result
// may lack the latest changes.
func (s *Store) indexesNow() []*index { return indexesOf(s.indexes.Load()) }

func indexesOf(indexes *[]*index) []*index {
	if indexes == nil {
		return nil
	}
	return *indexes
}

// lockFiled locks the store with the filings filed under exactly its present indexes. It calls none
// of their functions under the lock: it starts over if indexes were added or removed meanwhile.
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
		v := indexValue{index: i, value: value}
		if !slices.Contains(f.values[before:], v) {
			f.values = append(f.values, v)
		}
	}
}

func (i *index) valuesOf(o Object) (values []string) {
	defer func() {
		if recover() != nil {
			values = nil // see AddIndex
		}
	}()
	return i.values(o)
}
