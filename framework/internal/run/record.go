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

// Records of runs are made only if somebody will read them.

// keepsRecords reports whether the records of runs are kept or logged.
func (c *Controller) keepsRecords() bool {
	return c.recorder != nil || c.histories != nil || c.Operator.Logger.V(1).Enabled()
}

// History returns the records of a primary, if ControllerOptions keep them.
func (c *Controller) History(key trc.Key) []timeline.Record {
	return c.histories.Of(recordKey(key))
}

// recordKey returns the name of a primary in records.
func recordKey(key trc.Key) string { return strings.TrimPrefix(key.String(), "/") }

// keepRecord keeps a record. The record of a deleted primary is kept only among the newest of the
// controller.
func (c *Controller) keepRecord(key trc.Key, r timeline.Record) {
	c.recorder.Add(r)
	if c.histories == nil {
		return
	}
	c.histories.Add(r)
	// If the primary is deleted after this check, its deletion is handled later and drops the history.
	if c.Store.Get(key) == nil && c.finalRuns.Due(key) == nil {
		c.histories.Forget(r.Key)
	}
}

// Record keeps and logs the record of a run.
func (c *Controller) Record(key trc.Key, r timeline.Record) {
	failed := r.Outcome == timeline.Failed || r.Outcome == timeline.Panicked
	if !c.keepsRecords() && !(failed && c.Operator.Logger.Enabled()) {
		return
	}
	r.Key = recordKey(key)
	c.keepRecord(key, r)
	if r.ID == "" {
		// The run ended its goroutine, or the log level was raised in between.
		r.ID = string(uuid.NewUUID())
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

// maxCauses is how many causes the line of a run has. At verbosity 2, each cause has a line of its
// own.
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
