package framework

import (
	"slices"
	"time"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework/internal/finalrun"
	"github.com/evenkeel/evenkeel/scheduler"
	"github.com/evenkeel/evenkeel/trc"
)

// primaryGone ends the key of a primary that is gone, or makes its last run due.
func (c *controller) primaryGone(t trc.Transition) {
	key := trc.KeyOf(t.Old)
	c.tellOfNotSelected(t.Old)
	if c.options.AllEvents {
		c.departures.Learn(t.Old.GetUID(), true)
	}
	if !c.options.AllEvents || !c.triggers(t, false) {
		c.unresolved.Delete(incarnationOf(t.Old)) // it has no last run, whatever else that name is due for
		if c.departures.Due(key) == nil {
			c.forget(key)
		}
		return
	}
	event := scheduler.Event{Cause: eventsource.CauseOf(c.store.Store, c.name, c.gvk.Kind, t), Renews: true}
	c.makeDue(t.Old, event, false)
}

// makeDue makes the last run of a primary due.
func (c *controller) makeDue(last trc.Object, event scheduler.Event, late bool) {
	if dropped := c.departures.Add(last, event, late); dropped != nil {
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
	c.gate.Forget(key)
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
		if c.departures.Due(key) != nil {
			c.waits(key, scheduler.Event{Cause: eventsource.CauseOf(c.store.Store, c.name, c.gvk.Kind, t)})
		}
	case !c.departures.WasRemembered(t.Old.GetUID()) && c.triggers(t, false):
		c.departures.Learn(t.Old.GetUID(), true)
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
	for key, next := range c.departures.Expire(time.Now().Add(-3 * c.operator.leaseDuration)) {
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
	waits, givenUp := c.departures.Follow(key, event)
	for _, departure := range givenUp {
		c.giveUp(departure.Last, "it has failed, no retry follows, and another one has its name")
	}
	for _, departure := range givenUp {
		c.unresolved.Delete(incarnationOf(departure.Last))
	}
	if slices.ContainsFunc(givenUp, func(d finalrun.FinalRun) bool { return !d.Late }) {
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
	result.Gone = !c.departures.IsLate(rc.key, rc.write.Owner.GetUID()) || c.store.Get(rc.key) == nil
	c.settle(rc)
}

// departInVain follows the run of a primary that is gone if no retry follows its failure: another incarnation that
// waits for the name is not held up any longer.
func (c *controller) departInVain(rc *run, failure error) {
	if c.scheduler.Imminent(rc.key) || !c.departures.Fail(rc.key) {
		return
	}
	c.giveUp(rc.write.Owner, failure.Error())
	if !c.departures.IsLate(rc.key, rc.write.Owner.GetUID()) {
		c.scheduler.Forget(rc.key)
	}
	c.settle(rc)
}

// settle ends a departure; what is next of that name is offered, for after this run.
func (c *controller) settle(rc *run) {
	c.unresolved.Delete(incarnationOf(rc.write.Owner))
	late := c.departures.IsLate(rc.key, rc.write.Owner.GetUID())
	next, more := c.departures.Settle(rc.key, rc.write.Owner.GetUID())
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
