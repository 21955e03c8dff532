package framework

import (
	"slices"
	"sync"

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
}

// departing is one name. Invariant: there is at least one departure.
type departing struct {
	gone []departure // the oldest first
	// successor tells of the incarnation that has the name now; nil if none has, or none is to run.
	successor *scheduler.Event
	// spent says that the oldest has no retry any more.
	spent bool
}

type departure struct {
	last  trc.Object // as it was shown last
	event scheduler.Event
}

// add notes that a primary is gone. It returns one that there is no room for any more, mostly nil.
func (d *departures) add(last trc.Object, event scheduler.Event) (dropped trc.Object) {
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
	at.successor, at.spent = nil, false
	at.gone = append(at.gone, departure{last, event})
	if len(at.gone) > maxDepartures {
		dropped = at.gone[0].last
		at.gone = slices.Delete(at.gone, 0, 1)
	}
	return dropped
}

// succeed notes that a primary has come under a name that a departure is still due for: its event has to
// wait until that is settled. It reports false if there is none. One that comes back, as it matches the
// selector again, is not gone.
func (d *departures) succeed(primary trc.Object, event scheduler.Event) bool {
	key := trc.KeyOf(primary)
	d.settle(key, primary.GetUID())
	d.mu.Lock()
	defer d.mu.Unlock()
	at := d.byKey[key]
	if at != nil {
		at.successor = &event
	}
	return at != nil
}

// first returns the oldest departure of a name, as it was shown last, or nil.
func (d *departures) first(key trc.Key) trc.Object {
	d.mu.Lock()
	defer d.mu.Unlock()
	if at := d.byKey[key]; at != nil {
		return at.gone[0].last
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
	at.spent = false
	if len(at.gone) > 0 {
		return at.gone[0].event, true
	}
	delete(d.byKey, key)
	if at.successor == nil {
		return next, false
	}
	return *at.successor, true
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

// spend notes that the oldest departure of a name has no retry any more, and reports whether another incarnation
// waits for it.
func (d *departures) spend(key trc.Key) (awaited bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := d.byKey[key]
	if at == nil {
		return false
	}
	at.spent = true
	return at.successor != nil || len(at.gone) > 1
}

// spent returns the departure of a name that has no retry any more, or nil.
func (d *departures) spent(key trc.Key) trc.Object {
	d.mu.Lock()
	defer d.mu.Unlock()
	if at := d.byKey[key]; at != nil && at.spent {
		return at.gone[0].last
	}
	return nil
}

// len is the number of names that a departure is due for.
func (d *departures) len() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.byKey)
}

// primaryGone ends the key of a primary that is gone, or makes its last run due.
func (c *controller[P]) primaryGone(t trc.Transition) {
	key := trc.KeyOf(t.Old)
	if !c.options.AllEvents || !c.triggers(t, false) {
		if c.departures.first(key) == nil {
			c.unresolved.Delete(key)
			c.scheduler.Forget(key)
			c.histories.Forget(recordKey(key))
		}
		return
	}
	event := scheduler.Event{Cause: eventsource.CauseOf(c.store.Store, c.name, c.gvk.Kind, t), Renews: true}
	if dropped := c.departures.add(t.Old, event); dropped != nil {
		c.giveUp(dropped, "too many incarnations of it wait for their last run")
	}
	c.scheduler.Offer(key, event)
}

// depart follows the run of a primary that is gone: it was the last one if it succeeded and asked for no
// other.
func (c *controller[P]) depart(rc *Context[P], result *scheduler.Result) {
	if result.Err != nil || result.Superseded || result.RescheduleNow || result.RescheduleAfter > 0 {
		return
	}
	result.Gone = true
	c.succeed(rc)
}

// succeed makes what is next under the name of a departed primary due after this run, if there is any.
func (c *controller[P]) succeed(rc *Context[P]) {
	c.unresolved.Delete(rc.key)
	if next, more := c.departures.settle(rc.key, rc.write.owner.GetUID()); more {
		c.scheduler.Offer(rc.key, next)
	}
}

// abandon follows a failure that no retry does: if another incarnation waits for the name, it is not held up any
// longer.
func (c *controller[P]) abandon(rc *Context[P], failure error) {
	if !c.departures.spend(rc.key) {
		return
	}
	c.giveUp(rc.write.owner, failure.Error())
	c.scheduler.Forget(rc.key)
	c.succeed(rc)
}

// makeWay lets go of a departure whose retries are exhausted, as another incarnation has come: nothing else would
// bring it a run soon.
func (c *controller[P]) makeWay(key trc.Key) {
	spent := c.departures.spent(key)
	if spent == nil {
		return
	}
	c.giveUp(spent, "its retries are exhausted, and another incarnation has come")
	c.scheduler.Forget(key)
	c.unresolved.Delete(key)
	c.departures.settle(key, spent.GetUID())
}

func (c *controller[P]) giveUp(last trc.Object, why string) {
	c.operator.logger.Info("gave up the last run of a primary that is gone", append(c.logValues(trc.KeyOf(last)), "uid", last.GetUID(), "why", why)...)
}
