package framework

import (
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/evenkeel/evenkeel/retry"
	"github.com/evenkeel/evenkeel/scheduler"
	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// Reasons of the Kubernetes events by which the framework tells users of a primary what it decided. All are
// warnings with the action "Reconcile". Repetitions are counted in one event.
const (
	// ReasonRetriesExhausted: the run failed and no retry follows, until something changes.
	ReasonRetriesExhausted = "RetriesExhausted"
	// ReasonObjectTooLarge: the API server or etcd refused an object for its size; no retry follows.
	ReasonObjectTooLarge = "ObjectTooLarge"
	// ReasonRunTimeout: the run exceeded [ControllerOptions.RunTimeout].
	ReasonRunTimeout = "RunTimeout"
	// ReasonFinalizerRemoved: somebody else took the controller's finalizer off a living primary, which has
	// it again now. Maybe another controller uses the same one.
	ReasonFinalizerRemoved = "FinalizerRemoved"
)

// maxNote is what the API server takes of an event's note, in bytes.
const maxNote = 1024

// shortened cuts a note where the API server would refuse it.
func shortened(note string) string {
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

func (c *controller[P]) warn(about trc.Object, reason, note string, args ...any) {
	c.operator.event(c.gvk, about, Warning, "Reconcile", reason, note, args...)
}

// isLast tells whether no retry follows a failure.
func (c *controller[P]) isLast(rc *Context[P], failure error) bool {
	class := c.options.Retry.Judge(failure).Class
	return class == retry.NotAgain || class == retry.ByPolicy && rc.run.LastAttempt
}

// tell publishes what a user of the primary must know of a failed run.
func (c *controller[P]) tell(rc *Context[P], result scheduler.Result) {
	about := rc.write.owner
	switch {
	case result.Err == nil || rc.life.whole().Err() != nil:
	case errors.Is(result.Err, ErrTooLarge):
		c.warn(about, ReasonObjectTooLarge, "%v", result.Err)
	case c.isLast(rc, result.Err):
		c.warn(about, ReasonRetriesExhausted, "failed after %d retries, and no further one follows: %v", rc.run.Attempt, result.Err)
	case errors.Is(result.Err, errRunTimeout):
		c.warn(about, ReasonRunTimeout, "%v", result.Err)
	}
}

// tellOfFinalizer tells that the finalizer, which a run before put on, is missing. That there was one is
// certain if nothing but changes has led to this run.
func (c *controller[P]) tellOfFinalizer(primary trc.Object, causes []timeline.Cause) {
	var by []string
	for _, cause := range causes {
		change, ok := cause.(timeline.Resource)
		if !ok || change.Source == c.name && change.Action != timeline.Updated {
			return
		}
		if change.Source == c.name && change.Manager != "" {
			by = append(by, change.Manager)
		}
	}
	if len(by) > 0 {
		c.warn(primary, ReasonFinalizerRemoved, "finalizer %q was taken off, and is put on again; last changed by %s", c.options.Finalizer, strings.Join(by, ", "))
	}
}
