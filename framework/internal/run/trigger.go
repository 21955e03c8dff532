package run

import (
	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/scheduler"
	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// sink is where the sources of a controller offer; eventsource and scheduler meet here and know
// nothing of each other.
type sink struct{ controller *Controller }

// Offer passes on what a source says. For a primary that does not exist this costs a look into the
// cache, which finds nothing and leaves nothing: not while standing by either, when nothing is run.
func (s sink) Offer(primary trc.Key, offer eventsource.Offer) {
	c, event := s.controller, scheduler.Event{Cause: offer.Cause, Lane: laneOf(offer.Initial)}
	switch {
	case c.Options.AllEvents && c.Store.Get(primary) != nil:
		c.waits(primary, event) // it may be about either
	case c.isMissing(primary):
		return
	}
	c.Scheduler.Offer(primary, event)
}

// cache.IsMissing tells for certain that a run would find no primary: one that is added later is offered then.
func (c *Controller) isMissing(key trc.Key) bool {
	return c.Store.IsSynced() && !c.admission.IsClosed(key) && c.Store.Get(key) == nil && c.finalRuns.Due(key) == nil
}

func laneOf(initial bool) scheduler.Lane {
	if initial {
		return scheduler.BulkLane
	}
	return scheduler.LiveLane
}

// rewound makes every primary due: generations tell nothing of what a restored backup has changed.
func (c *Controller) rewound() {
	for _, key := range c.Store.Keys("") {
		c.Scheduler.Offer(key, scheduler.Event{
			Cause: timeline.External{Source: c.Name, ID: "the API server went back in time"}, Lane: scheduler.BulkLane, Renews: true,
		})
	}
}

// primaryChanged turns a transition of a primary into an event, or into the end of its key.
func (c *Controller) primaryChanged(t trc.Transition) {
	if isRepeated(t) {
		c.repeated(t)
		return
	}
	c.tellSources(t)
	if t.New == nil {
		c.primaryGone(t)
		return
	}
	key := trc.KeyOf(t.New)
	if t.Old == nil && c.Options.AllEvents {
		c.finalRuns.Settle(key, t.New.GetUID()) // one that matches the selector again is not gone
		c.finalRuns.Learn(t.New.GetUID(), false)
	}
	renewed := c.renews(t)
	event := scheduler.Event{Lane: laneOf(t.Initial), Renews: renewed && !c.renewsItself(t)}
	switch {
	case c.triggers(t, renewed):
		event.Cause = eventsource.CauseOf(c.Store.Store, c.Name, c.GVK.Kind, t)
	case t.Old == nil && c.undecodableCondition(t.New) != nil:
		event.Cause = timeline.External{Source: c.Name, ID: decodesAgain}
	default:
		return
	}
	if c.Options.AllEvents && c.waits(key, event) {
		return
	}
	c.Scheduler.Offer(key, event)
}

// renewsItself tells the generations that the primary's own run has made, by a write that proves nothing: they
// neither end a back-off nor hurry.
func (c *Controller) renewsItself(t trc.Transition) bool {
	return t.New.GetDeletionTimestamp() == nil && c.Loops.isOwn(trc.KeyOf(t.New), t.New)
}

// needsRun decides whether a cause makes the primary due: its own proven writes do not. A new incarnation of
// it was never run, whoever created it.
func (c *Controller) needsRun(key trc.Key, cause timeline.Cause) bool {
	if step, ok := cause.(timeline.Resource); ok && step.Action == timeline.Added && c.isOf(key, step) {
		return true
	}
	if external, ok := cause.(timeline.External); ok && external.Source == c.Name && external.ID == readmitted {
		return c.admission.Misses(key)
	}
	return !eventsource.Own(c.Operator.LedgerOf(cause), c.ledgerWriter(key), cause)
}

// isOf tells the steps of a primary itself from those of its secondaries: a source of these may have the name of
// the controller, as both are named after their kind.
func (c *Controller) isOf(key trc.Key, step timeline.Resource) bool {
	return step.Cluster == "" && step.Source == c.Name && step.Kind == c.GVK.Kind && step.Namespace == key.Namespace && step.Name == key.Name
}
