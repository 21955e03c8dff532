package run

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/framework/conditions"
	"github.com/evenkeel/evenkeel/framework/internal/write"
	"github.com/evenkeel/evenkeel/scheduler"
	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// Paused is the annotation by which users pause a primary.
const Paused = "evenkeel.dev/paused"

// isPaused reports whether the annotation pauses a primary.
func isPaused(primary trc.Object) bool {
	switch primary.GetAnnotations()[Paused] {
	case "true":
		return true
	case "except-deletion":
		return primary.GetDeletionTimestamp() == nil
	}
	return false
}

// pauseRequested is the reason of the condition. It distinguishes the framework's condition from
// one of the author's.
const pauseRequested = "PauseRequested"

// pause knows the primaries that have no runs.
//
// Invariant: keys are those of the primaries in the cache that are paused, as far as their changes
// were delivered. A run asks again, because a change may still be on its way here.
type pause struct {
	// runs reports whether a primary has runs; nil for the annotation.
	runs func(_, primary trc.Object) bool

	mu   sync.RWMutex // guards keys; a leaf
	keys map[trc.Key]struct{}
}

func (p *pause) holds(primary trc.Object) bool {
	if p.runs == nil {
		return isPaused(primary)
	}
	return !p.runs(nil, primary)
}

// note takes in a primary as it is now, and reports whether it is paused.
func (p *pause) note(primary trc.Object) bool {
	key, paused := trc.KeyOf(primary), p.holds(primary)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !paused {
		delete(p.keys, key)
		return false
	}
	if p.keys == nil {
		p.keys = map[trc.Key]struct{}{}
	}
	p.keys[key] = struct{}{}
	return true
}

func (p *pause) forget(key trc.Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.keys, key)
}

func (p *pause) has(key trc.Key) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	_, paused := p.keys[key]
	return paused
}

func (p *pause) count() int {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return len(p.keys)
}

// recount takes in all primaries after changes were missed.
func (p *pause) recount(primaries []trc.Object) {
	p.mu.Lock()
	p.keys = nil
	p.mu.Unlock()
	for _, primary := range primaries {
		p.note(primary)
	}
}

// pausing handles a change by which a primary is paused, or of one that is. It reports whether the
// primary is paused, and whether this change has ended a pause. That a pause has ended while nobody
// watched shows in the condition.
func (h primaryHandler) pausing(t trc.Transition) (paused, resumed bool) {
	was, is := t.Old != nil && h.pause.holds(t.Old), h.pause.note(t.New)
	if !is {
		return false, was || t.Old == nil && h.showsPaused(t.New)
	}
	if was && (h.conditions.find(t.Old, conditions.Paused) == nil || h.conditions.find(t.New, conditions.Paused) != nil) {
		return true, false
	}
	key, event := trc.KeyOf(t.New), scheduler.Event{Cause: timeline.External{Source: h.Name, ID: "it is paused"}, Lane: scheduler.BulkLane}
	if !was {
		h.Operator.Logger.WithValues(h.Records.values(key)...).Info("the primary is paused: it has no runs until the pause ends")
	}
	if h.Options.AllEvents && h.waitsForFinalRun(key, event) {
		return true, false
	}
	if !was {
		h.Scheduler.Forget(key) // its timers and retries
	}
	h.Scheduler.Offer(key, event)
	return true, false
}

// pausedNote is the text of the condition. It tells the controller's condition from that of another
// controller of the same kind.
func pausedNote(controller string) string {
	return fmt.Sprintf("controller %q does not reconcile it until the pause ends", controller)
}

// showsPaused reports whether a primary has this controller's condition.
func (h primaryHandler) showsPaused(primary trc.Object) bool {
	c := h.conditions.find(primary, conditions.Paused)
	return c != nil && c.Reason == pauseRequested && c.Message == pausedNote(h.Name)
}

// pausedRetry is how long a paused primary waits until its status is written again.
const pausedRetry = time.Minute

// showPaused is the run of a paused primary: its status says so, if its type has conditions.
func (e primaryWriter) showPaused(ctx context.Context, primary trc.Object) (scheduler.Result, error) {
	nothing := scheduler.Result{Dropped: true, Unrecorded: true} // no state is kept for the key
	if !e.canShowConditions() || e.conditions.find(primary, conditions.Paused) != nil {
		return nothing, nil
	}
	with := primary.DeepCopyObject().(trc.Object)
	meta.SetStatusCondition(e.conditions.of(with), metav1.Condition{
		Type: conditions.Paused, Status: metav1.ConditionTrue, ObservedGeneration: primary.GetGeneration(),
		Reason: pauseRequested, Message: pausedNote(e.Name),
	})
	err := e.carryOutByPatch(ctx, primary, Update{Object: with, Status: true})
	switch {
	case err == nil:
		return scheduler.Result{Dropped: true}, nil
	case onlyConflicts(err), e.run.cutOff(), errors.Is(err, write.ErrStandby), errors.Is(err, write.ErrRunEnded):
		return scheduler.Result{}, err // there is another run in any case
	}
	e.run.Logger().Info("cannot show in its status that the primary is paused", "error", err.Error())
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
		return nothing, nil
	}
	return scheduler.Result{RescheduleAfter: pausedRetry}, nil // no failure of the author's: no attempt, no event
}

// clearPaused removes the condition from a primary that is not paused any more. It returns the
// primary after that.
func (e primaryWriter) clearPaused(ctx context.Context, primary trc.Object) (trc.Object, error) {
	if e.run.Gone || !(primaryHandler{e.Controller}).showsPaused(primary) {
		return primary, nil
	}
	return e.without(ctx, primary, conditions.Paused)
}
