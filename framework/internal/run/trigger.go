package run

import (
	"fmt"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework/internal/registry"
	"github.com/evenkeel/evenkeel/scheduler"
	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// sink is where the sources of a controller offer primaries. Here the packages eventsource and
// scheduler meet, which do not import each other.
type sink struct{ *Controller }

// Offer enqueues a primary. For a primary that does not exist it only costs a lookup in the cache,
// and nothing is kept. This also holds on a standby instance, which runs nothing.
func (s sink) Offer(primary trc.Key, offer eventsource.Offer) {
	c, event := s.Controller, scheduler.Event{Cause: offer.Cause, Lane: laneOf(offer.Initial)}
	switch {
	case c.Options.AllEvents && c.Store.Get(primary) != nil:
		waits := primaryHandler{c}.waitsForFinalRun(primary, event) // it may be about the deleted or the existing one
		if !waits && c.pause.has(primary) {
			return
		}
	case s.isMissing(primary), c.pause.has(primary):
		return
	}
	c.Scheduler.Offer(primary, event)
}

// isMissing reports whether it is certain that a run would find no primary. A primary that is added
// later is offered then.
func (s sink) isMissing(key trc.Key) bool {
	return s.Store.IsSynced() && !s.admission.IsClosed(key) && s.Store.Get(key) == nil && s.finalRuns.Due(key) == nil
}

func laneOf(initial bool) scheduler.Lane {
	if initial {
		return scheduler.BulkLane
	}
	return scheduler.LiveLane
}

// Requested is the annotation by which users ask for a run.
const Requested = "evenkeel.dev/run-requested"

// isRequested reports whether a change of a primary asks for a run.
func isRequested(t trc.Transition) bool {
	if t.Old == nil || t.New == nil {
		return false
	}
	value := t.New.GetAnnotations()[Requested]
	return value != "" && value != t.Old.GetAnnotations()[Requested]
}

// Trigger makes a primary of a controller due that is in the cache.
func Trigger(c *Controller, primary trc.Key, by string) error {
	if c.Store == nil || c.Store.Get(primary) == nil {
		return fmt.Errorf("there is no %s of that name in the controller's cache", c.GVK.Kind)
	}
	if c.pause.has(primary) {
		return fmt.Errorf("the %s is paused", c.GVK.Kind)
	}
	c.Scheduler.Offer(primary, scheduler.Event{Cause: timeline.Manual{By: by}, Lane: scheduler.LiveLane, Renews: true})
	return nil
}

// primaryHandler handles the changes of primaries: it decides which of them make a primary due.
type primaryHandler struct{ *Controller }

// rewound makes all primaries due after the API server went back in time. Generations do not show
// what a restored backup has changed.
func (h primaryHandler) rewound() {
	for _, key := range h.Store.Keys("") {
		h.Scheduler.Offer(key, scheduler.Event{
			Cause: timeline.External{Source: h.Name, ID: "the API server went back in time"}, Lane: scheduler.BulkLane, Renews: true,
		})
	}
}

// primaryChanged turns a transition of a primary into an event, or into the end of its key.
func (h primaryHandler) primaryChanged(t trc.Transition) {
	if registry.IsRepeated(t) {
		h.repeated(t)
		return
	}
	h.Sources.Required.PrimaryChanged(t.Old, t.New)
	if t.New == nil {
		h.primaryGone(t)
		return
	}
	key := trc.KeyOf(t.New)
	if t.Old == nil && h.Options.AllEvents {
		h.finalRuns.Settle(key, t.New.GetUID()) // one that matches the selector again is not deleted
		h.finalRuns.Learn(t.New.GetUID(), false)
	}
	paused, resumed := h.pausing(t)
	if paused {
		return
	}
	renewed, requested := h.renews(t), isRequested(t)
	event := scheduler.Event{Lane: laneOf(t.Initial), Renews: resumed || (renewed || requested) && !h.renewsItself(t)}
	switch {
	case requested || resumed || h.triggers(t, renewed):
		cause := eventsource.CauseOf(h.Store.Store, h.Name, h.GVK.Kind, t)
		cause.Requested = requested
		if h.Records.fields {
			cause.Fields = eventsource.FieldsOf(h.GVK.Kind, t)
		}
		event.Cause = cause
	case t.Old == nil && h.conditions.undecodable(t.New) != nil:
		event.Cause = timeline.External{Source: h.Name, ID: decodesAgain}
	default:
		return
	}
	if h.Options.AllEvents && h.waitsForFinalRun(key, event) {
		return
	}
	h.Scheduler.Offer(key, event)
}

// renewsItself reports whether the primary's own run has made the new generation, by a write
// without a proof. Such a generation neither ends a back-off nor hurries.
func (h primaryHandler) renewsItself(t trc.Transition) bool {
	return t.New.GetDeletionTimestamp() == nil && h.states.isOwn(trc.KeyOf(t.New), t.New)
}

// needsRun reports whether a cause makes the primary due. The primary's own proven writes do not. A
// new incarnation always does, whoever created it, as it was never run.
func (h primaryHandler) needsRun(key trc.Key, cause timeline.Cause) bool {
	if step, ok := cause.(timeline.Resource); ok && step.Action == timeline.Added && h.isOf(key, step) {
		return true
	}
	if external, ok := cause.(timeline.External); ok && external.Source == h.Name && external.ID == readmitted {
		return h.admission.Misses(key)
	}
	return !eventsource.Own(h.Operator.LedgerOf(cause), h.ledgerWriter(key), cause)
}

// isOf reports whether a step is one of the primary itself. A source of secondaries may have the
// same name as the controller, as both are named after their kinds.
func (c *Controller) isOf(key trc.Key, step timeline.Resource) bool {
	return step.Cluster == "" && step.Source == c.Name && step.Kind == c.GVK.Kind && step.Namespace == key.Namespace && step.Name == key.Name
}

// missedPrimaries makes all primaries due after changes of primaries were missed. It also drops the
// state of primaries that were created and deleted in the meantime.
func (h primaryHandler) missedPrimaries() {
	for _, key := range append(h.Sources.HeldBy(), h.states.keys()...) {
		if existing(h.Store, key) == nil && h.finalRuns.Due(key) == nil {
			h.forget(key, "")
		}
	}
	for _, of := range h.states.incarnations() { // the ones whose names others have now
		if h.isGone(of.key, of.uid) {
			h.states.takeUnresolved(of)
		}
	}
	h.pause.recount(h.Store.List("", nil))
	h.everythingDue(registry.MissedSome)
}
