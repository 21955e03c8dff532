package eventsource

import (
	"maps"
	"reflect"
	"slices"
	"sync"

	"github.com/evenkeel/evenkeel/internal/author"
	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// ValuesOptions say how the values of an external system are told apart. Of a function that panics, ends its goroutine
// or does not return for 10 s, [Source.Err] tells; Equal says no then, Older no, and Filter yes.
type ValuesOptions[V any] struct {
	// ID tells the values of one primary apart. Default: a primary has one value, and its ID is "".
	ID func(V) string
	// Equal tells that two values are alike: then nothing has changed. Default: [reflect.DeepEqual].
	Equal func(a, b V) bool
	// Older tells that one value is older than another of the same ID, as by a version that both have. An older one then never
	// takes the place of a newer, in whatever order pushes, answers and fetches arrive. Default: what comes last counts, but for a
	// fetch that began before a write. It must be pure, and not call the source. Set it where values are pushed: a push may overtake the answer to a write, and
	// nothing would bring it back. As what is not there has no version, push a value that says so rather than [Inbound.Pull] it.
	Older func(value, than V) bool
	// Filter tells whether a change may make the primary due. old is nil for a value that was not there, new for one that
	// is gone. Default: every change.
	Filter func(old, new *V) bool
}

func (o *ValuesOptions[V]) id(value V) string {
	if o.ID == nil {
		return ""
	}
	return o.ID(value)
}

// Values are what an external system holds for each primary, as last seen or written. Its sources embed them.
//
// What is read is a snapshot; the values themselves are shared and must not be changed. All methods may be called
// from any goroutine.
//
// A value that is written by [Values.Wrote] or [Values.Removed] is read at once, and is not taken back by a fetch that had begun
// before: only one that begins later can know better.
type Values[V any] struct {
	options ValuesOptions[V]
	calls   *calls
	// These are nil where the default is used.
	equal, older, filter *author.Callback

	mu        sync.Mutex // guards below; a leaf
	clock     uint64     // counts beginnings of fetches, and their ends
	primaries map[trc.Key]*held[V]
	ofAll     int    // fetches of all primaries that are under way
	applied   uint64 // when the last of them was applied
}

// held is what is known of one primary.
//
// Invariant: newer holds the IDs of what was written or pushed while a fetch was under way that still is; none if
// none is.
type held[V any] struct {
	values  map[string]V
	newer   map[string]bool
	fetches int               // of this primary that are under way
	seqs    map[string]uint64 // how often the value of an ID changed, where Older is asked
	applied uint64            // when the last fetch was applied; 0 if none was
}

// fetch is one that is under way, of a primary or of all.
type fetch[V any] struct {
	of    *held[V] // nil: all
	began uint64
}

// change is what a fetch or a push changed; nil is what is not there.
type change[V any] struct {
	primary  trc.Key
	id       string
	old, new *V
}

func newValues[V any](options ValuesOptions[V]) *Values[V] {
	v := &Values[V]{options: options, calls: newCalls(), primaries: map[trc.Key]*held[V]{}}
	if options.Equal != nil {
		v.equal = v.calls.New("Values.Equal")
	}
	if options.Older != nil {
		v.older = v.calls.New("Values.Older")
	}
	if options.Filter != nil {
		v.filter = v.calls.New("Values.Filter")
	}
	return v
}

// Of returns the values of a primary, sorted by their IDs, or none if nothing is known of it.
func (v *Values[V]) Of(primary trc.Key) []V {
	v.mu.Lock()
	defer v.mu.Unlock()
	h := v.primaries[primary]
	if h == nil {
		return nil
	}
	return sortedByID(h.values)
}

func sortedByID[V any](values map[string]V) []V {
	all := make([]V, 0, len(values))
	for _, id := range slices.Sorted(maps.Keys(values)) {
		all = append(all, values[id])
	}
	return all
}

// ID returns what tells a value apart from the others of its primary.
func (v *Values[V]) ID(value V) string { return v.options.id(value) }

// Get returns the value of a primary with an ID, and whether there is one.
func (v *Values[V]) Get(primary trc.Key, id string) (value V, found bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if h := v.primaries[primary]; h != nil {
		value, found = h.values[id]
	}
	return value, found
}

// Wrote says that the caller has created or updated a value in the external system, whose answer it is. The
// primary is not due for it.
func (v *Values[V]) Wrote(primary trc.Key, value V) { v.put(primary, v.options.id(value), &value) }

// Removed says that the caller has removed a value in the external system. The primary is not due for it.
func (v *Values[V]) Removed(primary trc.Key, id string) { v.put(primary, id, nil) }

// put holds a value, or with nil its absence, against fetches that are under way.
func (v *Values[V]) put(primary trc.Key, id string, value *V) change[V] {
	for {
		c, of, seq := v.proposed(primary, id, value)
		older := v.isOlder(c) // the author's code: not under the lock
		v.mu.Lock()
		if now := v.primaries[primary]; now != of || now.seq(id) != seq {
			v.mu.Unlock() // another came first: it may be older than that
			continue
		}
		defer v.mu.Unlock()
		if older {
			c.new = c.old
			return c
		}
		return v.putLocked(primary, id, value)
	}
}

// proposed is what a value would change.
func (v *Values[V]) proposed(primary trc.Key, id string, value *V) (c change[V], of *held[V], seq uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	c, of = change[V]{primary: primary, id: id, new: value}, v.primaries[primary]
	if of != nil {
		c.old = at(of.values, id)
	}
	return c, of, of.seq(id)
}

func (h *held[V]) seq(id string) uint64 {
	if h == nil {
		return 0
	}
	return h.seqs[id]
}

// changesLocked notes that the value of an ID changes.
func (v *Values[V]) changesLocked(h *held[V], id string) {
	if v.older == nil {
		return
	}
	if h.seqs == nil {
		h.seqs = map[string]uint64{}
	}
	h.seqs[id]++
}

func (v *Values[V]) putLocked(primary trc.Key, id string, value *V) change[V] {
	h := v.of(primary)
	c := change[V]{primary: primary, id: id, old: at(h.values, id), new: value}
	v.changesLocked(h, id)
	if h.fetches+v.ofAll > 0 {
		h.newer[id] = true
	}
	if value != nil {
		h.values[id] = *value
	} else {
		delete(h.values, id)
	}
	v.tidy(primary, h)
	return c
}

func (v *Values[V]) of(primary trc.Key) *held[V] {
	h := v.primaries[primary]
	if h == nil {
		h = &held[V]{values: map[string]V{}, newer: map[string]bool{}}
		v.primaries[primary] = h
	}
	return h
}

// tidy forgets a primary of which nothing is known.
func (v *Values[V]) tidy(primary trc.Key, h *held[V]) {
	if len(h.values)+len(h.newer)+h.fetches == 0 && h.applied == 0 {
		delete(v.primaries, primary)
	}
}

// known tells whether a fetch of the primary has been applied.
func (v *Values[V]) known(primary trc.Key) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	h := v.primaries[primary]
	return h != nil && h.applied > 0
}

