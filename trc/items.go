package trc

// items holds the visible objects by key, by namespace and by the values of the indexes.
//
// They are looked up by name first, because few names exist in two namespaces. That is faster than
// a map with Key as its key, which has two strings to hash, and takes 38 bytes an item rather than
// 63 (BenchmarkGet). A hash table of our own was not faster.
//
// Invariants: every item is either in byName or in others, once in its namespace, and once in the
// bucket of each of its postings, at the recorded positions. No namespace and no bucket is empty.
type items struct {
	byName     map[string]*item
	others     map[Key]*item // objects whose name was already in byName
	namespaces map[string]*namespace
	managers   managers
}

// item is a visible object. It takes 48 bytes; keep it small.
type item struct {
	object    Object
	namespace *namespace
	postings  *posting // in the order of the filing's values
	at        uint32   // index in its namespace
	manager   uint32   // who changed it last
	since     uint32   // and when, in seconds since 1970
}

type namespace struct {
	name  string
	items []*item
}

// index files objects under values.
type index struct {
	name    string
	values  func(Object) []string // the author's code: never called under the lock
	buckets map[string]*bucket
	ready   bool // it covers the objects that were there when it was added
}

// bucket holds the objects under one value of an index, in no order.
type bucket struct {
	index  *index
	value  string
	places []place
}

type place struct {
	item    *item
	posting *posting
}

// posting is one position of an item in an index.
type posting struct {
	bucket *bucket
	next   *posting
	at     uint32
}

// filing is an object, or none, with what must be computed outside of the lock.
type filing struct {
	object      Object
	undecodable *Undecodable // instead of the object
	values      []indexValue
	last        managed
}

type indexValue struct {
	index *index
	value string
}

func newItems() items {
	return items{byName: map[string]*item{}, others: map[Key]*item{}, namespaces: map[string]*namespace{}}
}

func (s *items) count() int { return len(s.byName) + len(s.others) }

// find returns the item under a key, or nil.
func (s *items) find(key Key) *item {
	it := s.byName[key.Name]
	if it != nil && it.namespace.name == key.Namespace {
		return it
	}
	if len(s.others) == 0 {
		return nil
	}
	return s.others[key]
}

// filing returns the item under a key as it was filed.
func (s *items) filing(key Key) filing {
	it := s.find(key)
	if it == nil {
		return filing{}
	}
	f := filing{object: it.object, last: managed{manager: s.managers.name(it.manager), at: it.since}}
	for p := it.postings; p != nil; p = p.next {
		f.values = append(f.values, indexValue{index: p.bucket.index, value: p.bucket.value})
	}
	return f
}

// put stores f, which must have an object, and returns the object that it replaces.
func (s *items) put(key Key, f *filing) (old Object) {
	it := s.find(key)
	if it == nil {
		it = &item{namespace: s.enter(key.Namespace)}
		it.at = it.namespace.add(it)
		if s.byName[key.Name] == nil {
			s.byName[key.Name] = it
		} else {
			s.others[key] = it
		}
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

// remove removes the item under a key and returns its object.
func (s *items) remove(key Key) (old Object) {
	it := s.find(key)
	if it == nil {
		return nil
	}
	if s.byName[key.Name] == it {
		delete(s.byName, key.Name)
	} else {
		delete(s.others, key)
	}
	if it.namespace.remove(it); len(it.namespace.items) == 0 {
		delete(s.namespaces, key.Namespace)
	}
	it.withdraw()
	s.managers.exchange(it.manager, "")
	return it.object
}

func (s *items) enter(name string) *namespace {
	n := s.namespaces[name]
	if n == nil {
		n = &namespace{name: name}
		s.namespaces[name] = n
	}
	return n
}

func (n *namespace) add(it *item) (at uint32) {
	n.items = append(n.items, it)
	return uint32(len(n.items) - 1)
}

func (n *namespace) remove(it *item) {
	last := len(n.items) - 1
	n.items[it.at] = n.items[last]
	n.items[it.at].at = it.at
	n.items[last] = nil
	n.items = shrunk(n.items[:last])
}

// objects returns the objects of a namespace, or all for "".
func (s *items) objects(of string) []Object {
	if of != "" {
		n := s.namespaces[of]
		if n == nil {
			return nil
		}
		return n.appendTo(make([]Object, 0, len(n.items)))
	}
	all := make([]Object, 0, s.count())
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

func (it *item) isFiledUnder(values []indexValue) bool {
	p := it.postings
	for _, v := range values {
		if p == nil || p.bucket.index != v.index || p.bucket.value != v.value {
			return false
		}
		p = p.next
	}
	return p == nil
}

// post files the item under one more value. It returns the posting, followed by next.
func (it *item) post(v indexValue, next *posting) *posting {
	b := v.index.buckets[v.value]
	if b == nil {
		b = &bucket{index: v.index, value: v.value}
		v.index.buckets[v.value] = b
	}
	p := &posting{bucket: b, next: next, at: uint32(len(b.places))}
	b.places = append(b.places, place{item: it, posting: p})
	return p
}

// withdraw removes the item from all indexes.
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

// shrunk releases memory that a slice has long stopped using. The slack that remains pays for the
// copy.
func shrunk[T any](s []T) []T {
	if cap(s) < 64 || len(s) > cap(s)/4 {
		return s
	}
	return append(make([]T, 0, 2*len(s)), s...)
}
