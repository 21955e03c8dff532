package trc

// items is the objects that readers see, by key, by namespace and by the values of the indexes.
//
// Invariants: every item is in byKey, once in its namespace, and once in the bucket of each of its
// postings, at the places that it and they say; no namespace and no bucket is empty.
type items struct {
	byKey      map[Key]*item
	namespaces map[string]*namespace
	managers   managers
}

// item is an object as it is shown. It takes 48 bytes, so mind the order of its fields.
type item struct {
	object   Object
	postings *posting // in the order of the filing's values
	at       uint32   // its place in its namespace
	manager  uint32   // who changed it last
	since    uint32   // and when, in seconds since 1970
}

type namespace struct{ items []*item }

// index files objects under values.
type index struct {
	name    string
	values  func(Object) []string // other people's code: never called under the lock
	buckets map[string]*bucket
	ready   bool // it covers what was there when it was added
}

// bucket is the objects under one value of an index, in no order.
type bucket struct {
	index  *index
	value  string
	places []place
}

type place struct {
	item    *item
	posting *posting
}

// posting is where an item stands in an index.
type posting struct {
	bucket *bucket
	next   *posting
	at     uint32
}

// filing is an object, or none, with what is not to be found out under the lock.
type filing struct {
	object Object
	values []filedUnder
	last   managed
}

type filedUnder struct {
	index *index
	value string
}

func newItems() items {
	return items{byKey: map[Key]*item{}, namespaces: map[string]*namespace{}}
}

// filing returns what is shown under a key, as it was filed.
func (s *items) filing(key Key) filing {
	it := s.byKey[key]
	if it == nil {
		return filing{}
	}
	f := filing{object: it.object, last: managed{manager: s.managers.name(it.manager), at: it.since}}
	for p := it.postings; p != nil; p = p.next {
		f.values = append(f.values, filedUnder{index: p.bucket.index, value: p.bucket.value})
	}
	return f
}

// put shows f, which has an object, in the place of what was shown under its key, which it returns.
func (s *items) put(key Key, f *filing) (old Object) {
	it := s.byKey[key]
	if it == nil {
		it = &item{}
		s.byKey[key] = it
		s.enter(key.Namespace, it)
	} else {
		old = it.object
	}
	it.object = f.object
	it.manager, it.since = s.managers.exchange(it.manager, f.last.manager), f.last.at
	if !it.isFiledUnder(f.values) {
		it.withdraw()
		for i := len(f.values) - 1; i >= 0; i-- {
			it.postings = it.post(f.values[i], it.postings)
		}
	}
	return old
}

// remove shows nothing under a key, and returns what was shown.
func (s *items) remove(key Key) (old Object) {
	it := s.byKey[key]
	if it == nil {
		return nil
	}
	delete(s.byKey, key)
	s.leave(key.Namespace, it)
	it.withdraw()
	s.managers.exchange(it.manager, "")
	return it.object
}

func (s *items) enter(name string, it *item) {
	n := s.namespaces[name]
	if n == nil {
		n = &namespace{}
		s.namespaces[name] = n
	}
	it.at = uint32(len(n.items))
	n.items = append(n.items, it)
}

func (s *items) leave(name string, it *item) {
	n := s.namespaces[name]
	last := len(n.items) - 1
	n.items[it.at] = n.items[last]
	n.items[it.at].at = it.at
	n.items[last] = nil
	if n.items = shrunk(n.items[:last]); last == 0 {
		delete(s.namespaces, name)
	}
}

// objects returns those of a namespace, or all for "".
func (s *items) objects(of string) []Object {
	if of != "" {
		n := s.namespaces[of]
		if n == nil {
			return nil
		}
		return n.appendTo(make([]Object, 0, len(n.items)))
	}
	all := make([]Object, 0, len(s.byKey))
	for _, n := range s.namespaces {
		all = n.appendTo(all)
	}
	return all
}

func (n *namespace) appendTo(objects []Object) []Object {
	for _, it := range n.items {
		objects = append(objects, it.object)
	}
	return objects
}

func (it *item) isFiledUnder(values []filedUnder) bool {
	p := it.postings
	for _, v := range values {
		if p == nil || p.bucket.index != v.index || p.bucket.value != v.value {
			return false
		}
		p = p.next
	}
	return p == nil
}

// post files the item under one more value, and returns the posting, followed by next.
func (it *item) post(v filedUnder, next *posting) *posting {
	b := v.index.buckets[v.value]
	if b == nil {
		b = &bucket{index: v.index, value: v.value}
		v.index.buckets[v.value] = b
	}
	p := &posting{bucket: b, next: next, at: uint32(len(b.places))}
	b.places = append(b.places, place{item: it, posting: p})
	return p
}

// withdraw takes the item out of all indexes.
func (it *item) withdraw() {
	for p := it.postings; p != nil; p = p.next {
		p.bucket.remove(p)
	}
	it.postings = nil
}

func (b *bucket) remove(p *posting) {
	last := len(b.places) - 1
	b.places[p.at] = b.places[last]
	b.places[p.at].posting.at = p.at
	b.places[last] = place{}
	if b.places = shrunk(b.places[:last]); last == 0 {
		delete(b.index.buckets, b.value)
	}
}

// shrunk gives memory back that a slice has long stopped needing; what is left over pays for the copy.
func shrunk[T any](s []T) []T {
	if cap(s) < 64 || len(s) > cap(s)/4 {
		return s
	}
	return append(make([]T, 0, 2*len(s)), s...)
}