// begin is to be called before the external system is asked about a primary, and end after.
func (v *Values[V]) begin(primary trc.Key) fetch[V] {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.clock++
	h := v.of(primary)
	h.fetches++
	return fetch[V]{of: h, began: v.clock}
}

// end applies what a fetch brought, unless it failed or the primary has gone since, and returns what changed.
func (v *Values[V]) end(f fetch[V], primary trc.Key, fresh map[string]V, err error) (changes []change[V]) {
	older := v.allOlder(map[trc.Key]map[string]V{primary: fresh}, err)
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.primaries[primary] == f.of && err == nil {
		v.clock++
		changes = v.apply(f, primary, f.of, fresh, older)
	}
	if f.of.fetches--; f.of.fetches+v.ofAll == 0 {
		clear(f.of.newer)
	}
	if v.primaries[primary] == f.of {
		v.tidy(primary, f.of)
	}
	return changes
}

// beginAll is to be called before the external system is asked about all primaries, and endAll after.
func (v *Values[V]) beginAll() fetch[V] {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.clock++
	v.ofAll++
	return fetch[V]{began: v.clock}
}

// endAll applies what a fetch of all primaries brought, unless it failed: those that are not in it have nothing any
// more.
func (v *Values[V]) endAll(f fetch[V], fresh map[trc.Key]map[string]V, err error) (changes []change[V]) {
	older := v.allOlder(fresh, err)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.clock++
	brought := err == nil && f.began > v.applied
	if brought {
		v.applied = v.clock
		for primary := range fresh {
			v.of(primary)
		}
		for primary, h := range v.primaries {
			changes = append(changes, v.apply(f, primary, h, fresh[primary], older)...)
		}
	}
	v.ofAll--
	for primary, h := range v.primaries {
		if h.fetches+v.ofAll == 0 {
			clear(h.newer)
		}
		if _, has := fresh[primary]; brought && !has && h.applied == v.clock && h.fetches == 0 {
			h.applied = 0
		}
		v.tidy(primary, h)
	}
	return changes
}

