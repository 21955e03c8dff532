package finalrun

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/scheduler"
	"github.com/evenkeel/evenkeel/trc"
)

// maxFinalRuns bounds the incarnations of one name that wait for their last run: more of them means that
// these fail while somebody creates and deletes the object all the time.
const maxFinalRuns = 16

// FinalRuns are the primaries that are gone and whose last run has not succeeded yet; see
// [framework.ControllerOptions.AllEvents]. The zero value is empty.
type FinalRuns struct {
	mu    sync.Mutex // guards everything below; a leaf
	byKey map[trc.Key]*waiting
	known remembered
}

// maxRemembered bounds the incarnations that are remembered as told of. A late answer about one that is forgotten
// brings a second last run of it.
const maxRemembered = 4096

// remembered are the incarnations that the controller was told have gone. The zero value is empty.
type remembered struct {
	known map[types.UID]bool
	order []types.UID // a ring once it is full
	next  int
}

func (g *remembered) add(uid types.UID) {
	if g.known[uid] {
		return
	}
	if g.known == nil {
		g.known = map[types.UID]bool{}
	}
	if len(g.order) < maxRemembered {
		g.order = append(g.order, uid)
	} else {
		delete(g.known, g.order[g.next])
		g.order[g.next] = uid
		g.next = (g.next + 1) % maxRemembered
	}
	g.known[uid] = true
}

// waiting is one name. Invariant: there is at least one departure.
type waiting struct {
	gone []FinalRun // the oldest first
	// successor tells of the incarnation that has the name now; nil if none has, or none is to run.
	successor *scheduler.Event
	// failed says that no retry of the oldest one follows, and no run of it is under way.
	failed bool
}

type FinalRun struct {
	Last  trc.Object // as it was shown last
	event scheduler.Event
	since time.Time
	// late says that its successor, if there is one, may have had runs before: what is kept for the key is not its own.
	Late bool
}

// Learn notes that an incarnation is there, or is not any more.
func (d *FinalRuns) Learn(uid types.UID, isGone bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if isGone {
		d.known.add(uid)
	} else {
		delete(d.known.known, uid)
	}
}

// WasRemembered reports whether learn said that an incarnation is gone.
func (d *FinalRuns) WasRemembered(uid types.UID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.known.known[uid]
}

// IsLate reports whether a departure is.
func (d *FinalRuns) IsLate(key trc.Key, uid types.UID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := d.byKey[key]
	return at != nil && slices.ContainsFunc(at.gone, func(g FinalRun) bool { return g.Last.GetUID() == uid && g.Late })
}

// Add notes that a primary is gone. It returns one that there is no room for any more, mostly nil.
func (d *FinalRuns) Add(last trc.Object, event scheduler.Event, late bool) (dropped trc.Object) {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := trc.KeyOf(last)
	at := d.byKey[key]
	if at == nil {
		at = &waiting{}
		if d.byKey == nil {
			d.byKey = map[trc.Key]*waiting{}
		}
		d.byKey[key] = at
	}
	if at.failed = false; !late {
		at.successor = nil
	}
	at.gone = append(at.gone, FinalRun{last, event, time.Now(), late})
	if len(at.gone) > maxFinalRuns {
		dropped = at.gone[0].Last
		at.gone = slices.Delete(at.gone, 0, 1)
	}
	return dropped
}

// Follow notes an event of a primary that exists under a name that a departure is still due for: it has to wait
// until that is settled. It reports false if there is none, or none that is retried any more: these are given up,
// and returned.
func (d *FinalRuns) Follow(key trc.Key, event scheduler.Event) (waits bool, givenUp []FinalRun) {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := d.byKey[key]
	switch {
	case at == nil:
		return false, nil
	case at.failed:
		delete(d.byKey, key)
		return false, at.gone
	case at.successor == nil: // what follows is seen by the run for the first
		at.successor = &event
	}
	return true, nil
}

// Fail notes that no retry follows the failed run of a departure. It reports whether others wait for it, which
// must not be held up.
func (d *FinalRuns) Fail(key trc.Key) (othersWait bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := d.byKey[key]
	if at == nil {
		return false
	}
	othersWait = at.successor != nil || len(at.gone) > 1
	at.failed = !othersWait
	return othersWait
}

// Begin returns the oldest departure of a name, as it was shown last, for a run of it; nil if there is none.
func (d *FinalRuns) Begin(key trc.Key) trc.Object {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := d.byKey[key]
	if at == nil {
		return nil
	}
	at.failed = false
	return at.gone[0].Last
}

// Due returns the event of the oldest departure of a name, nil if there is none.
func (d *FinalRuns) Due(key trc.Key) *scheduler.Event {
	d.mu.Lock()
	defer d.mu.Unlock()
	if at := d.byKey[key]; at != nil {
		event := at.gone[0].event
		return &event
	}
	return nil
}

func (d *FinalRuns) Has(key trc.Key, uid types.UID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := d.byKey[key]
	return at != nil && slices.ContainsFunc(at.gone, func(g FinalRun) bool { return g.Last.GetUID() == uid })
}

// Settle forgets a departure, and returns the event of what is next under that name.
func (d *FinalRuns) Settle(key trc.Key, uid types.UID) (next scheduler.Event, more bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := d.byKey[key]
	if at == nil {
		return next, false
	}
	at.gone = slices.DeleteFunc(at.gone, func(g FinalRun) bool { return g.Last.GetUID() == uid })
	if len(at.gone) > 0 {
		return at.gone[0].event, true
	}
	delete(d.byKey, key)
	if at.successor == nil {
		return next, false
	}
	return *at.successor, true
}

// Expire forgets what is due since before a time. It returns the names of which nothing is due any more, and the
// event of what has the name now, nil if nothing has.
func (d *FinalRuns) Expire(before time.Time) map[trc.Key]*scheduler.Event {
	d.mu.Lock()
	defer d.mu.Unlock()
	expired := map[trc.Key]*scheduler.Event{}
	for key, at := range d.byKey {
		at.gone = slices.DeleteFunc(at.gone, func(g FinalRun) bool { return g.since.Before(before) })
		if len(at.gone) == 0 {
			delete(d.byKey, key)
			expired[key] = at.successor
		}
	}
	return expired
}

// Leave forgets what is due in namespaces that are no longer watched, and returns the names.
func (d *FinalRuns) Leave(isWatched func(namespace string) bool) []trc.Key {
	d.mu.Lock()
	defer d.mu.Unlock()
	var left []trc.Key
	for key := range d.byKey {
		if !isWatched(key.Namespace) {
			left = append(left, key)
			delete(d.byKey, key)
		}
	}
	return left
}

// Len is the number of names that a departure is due for.
func (d *FinalRuns) Len() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.byKey)
}
