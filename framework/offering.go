package framework

import (
	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/scheduler"
	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// sink is where the sources of a controller offer; eventsource and scheduler meet here and know
// nothing of each other.
type sink struct{ controller *controller }

// Offer passes on what a source says. For a primary that does not exist this costs a look into the
// cache, which finds nothing and leaves nothing: not while standing by either, when nothing is run.
func (s sink) Offer(primary trc.Key, offer eventsource.Offer) {
	c, event := s.controller, scheduler.Event{Cause: offer.Cause, Lane: laneOf(offer.Initial)}
	switch {
	case c.options.AllEvents && c.store.Get(primary) != nil:
		c.waits(primary, event) // it may be about either
	case c.isMissing(primary):
		return
	}
	c.scheduler.Offer(primary, event)
}

// cache.IsMissing tells for certain that a run would find no primary: one that is added later is offered then.
func (c *controller) isMissing(key trc.Key) bool {
	return c.store.IsSynced() && !c.gate.IsClosed(key) && c.store.Get(key) == nil && c.departures.Due(key) == nil
}

func laneOf(initial bool) scheduler.Lane {
	if initial {
		return scheduler.BulkLane
	}
	return scheduler.LiveLane
}

// rewound makes every primary due: generations tell nothing of what a restored backup has changed.
func (c *controller) rewound() {
	for _, key := range c.store.Keys("") {
		c.scheduler.Offer(key, scheduler.Event{
			Cause: timeline.External{Source: c.name, ID: "the API server went back in time"}, Lane: scheduler.BulkLane, Renews: true,
		})
	}
}

// primaryChanged turns a transition of a primary into an event, or into the end of its key.
func (c *controller) primaryChanged(t trc.Transition) {
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
	if t.Old == nil && c.options.AllEvents {
		c.departures.Settle(key, t.New.GetUID()) // one that matches the selector again is not gone
		c.departures.Learn(t.New.GetUID(), false)
	}
	renewed := c.renews(t)
	event := scheduler.Event{Lane: laneOf(t.Initial), Renews: renewed && !c.renewsItself(t)}
	switch {
	case c.triggers(t, renewed):
		event.Cause = eventsource.CauseOf(c.store.Store, c.name, c.gvk.Kind, t)
	case t.Old == nil && c.saysAside(t.New) != nil:
		event.Cause = timeline.External{Source: c.name, ID: fitsAgain}
	default:
		return
	}
	if c.options.AllEvents && c.waits(key, event) {
		return
	}
	c.scheduler.Offer(key, event)
}

// renewsItself tells the generations that the primary's own run has made, by a write that proves nothing: they
// neither end a back-off nor hurry.
func (c *controller) renewsItself(t trc.Transition) bool {
	return t.New.GetDeletionTimestamp() == nil && c.loops.isOwn(trc.KeyOf(t.New), t.New)
}

// needsRun decides whether a cause makes the primary due: its own proven writes do not. A new incarnation of
// it was never run, whoever created it.
func (c *controller) needsRun(key trc.Key, cause timeline.Cause) bool {
	if step, ok := cause.(timeline.Resource); ok && step.Action == timeline.Added && c.isOf(key, step) {
		return true
	}
	if external, ok := cause.(timeline.External); ok && external.Source == c.name && external.ID == readmitted {
		return c.gate.Misses(key)
	}
	return !eventsource.Own(c.operator.ledgerOf(cause), c.ledgerWriter(key), cause)
}

// isOf tells the steps of a primary itself from those of its secondaries: a source of these may have the name of
// the controller, as both are named after their kind.
func (c *controller) isOf(key trc.Key, step timeline.Resource) bool {
	return step.Cluster == "" && step.Source == c.name && step.Kind == c.gvk.Kind && step.Namespace == key.Namespace && step.Name == key.Name
}
