package run

import (
	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework/internal/registry"
	"github.com/evenkeel/evenkeel/scheduler"
	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// sink is where the sources of a controller offer primaries. Here the packages eventsource and
// scheduler meet, which do not import each other.
type sink struct{ controller *Controller }

// Offer enqueues a primary. For a primary that does not exist it only costs a lookup in the cache,
// and nothing is kept. This also holds on a standby instance, which runs nothing.
func (s sink) Offer(primary trc.Key, offer eventsource.Offer) {
	c, event := s.controller, scheduler.Event{Cause: offer.Cause, Lane: laneOf(offer.Initial)}
	switch {
	case c.Options.AllEvents && c.Store.Get(primary) != nil:
		c.waitsForFinalRun(primary, event) // it may be about the deleted or the existing one
	case c.isMissing(primary):
		return
	}
	c.Scheduler.Offer(primary, event)
}

// isMissing reports whether it is certain that a run would find no primary. A primary that is added
// later is offered then.
func (c *Controller) isMissing(key trc.Key) bool {
	return c.Store.IsSynced() && !c.admission.IsClosed(key) && c.Store.Get(key) == nil && c.finalRuns.Due(key) == nil
}

func laneOf(initial bool) scheduler.Lane {
	if initial {
		return scheduler.BulkLane
	}
	return scheduler.LiveLane
}

// rewound makes all primaries due after the API server went back in time. Generations do not show
// what a restored backup has changed.
func (c *Controller) rewound() {
	for _, key := range c.Store.Keys("") {
		c.Scheduler.Offer(key, scheduler.Event{
			Cause: timeline.External{Source: c.Name, ID: "the API server went back in time"}, Lane: scheduler.BulkLane, Renews: true,
		})
	}
}

// primaryChanged turns a transition of a primary into an event, or into the end of its key.
func (c *Controller) primaryChanged(t trc.Transition) {
	if registry.IsRepeated(t) {
		c.repeated(t)
		return
	}
	c.Sources.Required.PrimaryChanged(t.Old, t.New)
	if t.New == nil {
		c.primaryGone(t)
		return
	}
	key := trc.KeyOf(t.New)
	if t.Old == nil && c.Options.AllEvents {
		c.finalRuns.Settle(key, t.New.GetUID()) // one that matches the selector again is not deleted
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
	if c.Options.AllEvents && c.waitsForFinalRun(key, event) {
		return
	}
	c.Scheduler.Offer(key, event)
}

// renewsItself reports whether the primary's own run has made the new generation, by a write
// without a proof. Such a generation neither ends a back-off nor hurries.
func (c *Controller) renewsItself(t trc.Transition) bool {
	return t.New.GetDeletionTimestamp() == nil && c.states.isOwn(trc.KeyOf(t.New), t.New)
}

// needsRun reports whether a cause makes the primary due. The primary's own proven writes do not. A
// new incarnation always does, whoever created it, as it was never run.
func (c *Controller) needsRun(key trc.Key, cause timeline.Cause) bool {
	if step, ok := cause.(timeline.Resource); ok && step.Action == timeline.Added && c.isOf(key, step) {
		return true
	}
	if external, ok := cause.(timeline.External); ok && external.Source == c.Name && external.ID == readmitted {
		return c.admission.Misses(key)
	}
	return !eventsource.Own(c.Operator.LedgerOf(cause), c.ledgerWriter(key), cause)
}

// isOf reports whether a step is one of the primary itself. A source of secondaries may have the
// same name as the controller, as both are named after their kinds.
func (c *Controller) isOf(key trc.Key, step timeline.Resource) bool {
	return step.Cluster == "" && step.Source == c.Name && step.Kind == c.GVK.Kind && step.Namespace == key.Namespace && step.Name == key.Name
}
