package finalrun

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/scheduler"
	"github.com/evenkeel/evenkeel/trc"
)

// maxFinalRuns is how many incarnations of one name may wait for their final run. More of them mean
// that the runs fail while somebody keeps creating and deleting the object.
const maxFinalRuns = 16

// FinalRuns holds the deleted primaries whose final run has not succeeded yet; see
// ControllerOptions.AllEvents. The zero value is empty.
type FinalRuns struct {
	mu    sync.Mutex           // guards everything below; a leaf
	byKey map[trc.Key]*waiting // the primaries, by name
	known remembered           // the incarnations that are known to be deleted
}

// maxRemembered is how many deleted incarnations are remembered. A late answer about a forgotten
// one causes a second final run of it.
const maxRemembered = 4096

// remembered are the newest deleted incarnations that were delivered to the controller. The zero
// value is empty.
type remembered struct {
	known map[types.UID]bool
	order []types.UID // a ring when it is full
	next  int
}

// add remembers an incarnation. It forgets the oldest one if there are too many.
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

// waiting is the state of one name. Invariant: gone is not empty.
type waiting struct {
	gone []FinalRun // the oldest first
	// successor is the event of the primary that has the name now. It is nil if there is none, or if
	// no run of it is due.
	successor *scheduler.Event
	// failed says that no retry of the oldest final run follows, and that it is not running.
	failed bool
}

// FinalRun is a deleted primary that needs its final run.
type FinalRun struct {
	Last  trc.Object      // its last cached version
	event scheduler.Event // the cause of the final run
	since time.Time       // when it was added
	// Late says that its successor, if there is one, may have had runs already: the state of the key
	// belongs to the successor.
	Late bool
}

// Learn records that an incarnation is deleted, or that it exists.
func (d *FinalRuns) Learn(uid types.UID, isGone bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if isGone {
		d.known.add(uid)
	} else {
		delete(d.known.known, uid)
	}
}

// WasRemembered reports whether Learn recorded that an incarnation is deleted.
func (d *FinalRuns) WasRemembered(uid types.UID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.known.known[uid]
}

// IsLate reports whether the final run of an incarnation is late; see FinalRun.Late.
func (d *FinalRuns) IsLate(key trc.Key, uid types.UID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := d.byKey[key]
	return at != nil && slices.ContainsFunc(at.gone, func(g FinalRun) bool { return g.Last.GetUID() == uid && g.Late })
}

// Add records a deleted primary. It returns the oldest one if there are too many, usually nil.
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

// Follow records an event of an existing primary whose name has a final run due: the event waits
// for it. waits is false if there is none, or if the final runs of the name have failed for good.
// These are dropped and returned.
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
	case at.successor == nil: // the run for the first event sees the later changes
		at.successor = &event
	}
	return true, nil
}

// Fail records that no retry follows a failed final run. It reports whether others wait for that
// run; they must be released.
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

// Begin returns the oldest deleted primary of a name for its final run, nil if there is none.
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

// Due returns the event of the oldest final run of a name, nil if there is none.
func (d *FinalRuns) Due(key trc.Key) *scheduler.Event {
	d.mu.Lock()
	defer d.mu.Unlock()
	if at := d.byKey[key]; at != nil {
		event := at.gone[0].event
		return &event
	}
	return nil
}

// Has reports whether the final run of an incarnation is due.
func (d *FinalRuns) Has(key trc.Key, uid types.UID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := d.byKey[key]
	return at != nil && slices.ContainsFunc(at.gone, func(g FinalRun) bool { return g.Last.GetUID() == uid })
}

// Settle drops the final run of an incarnation, and returns the next event of the name.
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

// Expire drops the final runs that were added before a time. It returns the names without any final
// run left, each with the event of the primary that has the name now, or nil.
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

// Leave drops the final runs in namespaces that are no longer watched, and returns the names.
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

// Len returns the number of names with a final run.
func (d *FinalRuns) Len() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.byKey)
}