// valueKey names a value.
type valueKey struct {
	primary trc.Key
	id      string
}

// allOlder tells which of the values that a fetch brought are older than what is known. What changes after it has been
// asked about is newer than the fetch, which still is under way.
func (v *Values[V]) allOlder(fresh map[trc.Key]map[string]V, err error) map[valueKey]bool {
	if v.older == nil || err != nil {
		return nil
	}
	older := map[valueKey]bool{}
	for primary, values := range fresh {
		for id, value := range values {
			if c, _, _ := v.proposed(primary, id, &value); v.isOlder(c) {
				older[valueKey{primary, id}] = true
			}
		}
	}
	return older
}

func (v *Values[V]) byID(values []V) map[string]V {
	all := make(map[string]V, len(values))
	for _, value := range values {
		all[v.options.id(value)] = value
	}
	return all
}

// apply replaces what is held by what a fetch brought, but for what is newer. Of two fetches that overlap nobody knows which
// of them asked later: only the first is applied.
func (v *Values[V]) apply(f fetch[V], primary trc.Key, h *held[V], fresh map[string]V, older map[valueKey]bool) (changes []change[V]) {
	if f.began < h.applied {
		return nil
	}
	h.applied = v.clock
	ids := map[string]bool{}
	for _, values := range []map[string]V{h.values, fresh} {
		for id := range values {
			ids[id] = !h.newer[id]
		}
	}
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		if !ids[id] {
			continue
		}
		c := change[V]{primary, id, at(h.values, id), at(fresh, id)}
		if older[valueKey{primary, id}] {
			continue
		}
		v.changesLocked(h, id)
		changes = append(changes, c)
		if c.new != nil {
			h.values[id] = *c.new
		} else {
			delete(h.values, id)
		}
	}
	return changes
}

// isOlder tells that a change would bring back what was before. A function that does not return knows nothing of that.
func (v *Values[V]) isOlder(c change[V]) bool {
	if v.older == nil || c.old == nil || c.new == nil {
		return false
	}
	older, failure := called(v.older, c.about, func() bool { return v.options.Older(*c.new, *c.old) })
	return failure == nil && older
}

func at[V any](values map[string]V, id string) *V {
	value, there := values[id]
	if !there {
		return nil
	}
	return &value
}

// forget drops a primary that is gone; a fetch of it that is under way will be too late.
func (v *Values[V]) forget(primary trc.Key) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.primaries, primary)
}

// offer makes the primaries due whose values changed in a way that matters.
func (v *Values[V]) offer(sink Sink, source string, initial bool, changes []change[V]) {
	for _, c := range changes {
		if v.matters(c) {
			sink.Offer(c.primary, Offer{Cause: timeline.External{Source: source, ID: c.id}, Initial: initial})
		}
	}
}

// matters takes a function that does not return to say that a change matters: a run too many beats one too few.
func (v *Values[V]) matters(c change[V]) bool {
	if c.old == nil && c.new == nil || c.old != nil && c.new != nil && v.alike(c) {
		return false
	}
	if v.filter == nil {
		return true
	}
	matters, failure := called(v.filter, c.about, func() bool { return v.options.Filter(c.old, c.new) })
	return failure != nil || matters
}

func (v *Values[V]) alike(c change[V]) bool {
	if v.equal == nil {
		return reflect.DeepEqual(*c.old, *c.new)
	}
	alike, failure := called(v.equal, c.about, func() bool { return v.options.Equal(*c.old, *c.new) })
	return failure == nil && alike
}

func (c change[V]) about() string { return c.primary.String() + " " + c.id }
