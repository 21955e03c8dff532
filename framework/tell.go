package framework

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

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

// errRunTimeout is the cause of the end of a run's context.
var errRunTimeout = errors.New("framework: the run exceeded ControllerOptions.RunTimeout")

// withDeadline gives a run its time. If it is still going on after that, this is logged: it may be stuck.
func (c *controller[P]) withDeadline(life context.Context, rc *Context[P]) (_ context.Context, end func()) {
	ctx, cancel := context.WithTimeoutCause(life, c.options.RunTimeout, fmt.Errorf("%w of %v", errRunTimeout, c.options.RunTimeout))
	unwatch := context.AfterFunc(ctx, func() {
		if errors.Is(context.Cause(ctx), errRunTimeout) {
			rc.logger.Info("the run has exceeded its deadline", "timeout", c.options.RunTimeout.String())
		}
	})
	return ctx, func() { unwatch(); cancel() }
}

// withTimeout says in a failure that the run had exceeded its deadline.
func withTimeout(ctx context.Context, failure error) error {
	cause := context.Cause(ctx)
	if failure == nil || !errors.Is(cause, errRunTimeout) || errors.Is(failure, errRunTimeout) {
		return failure
	}
	return fmt.Errorf("%w (%w)", failure, cause)
}

// settleFailure follows a failed run. last says that no retry does; ends, that the operator has cut it off.
func (c *controller[P]) settleFailure(rc *Context[P], failure error, last, ends bool) {
	if !ends {
		c.tell(rc, failure, last)
	}
	if last && rc.gone {
		c.abandon(rc, failure)
	}
}

// tell publishes what a user of the primary must know of a failed run.
func (c *controller[P]) tell(rc *Context[P], failure error, last bool) {
	about := rc.write.owner
	switch {
	case errors.Is(failure, ErrTooLarge):
		c.warn(about, ReasonObjectTooLarge, "%v", failure)
	case last:
		c.warn(about, ReasonRetriesExhausted, "failed after %d retries, and no further one follows: %v", rc.run.Attempt, failure)
	case errors.Is(failure, errRunTimeout):
		c.warn(about, ReasonRunTimeout, "%v", failure)
	}
}

// tellOfFinalizer tells that the finalizer, which a run before put on, is missing. That there was one is
// certain if nothing but changes has led to this run.
func (c *controller[P]) tellOfFinalizer(primary trc.Object, causes []timeline.Cause) {
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
		c.warn(primary, ReasonFinalizerRemoved, "finalizer %q was taken off, and is put on again; last changed by %s", c.options.Finalizer, strings.Join(by, ", "))
	}
}
