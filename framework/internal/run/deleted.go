package run

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework/internal/cache"
	"github.com/evenkeel/evenkeel/framework/internal/finalrun"
	"github.com/evenkeel/evenkeel/scheduler"
	"github.com/evenkeel/evenkeel/trc"
)

// A primary may be deleted, and another one created with its name, at any time: also during a run,
// and in a gap of the watch. What keeps the two incarnations apart:
//
//   - A run belongs to one UID (primaryWriter). Its writes of the primary carry that UID as a
//     precondition (package write, patch.go; apply.go, optimistically), so that they never change
//     the next incarnation.
//   - primaryGone is called for each deletion that a watch shows. It forgets the name, or, for
//     controllers that want all events, makes the final run of that incarnation due. A later
//     incarnation waits for it (waitsForFinalRun, package finalrun).
//   - What a run keeps at its end may come after the deletion: letGoIfGone drops it then.
//   - What belongs to an incarnation and not to its name, such as writes of unknown outcome, is
//     kept by UID (primaryStates).

// incarnation is one of the primaries that have the same name one after the other.
type incarnation struct {
	key trc.Key
	uid types.UID
}

func incarnationOf(o trc.Object) incarnation { return incarnation{trc.KeyOf(o), o.GetUID()} }

// isGone reports whether no primary with that name and UID exists, nor owes its last run.
func (c *Controller) isGone(primary trc.Key, uid types.UID) bool {
	now := existing(c.Store, primary)
	return (now == nil || now.GetUID() != uid) && !c.finalRuns.Has(primary, uid)
}

// existing returns the primary that has a name now, also if it is undecodable, or nil.
func existing(primaries *cache.Store, key trc.Key) trc.Object {
	for range 2 { // it may become undecodable between the two reads
		if undecodable := primaries.Undecodable(key); undecodable != nil {
			return undecodable
		}
		if now := primaries.Get(key); now != nil {
			return now
		}
	}
	return nil
}

// primaryGone ends the key of a deleted primary, or makes its final run due.
func (h primaryHandler) primaryGone(t trc.Transition) {
	key := trc.KeyOf(t.Old)
	h.pause.forget(key)
	h.notices.emitNotSelected(t.Old)
	if !h.Options.AllEvents || !h.triggers(t, false) {
		h.states.takeUnresolved(incarnationOf(t.Old)) // no final run, whatever its name is due for
		if h.finalRuns.Due(key) == nil {
			var next types.UID
			if now := existing(h.Store, key); now != nil {
				next = now.GetUID()
			}
			h.forget(key, next)
		}
	} else {
		event := scheduler.Event{Cause: eventsource.CauseOf(h.Store.Store, h.Name, h.GVK.Kind, t), Renews: true}
		h.makeDue(t.Old, event, false)
	}
	if h.Options.AllEvents { // after its final run is due: see keep
		h.finalRuns.Learn(t.Old.GetUID(), true)
	}
}

// makeDue makes the final run of a primary due.
func (h primaryHandler) makeDue(last trc.Object, event scheduler.Event, late bool) {
	if dropped := h.finalRuns.Add(last, event, late); dropped != nil {
		h.states.takeUnresolved(incarnationOf(dropped))
		h.notices.giveUp(dropped, "too many deleted primaries of this name wait for their final run")
	}
	h.Scheduler.Offer(trc.KeyOf(last), event)
	h.leaveToLeader()
}

// repeated handles a repeated transition. Everything that reads show was delivered before. A
// deleted primary may have been created and deleted in a gap of the watch, so this is a reason for
// its final run, once. Another primary that has the name now goes on as it was. It is due after the
// final run, which takes over the causes that the name was due for.
func (h primaryHandler) repeated(t trc.Transition) {
	switch {
	case !h.Options.AllEvents:
	case t.Old == nil:
		key := trc.KeyOf(t.New)
		if h.finalRuns.Due(key) != nil {
			h.waitsForFinalRun(key, scheduler.Event{Cause: eventsource.CauseOf(h.Store.Store, h.Name, h.GVK.Kind, t)})
		}
	case !h.finalRuns.WasRemembered(t.Old.GetUID()) && h.triggers(t, false):
		h.makeDue(t.Old, scheduler.Event{Cause: eventsource.CauseOf(h.Store.Store, h.Name, h.GVK.Kind, t)}, h.Store.Get(trc.KeyOf(t.Old)) != nil)
		h.finalRuns.Learn(t.Old.GetUID(), true)
	}
}

