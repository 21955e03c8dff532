package run

import (
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

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

// maxNote is what the API server takes of an event's note, in bytes.
const maxNote = 1024

// Shortened cuts a note where the API server would refuse it.
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

// wasLast tells whether no retry follows a failure, once that is decided: how much of a time is left, and whether a
// retry that was granted before is still to come, only the scheduler knows.
func (c *Controller) wasLast(rc *Run, failure error) bool {
	switch c.Options.Retry.Judge(failure).Class {
	case retry.NotAgain:
		return true
	case retry.ByPolicy:
		return (rc.Due.LastAttempt || c.Options.Retry.MaxElapsed > 0) && !c.Scheduler.Retries(rc.Key)
	}
	return false
}

// followUp follows a failed run once it is decided what comes next: it publishes what a user of the primary must
// know.
func (c *Controller) followUp(rc *Run, failure error, excused bool) {
	about, last := rc.Write.Owner, c.wasLast(rc, failure)
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
		c.departInVain(rc, failure)
	}
}

// tellOfFinalizer tells that the finalizer, which a run before put on, is missing. That there was one is
// certain if nothing but changes has led to this run.
func (c *Controller) tellOfFinalizer(primary trc.Object, causes []timeline.Cause) {
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

// tellOfLeftOver tells, once for each primary, that one in deletion carries finalizers that may have been put on by a
// controller that is not there any more.
func (c *Controller) tellOfLeftOver(rc *Run, primary trc.Object) {
	var left []string
	for _, f := range primary.GetFinalizers() {
		if c.looksLeftOver(f) {
			left = append(left, f)
		}
	}
	if len(left) == 0 || rc.Write.LostLease() {
		return
	}
	if told, _ := c.leftOver.Swap(rc.Key, primary.GetUID()); told == primary.GetUID() {
		return
	}
	names := strings.Join(left, ", ")
	rc.Logger().Error(errLeftOver, "the primary is in deletion and stays", "finalizers", names)
	c.warn(primary, ReasonFinalizerLeftOver, "%s: %v. Register a Cleaner with that finalizer (ControllerOptions.Finalizer), or take it off",
		names, errLeftOver)
}

var errLeftOver = errors.New("no controller of this operator takes the finalizer off; unless another operator does, a controller or its finalizer was renamed, or its Cleaner taken out")

// looksLeftOver tells whether a finalizer is, or looks like, a default for the kind and belongs to no controller of
// the operator.
func (c *Controller) looksLeftOver(finalizer string) bool {
	domain, name, _ := strings.Cut(finalizer, "/")
	known := finalizer == c.Options.Finalizer || finalizer == c.former ||
		domain == FinalizerDomain(c.GVK.Group) && strings.HasSuffix(name, FinalizerSuffix)
	if !known || c.Cleans() && c.isFinalizer(finalizer) {
		return false
	}
	return !c.Operator.IsTaken(c.GVK.GroupKind().String(), finalizer)
}

// tellOfUnmapped tells, once for each kind, that an object which a run has created does not map to its primary.
func (c *Controller) tellOfUnmapped(w *write.Writer, r *client.Client, key trc.Key) {
	home, registered := w.Home(), false
	for _, d := range c.secondaries {
		if d.Cluster != w.Port || d.GVK.GroupKind() != r.GVK.GroupKind() {
			continue
		}
		registered = true
		informer := c.informers[d.Key]
		if d.References != nil || informer == nil {
			return // the primary may refer to it later
		}
		// As this cache has it: each maps objects of its own Go type.
		if o := informer.Store().Get(key); o != nil && slices.Contains(informer.Primaries(o), home.Run.Primary) {
			return
		}
		if informer.Store().Undecodable(key) != nil {
			return // it is there; reads are errors as long as it is
		}
	}
	if !registered || home.OwnerGone || home.LostLease() {
		return
	}
	if _, told := c.unmapped.LoadOrStore(Identity{Cluster: w.Port, Gvk: r.GVK}, true); told {
		return
	}
	c.Operator.Logger.Error(errUnmapped, "an object was created that does not map to its primary",
		append(c.logValues(home.Run.Primary), "kind", r.GVK.Kind, "objectNamespace", key.Namespace, "objectName", key.Name)...)
	c.warn(home.Owner, ReasonSecondaryUnmapped, "%s was created: %v", r.Describe(key), errUnmapped)
}

var errUnmapped = errors.New("reads of the secondaries do not find it, so each run may create another; " +
	"create it with OwnedByPrimary or WithPrimaryRef, or set Secondary.By or Secondary.Map, and watch where it is")

// tellOfNotSelected tells that a primary with the controller's finalizer has left what its selectors select: what is
// gone for the cache may still exist.
func (c *Controller) tellOfNotSelected(last trc.Object) {
	released, _ := c.released.LoadAndDelete(trc.KeyOf(last))
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
