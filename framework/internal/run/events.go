package run

import (
	"errors"
	"slices"
	"strings"
	"sync"
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
	ReasonFight             = "FieldFight"
	ReasonLoop              = "RunsInLoop"
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

// notices tells authors and users, by events and the log, what they should do something about.
type notices struct {
	*Controller
	// unmapped holds the kinds of which an unmapped created object was reported: Identity to true.
	unmapped  sync.Map
	unwatched sync.Map // the schema.GroupKinds of owned, unwatched objects that were logged
	dropped   seldom   // limits the log lines of logDropped
}

// warn emits an event of type Warning.
func (n *notices) warn(about trc.Object, reason, note string, args ...any) {
	n.Operator.Event(n.GVK, about, true, "Reconcile", reason, note, args...)
}

// wasLast reports whether no retry follows a failure. It must be called after the scheduler has
// decided: only the scheduler knows how much of Retry.MaxElapsed is left, and whether a retry that
// it granted before is still to come.
func (e execution) wasLast(failure error) bool {
	switch e.Options.Retry.Judge(failure).Class {
	case retry.NotAgain:
		return true
	case retry.ByPolicy:
		return (e.run.Due.LastAttempt || e.Options.Retry.MaxElapsed > 0) && !e.Scheduler.Retries(e.run.Key)
	}
	return false
}

// followUp emits the events of a failed run. It is called after the scheduler has decided what
// comes next.
func (e execution) followUp(failure error, excused bool) {
	about, last := e.run.Writes.Primary.Object, e.wasLast(failure)
	switch {
	case errors.Is(failure, write.ErrTooLarge):
		e.notices.warn(about, ReasonObjectTooLarge, "%v", failure)
	case last:
		e.notices.warn(about, ReasonRetriesExhausted, "failed after %d retries, and no retry is left: %v", e.run.Due.Attempt, failure)
	case errors.Is(failure, admission.ErrRunTimeout):
		e.notices.warn(about, ReasonRunTimeout, "%v", failure)
	case !excused && e.Operator.Failures.TryAccept():
		e.notices.warn(about, ReasonReconcileFailed, "%v", failure)
	}
	if last && e.run.Gone {
		e.finalRunFailed(failure)
	}
}

// emitFinalizerRemoved emits an event if the finalizer, which an earlier run had added, is missing.
// It is certain that there was one if nothing but changes has led to this run.
func (n *notices) emitFinalizerRemoved(primary trc.Object, causes []timeline.Cause) {
	var by []string
	for _, cause := range causes {
		change, ok := cause.(timeline.Resource)
		if !ok {
			return
		}
		own := n.isOf(trc.KeyOf(primary), change)
		if own && change.Action != timeline.Updated {
			return
		}
		if own && change.Manager != "" {
			by = append(by, change.Manager)
		}
	}
	if len(by) > 0 {
		n.warn(primary, ReasonFinalizerRemoved, "finalizer %q was removed and is added again; last changed by %s", n.Options.Finalizer, strings.Join(by, ", "))
	}
}

// emitFinalizerLeftOver emits an event, once for each primary, if a primary in deletion has
// finalizers that may come from a controller that no longer exists.
func (n *notices) emitFinalizerLeftOver(run *Run, primary trc.Object) {
	var left []string
	for _, f := range primary.GetFinalizers() {
		if n.looksLeftOver(f) {
			left = append(left, f)
		}
	}
	if len(left) == 0 || run.Writes.LostLease() {
		return
	}
	known := false
	n.states.change(run.Key, func(s *primaryState) {
		known = s.leftOver == primary.GetUID()
		s.leftOver = primary.GetUID()
	})
	if known {
		return
	}
	names := strings.Join(left, ", ")
	run.Logger().Error(errLeftOver, "the deletion of the primary does not complete", "finalizers", names)
	n.warn(primary, ReasonFinalizerLeftOver, "%s: %v. Register a Cleaner with that finalizer (ControllerOptions.Finalizer), or remove the finalizer",
		names, errLeftOver)
}

var errLeftOver = errors.New("no controller of this operator removes the finalizer; unless another operator does, the controller or its finalizer was renamed, or its Cleaner was deleted")

// looksLeftOver reports whether a finalizer is, or looks like, a default for the kind, and no
// controller of the operator has it.
func (n *notices) looksLeftOver(finalizer string) bool {
	domain, name, _ := strings.Cut(finalizer, "/")
	known := finalizer == n.Options.Finalizer || finalizer == n.finalizer.former ||
		domain == FinalizerDomain(n.GVK.Group) && strings.HasSuffix(name, FinalizerSuffix)
	if !known || n.Cleans() && n.finalizer.is(finalizer) {
		return false
	}
	return !n.Operator.IsTaken(n.GVK.GroupKind().String(), finalizer)
}

// emitUnmapped emits an event, once for each kind, if an object that a run has created does not map
// to its primary.
func (n *notices) emitUnmapped(w *write.Writer, r *client.Client, key trc.Key) {
	writes, registered := w.Run, false
	for _, a := range n.Sources.Now() {
		d := &a.Secondary
		if !a.Required || a.Supervised != nil || d.Cluster != w.Port || d.GVK.GroupKind() != r.GVK.GroupKind() {
			continue
		}
		registered = true
		opened := n.Sources.Opened(a)
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
	if _, known := n.unmapped.LoadOrStore(Identity{Cluster: w.Port, GVK: r.GVK}, true); known {
		return
	}
	n.Operator.Logger.Error(errUnmapped, "an object was created that does not map to its primary",
		append(n.Records.values(writes.By.Primary), "kind", r.GVK.Kind, "objectNamespace", key.Namespace, "objectName", key.Name)...)
	n.warn(writes.Primary.Object, ReasonSecondaryUnmapped, "%s was created: %v", r.Describe(key), errUnmapped)
}

var errUnmapped = errors.New("reads of the secondaries do not find it, so each run may create another; " +
	"create it with OwnedByPrimary or WithPrimaryRef, or set Secondary.By or Secondary.Map, and watch where it is")

// emitNotSelected emits an event if a primary with the controller's finalizer no longer matches the
// selectors. The cache drops such a primary although it may still exist.
func (n *notices) emitNotSelected(last trc.Object) {
	var released types.UID
	n.states.look(trc.KeyOf(last), func(s *primaryState) { released, s.released = s.released, "" })
	if n.Options.LabelSelector == "" && n.Options.FieldSelector == "" || !n.Cleans() || !n.finalizer.isOn(last) {
		return
	}
	if released == last.GetUID() || !n.Operator.Cluster.Fence.Allowed() {
		return
	}
	selector := strings.Trim(n.Options.LabelSelector+" "+n.Options.FieldSelector, " ")
	n.Operator.Logger.Error(errNotSelected, "a primary no longer matches the selectors", append(n.Records.values(trc.KeyOf(last)), "selector", selector)...)
	n.warn(last, ReasonNotSelected, "it no longer matches %q: %v", selector, errNotSelected)
}

var errNotSelected = errors.New("it still has the controller's finalizer; until it matches again, Cleanup is not called and its deletion does not complete")