// leaveToLeader drops, on a standby instance, the final runs that the leader has done. These are
// the ones from so long ago that another instance would lead by now if the leader had ended before.
func (h primaryHandler) leaveToLeader() {
	fence := h.Operator.Cluster.Fence
	if !fence.Required || fence.Current() != nil {
		return
	}
	for key, next := range h.finalRuns.Expire(time.Now().Add(-3 * h.Operator.LeaseDuration)) {
		h.forget(key, "")
		if next != nil {
			h.Scheduler.Offer(key, *next)
		}
	}
}

// waitsForFinalRun reports whether the event of an existing primary has to wait for the final run
// of a deleted primary of the same name. If that final run has failed for good, its state is
// dropped and the event does not wait.
func (h primaryHandler) waitsForFinalRun(key trc.Key, event scheduler.Event) bool {
	waits, givenUp := h.finalRuns.Follow(key, event)
	for _, final := range givenUp {
		h.notices.giveUp(final.Last, "it failed, no retry is left, and a new primary has the same name")
	}
	for _, final := range givenUp {
		h.states.takeUnresolved(incarnationOf(final.Last))
	}
	if slices.ContainsFunc(givenUp, func(d finalrun.FinalRun) bool { return !d.Late }) {
		h.Scheduler.Forget(key)
		h.letGo(key)
	}
	return waits
}

// finalRunSucceeded ends the final run of a deleted primary if the run succeeded and asked for no
// further run.
func (e execution) finalRunSucceeded(result *scheduler.Result) {
	if result.Err != nil || result.Superseded || result.RescheduleNow || result.RescheduleAfter > 0 {
		return
	}
	result.Gone = !e.finalRuns.IsLate(e.run.Key, e.run.Writes.Primary.Object.GetUID()) || e.Store.Get(e.run.Key) == nil
	e.settle()
}

// finalRunFailed ends the final run of a deleted primary if no retry follows its failure. Another
// incarnation that waits for the name is released.
func (e execution) finalRunFailed(failure error) {
	if e.Scheduler.Imminent(e.run.Key) || !e.finalRuns.Fail(e.run.Key) {
		return
	}
	e.notices.giveUp(e.run.Writes.Primary.Object, failure.Error())
	if !e.finalRuns.IsLate(e.run.Key, e.run.Writes.Primary.Object.GetUID()) {
		e.Scheduler.Forget(e.run.Key)
	}
	e.settle()
}

// settle ends a final run. The next event of the name is offered for after this run.
func (e execution) settle() {
	e.states.takeUnresolved(incarnationOf(e.run.Writes.Primary.Object))
	late := e.finalRuns.IsLate(e.run.Key, e.run.Writes.Primary.Object.GetUID())
	next, more := e.finalRuns.Settle(e.run.Key, e.run.Writes.Primary.Object.GetUID())
	if !late {
		e.letGo(e.run.Key) // the primary that has the name now has had no run yet
	}
	if more {
		e.Scheduler.Offer(e.run.Key, next)
	}
}

func (n *notices) giveUp(last trc.Object, why string) {
	n.Operator.Logger.Info("gave up the final run of a deleted primary", append(n.Records.values(trc.KeyOf(last)), "uid", last.GetUID(), "why", why)...)
}

// letGo drops what runs of a deleted primary have left, while another one may have its name.
func (c *Controller) letGo(key trc.Key) {
	c.Sources.LetGo(key)
	c.states.letGo(key)
}

// forget drops everything that is kept for a name whose primary is gone, and owes no last run. The
// primary that has the name next may have had runs already, if the deletion is delivered late: its
// unresolved writes are kept. next is its UID, or empty.
func (c *Controller) forget(key trc.Key, next types.UID) {
	c.Sources.LetGo(key)
	c.states.forget(key, next)
	c.Scheduler.Forget(key)
	c.admission.Forget(key)
	c.Records.forget(key)
}

// letGoIfGone drops what a run has kept for its primary if the primary was deleted meanwhile. If it
// is deleted after this check, its deletion is handled later and drops the state. A new primary of
// the same name has had no run yet.
func (c *Controller) letGoIfGone(of incarnation) {
	if c.states.has(of.key) && c.isGone(of.key, of.uid) {
		c.states.letGo(of.key)
	}
}
