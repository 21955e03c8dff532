package freshnesstest

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/trc"
)

// witness judges every read of the operator by the reads and writes that had ended before it began.
// It outlives operators, as what was acknowledged to one must be seen by the next.
type witness struct {
	mu       sync.Mutex // guards everything below
	floors   map[object]floor
	gone     map[types.UID]bool // by own deletions
	deleting map[types.UID]bool // own deletions begun, whatever became of them
	claims   []claim
	faults   []string
	visits   []visit
	reads    int
}

// floor is the newest that is known of an object.
type floor struct {
	version int64
	uid     types.UID
	// absent: a read at this floor found nothing.
	absent bool
	// primaries that it maps to.
	primaries []trc.Key
}

// claim is what only the truth can judge: between two versions the object was not there, or not
// that primary's.
type claim struct {
	what     string
	object   object
	from, to int64 // to is 0 for none
	primary  *trc.Key
}

// visit is what one run saw at its start.
type visit struct {
	controller string
	primary    trc.Key
	uid        types.UID
	view       map[object]sight
}

// sight is how an object was seen: the zero value is not at all.
type sight struct {
	uid     types.UID
	version int64
}

func newWitness() *witness {
	return &witness{floors: map[object]floor{}, gone: map[types.UID]bool{}, deleting: map[types.UID]bool{}}
}

// mark is what was known when a read began.
type mark struct {
	floors map[object]floor
	gone   map[types.UID]bool
}

func (w *witness) mark() mark {
	w.mu.Lock()
	defer w.mu.Unlock()
	return mark{maps.Clone(w.floors), maps.Clone(w.gone)}
}

// saw takes in what a read that began at the mark found: o is nil for nothing.
func (w *witness) saw(at mark, what object, o metav1.Object, primaries []trc.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reads++
	known, now := at.floors[what], w.floors[what]
	if o == nil {
		if known.version > 0 && !known.absent {
			w.claims = append(w.claims, claim{what: "absent", object: what, from: known.version})
		}
		if known.version > 0 && now.version == known.version {
			now.absent = true
			w.floors[what] = now
		}
		return
	}
	version := versionOf(o)
	switch {
	case at.gone[o.GetUID()]:
		w.faultLocked("G03: %s was read at %d with UID %s, which we had deleted", what, version, o.GetUID())
	case known.absent && version <= known.version:
		w.faultLocked("G03: %s was read at %d after it had been absent after %d", what, version, known.version)
	case version < known.version:
		w.faultLocked("G01/G02: %s was read at %d after it had been read or written at %d", what, version, known.version)
	case known.absent:
		w.claims = append(w.claims, claim{what: "absent in between", object: what, from: known.version, to: version})
	}
	if version > now.version {
		w.floors[what] = floor{version: version, uid: o.GetUID(), primaries: primaries}
	}
}

// listed takes in that a list of the objects of a primary, begun at the mark, had these names and
// no others.
func (w *witness) listed(at mark, primary trc.Key, names map[trc.Key]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for what, known := range at.floors {
		if what.kind == configMap && !known.absent && slices.Contains(known.primaries, primary) && !names[what.key] {
			w.claims = append(w.claims, claim{what: "not listed", object: what, from: known.version, primary: &primary})
		}
	}
}

// wrote takes in the answer to a write.
func (w *witness) wrote(what object, o metav1.Object, primaries []trc.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if version := versionOf(o); version > w.floors[what].version {
		w.floors[what] = floor{version: version, uid: o.GetUID(), primaries: primaries}
	}
}

func (w *witness) deletes(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deleting[uid] = true
}

func (w *witness) deleted(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gone[uid] = true
}

func (w *witness) ran(r visit) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.visits = append(w.visits, r)
}

func (w *witness) fault(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faultLocked(format, args...)
}

func (w *witness) faultLocked(format string, args ...any) {
	w.faults = append(w.faults, fmt.Sprintf(format, args...))
}

// testimony is what a witness has seen so far.
type testimony struct {
	claims   []claim
	faults   []string
	visits   []visit
	deleting map[types.UID]bool
	reads    int
}

func (w *witness) testify() testimony {
	w.mu.Lock()
	defer w.mu.Unlock()
	return testimony{slices.Clone(w.claims), slices.Clone(w.faults), slices.Clone(w.visits), maps.Clone(w.deleting), w.reads}
}
