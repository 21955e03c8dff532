package framework

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/scheduler"
	"github.com/evenkeel/evenkeel/trc"
)

// maxDepartures bounds the incarnations of one name that wait for their last run: more of them means that
// these fail while somebody creates and deletes the object all the time.
const maxDepartures = 16

// departures are the primaries that are gone and whose last run has not succeeded yet; see
// [ControllerOptions.AllEvents]. The zero value is empty.
type departures struct {
	mu    sync.Mutex // guards everything below; a leaf
	byKey map[trc.Key]*departing
	told  toldGone
}

// maxToldGone bounds the incarnations that are remembered as told of. A late answer about one that is forgotten
// brings a second last run of it.
const maxToldGone = 4096

// toldGone are the incarnations that the controller was told have gone. The zero value is empty.
type toldGone struct {
	known map[types.UID]bool
	order []types.UID // a ring once it is full
	next  int
}

func (g *toldGone) add(uid types.UID) {
	if g.known[uid] {
		return
	}
	if g.known == nil {
		g.known = map[types.UID]bool{}
	}
	if len(g.order) < maxToldGone {
		g.order = append(g.order, uid)
	} else {
		delete(g.known, g.order[g.next])
		g.order[g.next] = uid
		g.next = (g.next + 1) % maxToldGone
	}
	g.known[uid] = true
}

// departing is one name. Invariant: there is at least one departure.
type departing struct {
	gone []departure // the oldest first
	// successor tells of the incarnation that has the name now; nil if none has, or none is to run.
	successor *scheduler.Event
	// failed says that no retry of the oldest one follows, and no run of it is under way.
	failed bool
}

type departure struct {
	last  trc.Object // as it was shown last
	event scheduler.Event
	since time.Time
	// late says that its successor, if there is one, may have had runs before: what is kept for the key is not its own.
	late bool
}

// learn notes that an incarnation is there, or is not any more.
func (d *departures) learn(uid types.UID, isGone bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if isGone {
		d.told.add(uid)
	} else {
		delete(d.told.known, uid)
	}
}

// wasTold reports whether learn said that an incarnation is gone.
func (d *departures) wasTold(uid types.UID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.told.known[uid]
}

// isLate reports whether a departure is.
func (d *departures) isLate(key trc.Key, uid types.UID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := d.byKey[key]
	return at != nil && slices.ContainsFunc(at.gone, func(g departure) bool { return g.last.GetUID() == uid && g.late })
}

// add notes that a primary is gone. It returns one that there is no room for any more, mostly nil.
func (d *departures) add(last trc.Object, event scheduler.Event, late bool) (dropped trc.Object) {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := trc.KeyOf(last)
	at := d.byKey[key]
	if at == nil {
		at = &departing{}
		if d.byKey == nil {
			d.byKey = map[trc.Key]*departing{}
		}
		d.byKey[key] = at
	}
	if at.failed = false; !late {
		at.successor = nil
	}
	at.gone = append(at.gone, departure{last, event, time.Now(), late})
	if len(at.gone) > maxDepartures {
		dropped = at.gone[0].last
		at.gone = slices.Delete(at.gone, 0, 1)
	}
	return dropped
}

