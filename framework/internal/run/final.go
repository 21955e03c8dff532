package run

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework/internal/finalrun"
	"github.com/evenkeel/evenkeel/scheduler"
	"github.com/evenkeel/evenkeel/trc"
)

// primaryGone ends the key of a deleted primary, or makes its final run due.
func (c *Controller) primaryGone(t trc.Transition) {
	key := trc.KeyOf(t.Old)
	c.emitNotSelected(t.Old)
	if c.Options.AllEvents {
		c.finalRuns.Learn(t.Old.GetUID(), true)
	}
	if !c.Options.AllEvents || !c.triggers(t, false) {
		c.states.takeUnresolved(incarnationOf(t.Old)) // no final run, whatever its name is due for
		if c.finalRuns.Due(key) == nil {
			c.forget(key)
		}
		return
	}
	event := scheduler.Event{Cause: eventsource.CauseOf(c.Store.Store, c.Name, c.GVK.Kind, t), Renews: true}
	c.makeDue(t.Old, event, false)
}

// makeDue makes the final run of a primary due.
func (c *Controller) makeDue(last trc.Object, event scheduler.Event, late bool) {
	if dropped := c.finalRuns.Add(last, event, late); dropped != nil {
		c.states.takeUnresolved(incarnationOf(dropped))
		c.giveUp(dropped, "too many incarnations of it wait for their last run")
	}
	c.Scheduler.Offer(trc.KeyOf(last), event)
	c.leaveToLeader()
}

// repeated handles a repeated transition. Everything that reads show was delivered before. A
// deleted primary may have been created and deleted in a gap of the watch, so this is a reason for
// its final run, once. Another primary that has the name now goes on as it was. It is due after the
// final run, which takes over the causes that the name was due for.
func (c *Controller) repeated(t trc.Transition) {
	switch {
	case !c.Options.AllEvents:
	case t.Old == nil:
		key := trc.KeyOf(t.New)
		if c.finalRuns.Due(key) != nil {
			c.waitsForFinalRun(key, scheduler.Event{Cause: eventsource.CauseOf(c.Store.Store, c.Name, c.GVK.Kind, t)})
		}
	case !c.finalRuns.WasRemembered(t.Old.GetUID()) && c.triggers(t, false):
		c.finalRuns.Learn(t.Old.GetUID(), true)
		c.makeDue(t.Old, scheduler.Event{Cause: eventsource.CauseOf(c.Store.Store, c.Name, c.GVK.Kind, t)}, c.Store.Get(trc.KeyOf(t.Old)) != nil)
	}
}

// leaveToLeader drops, on a standby instance, the final runs that the leader has done. These are
// the ones from so long ago that another instance would lead by now if the leader had ended before.
func (c *Controller) leaveToLeader() {
	fence := c.Operator.Cluster.Fence
	if !fence.Required || fence.Current() != nil {
		return
	}
	for key, next := range c.finalRuns.Expire(time.Now().Add(-3 * c.Operator.LeaseDuration)) {
		c.forget(key)
		if next != nil {
			c.Scheduler.Offer(key, *next)
		}
	}
}

// waitsForFinalRun reports whether the event of an existing primary has to wait for the final run
// of a deleted primary of the same name. If that final run has failed for good, its state is
// dropped and the event does not wait.
func (c *Controller) waitsForFinalRun(key trc.Key, event scheduler.Event) bool {
	waits, givenUp := c.finalRuns.Follow(key, event)
	for _, final := range givenUp {
		c.giveUp(final.Last, "it has failed, no retry follows, and another one has its name")
	}
	for _, final := range givenUp {
		c.states.takeUnresolved(incarnationOf(final.Last))
	}
	if slices.ContainsFunc(givenUp, func(d finalrun.FinalRun) bool { return !d.Late }) {
		c.Scheduler.Forget(key)
		c.letGo(key)
	}
	return waits
}

// finalRunSucceeded ends the final run of a deleted primary if the run succeeded and asked for no
// further run.
func (c *Controller) finalRunSucceeded(rc *Run, result *scheduler.Result) {
	if result.Err != nil || result.Superseded || result.RescheduleNow || result.RescheduleAfter > 0 {
		return
	}
	result.Gone = !c.finalRuns.IsLate(rc.Key, rc.Writes.Primary.Object.GetUID()) || c.Store.Get(rc.Key) == nil
	c.settle(rc)
}

// finalRunFailed ends the final run of a deleted primary if no retry follows its failure. Another
// incarnation that waits for the name is released.
func (c *Controller) finalRunFailed(rc *Run, failure error) {
	if c.Scheduler.Imminent(rc.Key) || !c.finalRuns.Fail(rc.Key) {
		return
	}
	c.giveUp(rc.Writes.Primary.Object, failure.Error())
	if !c.finalRuns.IsLate(rc.Key, rc.Writes.Primary.Object.GetUID()) {
		c.Scheduler.Forget(rc.Key)
	}
	c.settle(rc)
}

// settle ends a final run. The next event of the name is offered for after this run.
func (c *Controller) settle(rc *Run) {
	c.states.takeUnresolved(incarnationOf(rc.Writes.Primary.Object))
	late := c.finalRuns.IsLate(rc.Key, rc.Writes.Primary.Object.GetUID())
	next, more := c.finalRuns.Settle(rc.Key, rc.Writes.Primary.Object.GetUID())
	if !late {
		c.letGo(rc.Key) // the primary that has the name now has had no run yet
	}
	if more {
		c.Scheduler.Offer(rc.Key, next)
	}
}

func (c *Controller) giveUp(last trc.Object, why string) {
	c.Operator.Logger.Info("gave up the last run of a primary that is gone", append(c.logValues(trc.KeyOf(last)), "uid", last.GetUID(), "why", why)...)
}

// isGone reports whether no primary with that name and UID exists, nor owes its last run.
func (c *Controller) isGone(primary trc.Key, uid types.UID) bool {
	now := c.Store.Get(primary)
	return (now == nil || now.GetUID() != uid) && !c.finalRuns.Has(primary, uid)
}
