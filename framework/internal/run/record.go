package run

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/evenkeel/evenkeel/internal/author"
	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// What a run did is noted only if somebody will read it.

// keepsRecords tells whether the records of runs are read: kept, or logged.
func (c *Controller) keepsRecords() bool {
	return c.recorder != nil || c.histories != nil || c.Operator.Logger.V(1).Enabled()
}

func (c *Controller) History(key trc.Key) []timeline.Record {
	return c.histories.Of(recordKey(key))
}

// recordKey is how records name a primary.
func recordKey(key trc.Key) string { return strings.TrimPrefix(key.String(), "/") }

// keep keeps a record. That of a primary that is gone is among the newest of the controller only.
func (c *Controller) keepRecord(key trc.Key, r timeline.Record) {
	c.recorder.Add(r)
	if c.histories == nil {
		return
	}
	c.histories.Add(r)
	// If it goes after that, forgetting it comes after that, too.
	if c.Store.Get(key) == nil && c.finalRuns.Due(key) == nil {
		c.histories.Forget(r.Key)
	}
}

// Record keeps and logs what a run was.
func (c *Controller) Record(key trc.Key, r timeline.Record) {
	failed := r.Outcome == timeline.Failed || r.Outcome == timeline.Panicked
	if !c.keepsRecords() && !(failed && c.Operator.Logger.Enabled()) {
		return
	}
	r.Key = recordKey(key)
	c.keepRecord(key, r)
	if r.ID == "" {
		r.ID = string(uuid.NewUUID()) // it ended its goroutine, or the level was raised in between
	}
	logger := c.Operator.Logger.WithValues(append(c.logValues(key), "reconcileID", r.ID)...)
	c.logRun(logger, r, failed)
	if v := logger.V(2); v.Enabled() {
		for _, cause := range r.Causes {
			v.Info("cause", "cause", author.Sprint(cause))
		}
	}
}

// logRun writes the one line of a run.
func (c *Controller) logRun(logger logr.Logger, r timeline.Record, failed bool) {
	var values []any
	switch v := logger.V(1); {
	case failed:
		values = append(values, "attempt", r.Attempt, "next", r.Next.String())
		if v.Enabled() {
			values = append(values, "causes", causesOf(r))
		}
	case v.Enabled():
		v.Info("run", "outcome", r.Outcome.String(), "duration", r.Duration.String(), "writes", len(r.Requests), "causes", causesOf(r))
		return
	default:
		return
	}
	switch {
	case r.Excused:
		logger.Info("run put off", append(values, "error", r.Err)...)
	case r.Stack != "":
		logger.Error(errors.New(r.Err), "run panicked", append(values, "stack", r.Stack)...)
	default:
		logger.Error(errors.New(r.Err), "run failed", values...)
	}
}

// maxCauses is how many causes stand in the line of a run; at verbosity 2, each has a line of its own.
const maxCauses = 5

func causesOf(r timeline.Record) string {
	var texts []string
	for _, cause := range r.Causes[:min(len(r.Causes), maxCauses)] {
		texts = append(texts, cause.String())
	}
	if more := len(r.Causes) - len(texts); more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, ", ")
}

func (c *Controller) logValues(key trc.Key) []any {
	return []any{
		"controller", c.Name, "controllerGroup", c.GVK.Group, "controllerKind", c.GVK.Kind,
		"namespace", key.Namespace, "name", key.Name,
	}
}
