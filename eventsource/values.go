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

// ValuesOptions configures how the values of an external system are identified and compared. If one
// of the functions panics, ends its goroutine or does not return for 10 s, [Source.Err] reports it.
// Equal and Older then count as false, and Filter as true.
type ValuesOptions[V any] struct {
	// ID returns the identifier of a value among those of its primary. Default: a primary has one
	// value, and its ID is "".
	ID func(V) string
	// Equal reports whether two values are the same: then nothing has changed. Default:
	// [reflect.DeepEqual].
	Equal func(a, b V) bool
	// Older reports whether a value is older than another of the same ID, as by a version that both
	// have. Default: the last one counts, except for a fetch that began before a write.
	//
	// With it, an older value never replaces a newer one, in whatever order pushes, answers and
	// fetches arrive. It must be pure and must not call the source. Set it if values are pushed: a
	// push may overtake the answer to a write, and nothing would bring it back. An absent value has no
	// version, so push a value that says so instead of calling [Inbound.Pull].
	Older func(value, than V) bool
	// Filter reports whether a change makes the primary due. Default: all changes do. old is nil for a
	// value that was not there, new for one that is gone.
	Filter func(old, new *V) bool
}

func (o *ValuesOptions[V]) id(value V) string {
	if o.ID == nil {
		return ""
	}
	return o.ID(value)
}

// Values holds the values of each primary in an external system, as last seen or written. Sources
// embed it.
//
// Reads return a snapshot. The values themselves are shared and must not be changed. All methods
// may be called from any goroutine.
//
// A value that is written with [Values.Wrote] or [Values.Removed] is read at once. A fetch that
// began before the write does not undo it; only a later fetch has newer information.
type Values[V any] struct {
	options ValuesOptions[V]
	calls   *calls
	// These are nil if the default is used.
	equal, older, filter *author.Callback

	mu        sync.Mutex // guards the fields below; a leaf
	clock     uint64     // counts starts and ends of fetches
	primaries map[trc.Key]*held[V]
	ofAll     int    // number of fetches of all primaries under way
	applied   uint64 // when the last of them was applied
}

// held is the state of one primary.
//
// Invariant: newer holds the IDs of values that were written or pushed during a fetch that is still
// under way. It is empty if no fetch is.
type held[V any] struct {
	values  map[string]V
	newer   map[string]bool
	fetches int               // number of fetches of this primary under way
	seqs    map[string]uint64 // how often the value of an ID changed; only with Older
	applied uint64            // when the last fetch was applied; 0 if none was
}

// fetch is a fetch under way, of a primary or of all.
type fetch[V any] struct {
	of    *held[V] // nil for all
	began uint64
}

// change is one change by a fetch or a push; nil means absent.
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

// Of returns the values of a primary, sorted by their IDs, or none. The slice is the caller's.
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

// ID returns the identifier of a value among those of its primary.
func (v *Values[V]) ID(value V) string { return v.options.id(value) }

// Get returns the value of a primary with an ID, and reports whether there is one.
func (v *Values[V]) Get(primary trc.Key, id string) (value V, found bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if h := v.primaries[primary]; h != nil {
		value, found = h.values[id]
	}
	return value, found
}

// Wrote stores a value that the caller has created or updated in the external system; pass the
// system's answer. It does not make the primary due.
func (v *Values[V]) Wrote(primary trc.Key, value V) { v.put(primary, v.options.id(value), &value) }

// Removed removes a value that the caller has removed in the external system. It does not make the
// primary due.
func (v *Values[V]) Removed(primary trc.Key, id string) { v.put(primary, id, nil) }

// put stores a value, or its absence if it is nil, and protects it from fetches that are under way.
func (v *Values[V]) put(primary trc.Key, id string, value *V) change[V] {
	for {
		c, of, seq := v.proposed(primary, id, value)
		isOlder := v.isOlder(c) // calls the author's code, so without the lock
		v.mu.Lock()
		if now := v.primaries[primary]; now != of || now.seq(id) != seq {
			v.mu.Unlock() // another change came first: compare again
			continue
		}
		defer v.mu.Unlock()
		if isOlder {
			c.new = c.old
			return c
		}
		return v.putLocked(primary, id, value)
	}
}

// proposed returns the change that a value would make.
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

// changesLocked records that the value of an ID changes.
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

// tidy removes a primary that has no state.
func (v *Values[V]) tidy(primary trc.Key, h *held[V]) {
	if len(h.values)+len(h.newer)+h.fetches == 0 && h.applied == 0 {
		delete(v.primaries, primary)
	}
}

// known reports whether a fetch of the primary has been applied.
func (v *Values[V]) known(primary trc.Key) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	h := v.primaries[primary]
	return h != nil && h.applied > 0
}

// begin must be called before a primary is fetched, and end after that.
func (v *Values[V]) begin(primary trc.Key) fetch[V] {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.clock++
	h := v.of(primary)
	h.fetches++
	return fetch[V]{of: h, began: v.clock}
}

// end applies the result of a fetch, unless it failed or the primary has gone since, and returns
// the changes.
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

// beginAll must be called before all primaries are fetched, and endAll after that.
func (v *Values[V]) beginAll() fetch[V] {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.clock++
	v.ofAll++
	return fetch[V]{began: v.clock}
}

// endAll applies the result of a fetch of all primaries, unless it failed, and returns the changes.
// Primaries that are not in it have no values left.
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

// valueKey identifies a value.
type valueKey struct {
	primary trc.Key
	id      string
}

// allOlder returns the fetched values that are older than the stored ones. A value that changes
// after this check is newer than the fetch, which is still under way.
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

// apply replaces the stored values by the fetched ones, except those that are newer. If two fetches
// overlap, their order is unknown: only the first to end is applied.
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

// isOlder reports whether a change would restore an older value. It returns false if Older does not
// return.
func (v *Values[V]) isOlder(c change[V]) bool {
	if v.older == nil || c.old == nil || c.new == nil {
		return false
	}
	older, failure := callValue(v.older, c.about, func() bool { return v.options.Older(*c.new, *c.old) })
	return failure == nil && older
}

func at[V any](values map[string]V, id string) *V {
	value, there := values[id]
	if !there {
		return nil
	}
	return &value
}

// forget drops a primary that is gone. A fetch of it that is under way will have no effect.
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

// matters reports whether a change makes the primary due. It returns true if the author's function
// does not return: a needless run is better than a missing one.
func (v *Values[V]) matters(c change[V]) bool {
	if c.old == nil && c.new == nil || c.old != nil && c.new != nil && v.alike(c) {
		return false
	}
	if v.filter == nil {
		return true
	}
	matters, failure := callValue(v.filter, c.about, func() bool { return v.options.Filter(c.old, c.new) })
	return failure != nil || matters
}

func (v *Values[V]) alike(c change[V]) bool {
	if v.equal == nil {
		return reflect.DeepEqual(*c.old, *c.new)
	}
	alike, failure := callValue(v.equal, c.about, func() bool { return v.options.Equal(*c.old, *c.new) })
	return failure == nil && alike
}

func (c change[V]) about() string { return c.primary.String() + " " + c.id }
