package run

import (
	"slices"
	"time"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework/internal/finalrun"
	"github.com/evenkeel/evenkeel/scheduler"
	"github.com/evenkeel/evenkeel/trc"
)

// primaryGone ends the key of a primary that is gone, or makes its last run due.
func (c *Controller) primaryGone(t trc.Transition) {
	key := trc.KeyOf(t.Old)
	c.tellOfNotSelected(t.Old)
	if c.Options.AllEvents {
		c.finalRuns.Learn(t.Old.GetUID(), true)
	}
	if !c.Options.AllEvents || !c.triggers(t, false) {
		c.unresolved.Delete(incarnationOf(t.Old)) // it has no last run, whatever else that name is due for
		if c.finalRuns.Due(key) == nil {
			c.forget(key)
		}
		return
	}
	event := scheduler.Event{Cause: eventsource.CauseOf(c.Store.Store, c.Name, c.GVK.Kind, t), Renews: true}
	c.makeDue(t.Old, event, false)
}

// makeDue makes the last run of a primary due.
func (c *Controller) makeDue(last trc.Object, event scheduler.Event, late bool) {
	if dropped := c.finalRuns.Add(last, event, late); dropped != nil {
		c.unresolved.Delete(incarnationOf(dropped))
		c.giveUp(dropped, "too many incarnations of it wait for their last run")
	}
	c.Scheduler.Offer(trc.KeyOf(last), event)
	c.leaveToLeader()
}

// forget drops what is kept for a name that no primary has, but for its unresolved writes.
func (c *Controller) forget(key trc.Key) {
	c.leftOver.Delete(key)
	c.Scheduler.Forget(key)
	c.letGo(key)
	c.admission.Forget(key)
	c.histories.Forget(recordKey(key))
}

// isRepeated reports whether a step says again what was told of the coming or going of a primary. It follows from an
// answer that came late.
func isRepeated(t trc.Transition) bool { return t.Late && (t.Old == nil || t.New == nil) }

// repeated takes in such a step. All that reads show was told before. What is gone may have come and gone unseen, in
// a gap of the watch: that is a reason for its last run, once. One that has the name now goes on as it was, and is due
// after that run, which takes over the reasons that the name was due for.
func (c *Controller) repeated(t trc.Transition) {
	switch {
	case !c.Options.AllEvents:
	case t.Old == nil:
		key := trc.KeyOf(t.New)
		if c.finalRuns.Due(key) != nil {
			c.waits(key, scheduler.Event{Cause: eventsource.CauseOf(c.Store.Store, c.Name, c.GVK.Kind, t)})
		}
	case !c.finalRuns.WasRemembered(t.Old.GetUID()) && c.triggers(t, false):
		c.finalRuns.Learn(t.Old.GetUID(), true)
		c.makeDue(t.Old, scheduler.Event{Cause: eventsource.CauseOf(c.Store.Store, c.Name, c.GVK.Kind, t)}, c.Store.Get(trc.KeyOf(t.Old)) != nil)
	}
}

// leaveToLeader forgets, while standing by, the departures that the leader has run for: those from so long ago that
// another instance would lead by now, had it ended before.
func (c *Controller) leaveToLeader() {
	office := c.Operator.Cluster.Fence
	if !office.Required || office.Current() != nil {
		return
	}
	for key, next := range c.finalRuns.Expire(time.Now().Add(-3 * c.Operator.LeaseDuration)) {
		c.forgetUnresolved(key)
		c.Scheduler.Forget(key)
		c.letGo(key)
		if next != nil {
			c.Scheduler.Offer(key, *next)
		}
	}
}

// waits reports whether the event of a primary that exists has to wait for the last run of one that had its name.
// Should that have failed for good, the event finds nothing of it any more.
func (c *Controller) waits(key trc.Key, event scheduler.Event) bool {
	waits, givenUp := c.finalRuns.Follow(key, event)
	for _, departure := range givenUp {
		c.giveUp(departure.Last, "it has failed, no retry follows, and another one has its name")
	}
	for _, departure := range givenUp {
		c.unresolved.Delete(incarnationOf(departure.Last))
	}
	if slices.ContainsFunc(givenUp, func(d finalrun.FinalRun) bool { return !d.Late }) {
		c.Scheduler.Forget(key)
		c.letGo(key)
	}
	return waits
}

// depart follows the run of a primary that is gone: it was the last one if it succeeded and asked for no
// other.
func (c *Controller) depart(rc *Run, result *scheduler.Result) {
	if result.Err != nil || result.Superseded || result.RescheduleNow || result.RescheduleAfter > 0 {
		return
	}
	result.Gone = !c.finalRuns.IsLate(rc.Key, rc.Write.Owner.GetUID()) || c.Store.Get(rc.Key) == nil
	c.settle(rc)
}

// departInVain follows the run of a primary that is gone if no retry follows its failure: another incarnation that
// waits for the name is not held up any longer.
func (c *Controller) departInVain(rc *Run, failure error) {
	if c.Scheduler.Imminent(rc.Key) || !c.finalRuns.Fail(rc.Key) {
		return
	}
	c.giveUp(rc.Write.Owner, failure.Error())
	if !c.finalRuns.IsLate(rc.Key, rc.Write.Owner.GetUID()) {
		c.Scheduler.Forget(rc.Key)
	}
	c.settle(rc)
}

// settle ends a departure; what is next of that name is offered, for after this run.
func (c *Controller) settle(rc *Run) {
	c.unresolved.Delete(incarnationOf(rc.Write.Owner))
	late := c.finalRuns.IsLate(rc.Key, rc.Write.Owner.GetUID())
	next, more := c.finalRuns.Settle(rc.Key, rc.Write.Owner.GetUID())
	if !late {
		c.letGo(rc.Key) // what has the name now has had no run yet
	}
	if more {
		c.Scheduler.Offer(rc.Key, next)
	}
}

func (c *Controller) giveUp(last trc.Object, why string) {
	c.Operator.Logger.Info("gave up the last run of a primary that is gone", append(c.logValues(trc.KeyOf(last)), "uid", last.GetUID(), "why", why)...)
}