// succeed notes an event of a primary that exists under a name that a departure is still due for: it has to wait
// until that is settled. It reports false if there is none, or none that is retried any more: these are given up,
// and returned.
func (d *departures) succeed(key trc.Key, event scheduler.Event) (waits bool, givenUp []departure) {
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

// fail notes that no retry follows the failed run of a departure. It reports whether others wait for it, which
// must not be held up.
func (d *departures) fail(key trc.Key) (othersWait bool) {
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

// begin returns the oldest departure of a name, as it was shown last, for a run of it; nil if there is none.
func (d *departures) begin(key trc.Key) trc.Object {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := d.byKey[key]
	if at == nil {
		return nil
	}
	at.failed = false
	return at.gone[0].last
}

// due returns the event of the oldest departure of a name, nil if there is none.
func (d *departures) due(key trc.Key) *scheduler.Event {
	d.mu.Lock()
	defer d.mu.Unlock()
	if at := d.byKey[key]; at != nil {
		event := at.gone[0].event
		return &event
	}
	return nil
}

func (d *departures) has(key trc.Key, uid types.UID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := d.byKey[key]
	return at != nil && slices.ContainsFunc(at.gone, func(g departure) bool { return g.last.GetUID() == uid })
}

// settle forgets a departure, and returns the event of what is next under that name.
func (d *departures) settle(key trc.Key, uid types.UID) (next scheduler.Event, more bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := d.byKey[key]
	if at == nil {
		return next, false
	}
	at.gone = slices.DeleteFunc(at.gone, func(g departure) bool { return g.last.GetUID() == uid })
	if len(at.gone) > 0 {
		return at.gone[0].event, true
	}
	delete(d.byKey, key)
	if at.successor == nil {
		return next, false
	}
	return *at.successor, true
}

// expire forgets what is due since before a time. It returns the names of which nothing is due any more, and the
// event of what has the name now, nil if nothing has.
func (d *departures) expire(before time.Time) map[trc.Key]*scheduler.Event {
	d.mu.Lock()
	defer d.mu.Unlock()
	expired := map[trc.Key]*scheduler.Event{}
	for key, at := range d.byKey {
		at.gone = slices.DeleteFunc(at.gone, func(g departure) bool { return g.since.Before(before) })
		if len(at.gone) == 0 {
			delete(d.byKey, key)
			expired[key] = at.successor
		}
	}
	return expired
}

// leave forgets what is due in namespaces that are no longer watched, and returns the names.
func (d *departures) leave(isWatched func(namespace string) bool) []trc.Key {
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

// len is the number of names that a departure is due for.
func (d *departures) len() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.byKey)
}

// primaryGone ends the key of a primary that is gone, or makes its last run due.
func (c *controller) primaryGone(t trc.Transition) {
	key := trc.KeyOf(t.Old)
	c.tellOfNotSelected(t.Old)
	if c.options.AllEvents {
		c.departures.learn(t.Old.GetUID(), true)
	}
	if !c.options.AllEvents || !c.triggers(t, false) {
		c.unresolved.Delete(incarnationOf(t.Old)) // it has no last run, whatever else that name is due for
		if c.departures.due(key) == nil {
			c.forget(key)
		}
		return
	}
	event := scheduler.Event{Cause: eventsource.CauseOf(c.store.Store, c.name, c.gvk.Kind, t), Renews: true}
	c.makeDue(t.Old, event, false)
}

// makeDue makes the last run of a primary due.
func (c *controller) makeDue(last trc.Object, event scheduler.Event, late bool) {
	if dropped := c.departures.add(last, event, late); dropped != nil {
		c.unresolved.Delete(incarnationOf(dropped))
		c.giveUp(dropped, "too many incarnations of it wait for their last run")
	}
	c.scheduler.Offer(trc.KeyOf(last), event)
	c.leaveToLeader()
}

// forget drops what is kept for a name that no primary has, but for its unresolved writes.
func (c *controller) forget(key trc.Key) {
	c.leftOver.Delete(key)
	c.scheduler.Forget(key)
	c.letGo(key)
	c.gate.forget(key)
	c.histories.Forget(recordKey(key))
}

// isRepeated reports whether a step says again what was told of the coming or going of a primary. It follows from an
// answer that came late.
func isRepeated(t trc.Transition) bool { return t.Late && (t.Old == nil || t.New == nil) }

// repeated takes in such a step. All that reads show was told before. What is gone may have come and gone unseen, in
// a gap of the watch: that is a reason for its last run, once. One that has the name now goes on as it was, and is due
// after that run, which takes over the reasons that the name was due for.
func (c *controller) repeated(t trc.Transition) {
	switch {
	case !c.options.AllEvents:
	case t.Old == nil:
		key := trc.KeyOf(t.New)
		if c.departures.due(key) != nil {
			c.waits(key, scheduler.Event{Cause: eventsource.CauseOf(c.store.Store, c.name, c.gvk.Kind, t)})
		}
	case !c.departures.wasTold(t.Old.GetUID()) && c.triggers(t, false):
		c.departures.learn(t.Old.GetUID(), true)
		c.makeDue(t.Old, scheduler.Event{Cause: eventsource.CauseOf(c.store.Store, c.name, c.gvk.Kind, t)}, c.store.Get(trc.KeyOf(t.Old)) != nil)
	}
}

// leaveToLeader forgets, while standing by, the departures that the leader has run for: those from so long ago that
// another instance would lead by now, had it ended before.
func (c *controller) leaveToLeader() {
	office := c.operator.cluster.Fence
	if !office.Required || office.Current() != nil {
		return
	}
	for key, next := range c.departures.expire(time.Now().Add(-3 * c.operator.options.LeaderElection.LeaseDuration)) {
		c.forgetUnresolved(key)
		c.scheduler.Forget(key)
		c.letGo(key)
		if next != nil {
			c.scheduler.Offer(key, *next)
		}
	}
}

// waits reports whether the event of a primary that exists has to wait for the last run of one that had its name.
// Should that have failed for good, the event finds nothing of it any more.
func (c *controller) waits(key trc.Key, event scheduler.Event) bool {
	waits, givenUp := c.departures.succeed(key, event)
	for _, departure := range givenUp {
		c.giveUp(departure.last, "it has failed, no retry follows, and another one has its name")
	}
	for _, departure := range givenUp {
		c.unresolved.Delete(incarnationOf(departure.last))
	}
	if slices.ContainsFunc(givenUp, func(d departure) bool { return !d.late }) {
		c.scheduler.Forget(key)
		c.letGo(key)
	}
	return waits
}

// depart follows the run of a primary that is gone: it was the last one if it succeeded and asked for no
// other.
func (c *controller) depart(rc *run, result *scheduler.Result) {
	if result.Err != nil || result.Superseded || result.RescheduleNow || result.RescheduleAfter > 0 {
		return
	}
	result.Gone = !c.departures.isLate(rc.key, rc.write.Owner.GetUID()) || c.store.Get(rc.key) == nil
	c.settle(rc)
}

// departInVain follows the run of a primary that is gone if no retry follows its failure: another incarnation that
// waits for the name is not held up any longer.
func (c *controller) departInVain(rc *run, failure error) {
	if c.scheduler.Imminent(rc.key) || !c.departures.fail(rc.key) {
		return
	}
	c.giveUp(rc.write.Owner, failure.Error())
	if !c.departures.isLate(rc.key, rc.write.Owner.GetUID()) {
		c.scheduler.Forget(rc.key)
	}
	c.settle(rc)
}

// settle ends a departure; what is next of that name is offered, for after this run.
func (c *controller) settle(rc *run) {
	c.unresolved.Delete(incarnationOf(rc.write.Owner))
	late := c.departures.isLate(rc.key, rc.write.Owner.GetUID())
	next, more := c.departures.settle(rc.key, rc.write.Owner.GetUID())
	if !late {
		c.letGo(rc.key) // what has the name now has had no run yet
	}
	if more {
		c.scheduler.Offer(rc.key, next)
	}
}

func (c *controller) giveUp(last trc.Object, why string) {
	c.operator.logger.Info("gave up the last run of a primary that is gone", append(c.logValues(trc.KeyOf(last)), "uid", last.GetUID(), "why", why)...)
}
