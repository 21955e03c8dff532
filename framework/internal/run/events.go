package run

import (
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework/internal/admission"
	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/framework/internal/write"
	"github.com/evenkeel/evenkeel/retry"
	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// The reasons of events.
const (
	ReasonRetriesExhausted  = "RetriesExhausted"
	ReasonObjectTooLarge    = "ObjectTooLarge"
	ReasonReconcileFailed   = "ReconcileFailed"
	ReasonRunTimeout        = "RunTimeout"
	ReasonFinalizerRemoved  = "FinalizerRemoved"
	ReasonFinalizerLeftOver = "FinalizerLeftOver"
	ReasonSecondaryUnmapped = "SecondaryUnmapped"
	ReasonNotSelected       = "NotSelected"
	ReasonUndecodable       = "Undecodable"
)

// maxNote is the longest note of an event that the API server accepts, in bytes.
const maxNote = 1024

// Shortened cuts a note to the length that the API server accepts.
func Shortened(note string) string {
	if len(note) <= maxNote {
		return note
	}
	const mark = "…"
	cut := maxNote - len(mark)
	for cut > 0 && !utf8.RuneStart(note[cut]) {
		cut--
	}
	return note[:cut] + mark
}

func (c *Controller) warn(about trc.Object, reason, note string, args ...any) {
	c.Operator.Event(c.GVK, about, true, "Reconcile", reason, note, args...)
}

// wasLast reports whether no retry follows a failure. It must be called after the scheduler has
// decided: only the scheduler knows how much of Retry.MaxElapsed is left, and whether a retry that
// it granted before is still to come.
func (c *Controller) wasLast(rc *Run, failure error) bool {
	switch c.Options.Retry.Judge(failure).Class {
	case retry.NotAgain:
		return true
	case retry.ByPolicy:
		return (rc.Due.LastAttempt || c.Options.Retry.MaxElapsed > 0) && !c.Scheduler.Retries(rc.Key)
	}
	return false
}

// followUp emits the events of a failed run. It is called after the scheduler has decided what
// comes next.
func (c *Controller) followUp(rc *Run, failure error, excused bool) {
	about, last := rc.Writes.Primary.Object, c.wasLast(rc, failure)
	switch {
	case errors.Is(failure, write.ErrTooLarge):
		c.warn(about, ReasonObjectTooLarge, "%v", failure)
	case last:
		c.warn(about, ReasonRetriesExhausted, "failed after %d retries, and no further one follows: %v", rc.Due.Attempt, failure)
	case errors.Is(failure, admission.ErrRunTimeout):
		c.warn(about, ReasonRunTimeout, "%v", failure)
	case !excused && c.Operator.Failures.TryAccept():
		c.warn(about, ReasonReconcileFailed, "%v", failure)
	}
	if last && rc.Gone {
		c.finalRunFailed(rc, failure)
	}
}

// emitFinalizerRemoved emits an event if the finalizer, which an earlier run had added, is missing.
// It is certain that there was one if nothing but changes has led to this run.
func (c *Controller) emitFinalizerRemoved(primary trc.Object, causes []timeline.Cause) {
	var by []string
	for _, cause := range causes {
		change, ok := cause.(timeline.Resource)
		if !ok {
			return
		}
		own := c.isOf(trc.KeyOf(primary), change)
		if own && change.Action != timeline.Updated {
			return
		}
		if own && change.Manager != "" {
			by = append(by, change.Manager)
		}
	}
	if len(by) > 0 {
		c.warn(primary, ReasonFinalizerRemoved, "finalizer %q was taken off, and is put on again; last changed by %s", c.Options.Finalizer, strings.Join(by, ", "))
	}
}

// emitFinalizerLeftOver emits an event, once for each primary, if a primary in deletion has
// finalizers that may come from a controller that no longer exists.
func (c *Controller) emitFinalizerLeftOver(rc *Run, primary trc.Object) {
	var left []string
	for _, f := range primary.GetFinalizers() {
		if c.looksLeftOver(f) {
			left = append(left, f)
		}
	}
	if len(left) == 0 || rc.Writes.LostLease() {
		return
	}
	known := false
	c.states.change(rc.Key, func(s *primaryState) {
		known = s.leftOver == primary.GetUID()
		s.leftOver = primary.GetUID()
	})
	if known {
		return
	}
	names := strings.Join(left, ", ")
	rc.Logger().Error(errLeftOver, "the primary is in deletion and stays", "finalizers", names)
	c.warn(primary, ReasonFinalizerLeftOver, "%s: %v. Register a Cleaner with that finalizer (ControllerOptions.Finalizer), or take it off",
		names, errLeftOver)
}

var errLeftOver = errors.New("no controller of this operator takes the finalizer off; unless another operator does, a controller or its finalizer was renamed, or its Cleaner taken out")

// looksLeftOver reports whether a finalizer is, or looks like, a default for the kind, and no
// controller of the operator has it.
func (c *Controller) looksLeftOver(finalizer string) bool {
	domain, name, _ := strings.Cut(finalizer, "/")
	known := finalizer == c.Options.Finalizer || finalizer == c.former ||
		domain == FinalizerDomain(c.GVK.Group) && strings.HasSuffix(name, FinalizerSuffix)
	if !known || c.Cleans() && c.isFinalizer(finalizer) {
		return false
	}
	return !c.Operator.IsTaken(c.GVK.GroupKind().String(), finalizer)
}

// emitUnmapped emits an event, once for each kind, if an object that a run has created does not map
// to its primary.
func (c *Controller) emitUnmapped(w *write.Writer, r *client.Client, key trc.Key) {
	writes, registered := w.Run, false
	for _, a := range c.Sources.Now() {
		d := &a.Secondary
		if !a.Required || a.Supervised != nil || d.Cluster != w.Port || d.GVK.GroupKind() != r.GVK.GroupKind() {
			continue
		}
		registered = true
		opened := c.Sources.Opened(a)
		if d.References != nil || opened == nil {
			return // the primary may refer to it later
		}
		informer := opened.Informer
		// Ask with the object of this cache: each mapper takes objects of its own Go type.
		if o := informer.Store().Get(key); o != nil && slices.Contains(informer.Primaries(o), writes.By.Primary) {
			return
		}
		if informer.Store().Undecodable(key) != nil {
			return // it exists; reads return an error while it is undecodable
		}
	}
	if !registered || writes.Primary.Gone || writes.LostLease() {
		return
	}
	if _, known := c.unmapped.LoadOrStore(Identity{Cluster: w.Port, GVK: r.GVK}, true); known {
		return
	}
	c.Operator.Logger.Error(errUnmapped, "an object was created that does not map to its primary",
		append(c.logValues(writes.By.Primary), "kind", r.GVK.Kind, "objectNamespace", key.Namespace, "objectName", key.Name)...)
	c.warn(writes.Primary.Object, ReasonSecondaryUnmapped, "%s was created: %v", r.Describe(key), errUnmapped)
}

var errUnmapped = errors.New("reads of the secondaries do not find it, so each run may create another; " +
	"create it with OwnedByPrimary or WithPrimaryRef, or set Secondary.By or Secondary.Map, and watch where it is")

// emitNotSelected emits an event if a primary with the controller's finalizer no longer matches the
// selectors. The cache drops such a primary although it may still exist.
func (c *Controller) emitNotSelected(last trc.Object) {
	var released types.UID
	c.states.look(trc.KeyOf(last), func(s *primaryState) { released, s.released = s.released, "" })
	if c.Options.LabelSelector == "" && c.Options.FieldSelector == "" || !c.Cleans() || !c.hasFinalizer(last) {
		return
	}
	if released == last.GetUID() || !c.Operator.Cluster.Fence.Allowed() {
		return
	}
	selector := strings.Trim(c.Options.LabelSelector+" "+c.Options.FieldSelector, " ")
	c.Operator.Logger.Error(errNotSelected, "a primary has left the selectors", append(c.logValues(trc.KeyOf(last)), "selector", selector)...)
	c.warn(last, ReasonNotSelected, "it does not match %q any more: %v", selector, errNotSelected)
}

var errNotSelected = errors.New("it keeps the controller's finalizer, and while it does not match, Cleanup is not called and a deletion waits")
