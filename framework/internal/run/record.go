package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/evenkeel/evenkeel/framework/internal/safely"
	"github.com/evenkeel/evenkeel/framework/observe"
	"github.com/evenkeel/evenkeel/internal/author"
	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// Records keeps and logs the records of a controller's runs. They are made only if somebody will
// read them.
type Records struct {
	logger     logr.Logger
	controller string                  // the controller's name
	gvk        schema.GroupVersionKind // the kind of the primaries
	recorder   *timeline.Recorder      // the newest of the controller; nil if none are kept
	histories  *timeline.Histories     // the newest of each primary; nil if none are kept
	observers  []observe.Observer      // are told of every run
	fields     bool                    // somebody reads which fields have changed
	flawed     seldom                  // limits the log lines about observers that panic
	lost       lostIDs                 // of runs that ended their goroutine
	// exists reports whether a primary exists, or owes its last run.
	exists func(trc.Key) bool
}

// Wanted reports whether somebody gets the records of runs.
func (s *Records) Wanted() bool {
	return s.areKept() || len(s.observers) > 0 || s.logger.V(1).Enabled()
}

// wantsFields reports whether somebody reads which fields have changed.
func (s *Records) wantsFields() bool {
	return s.areKept() || slices.ContainsFunc(s.observers, func(o observe.Observer) bool {
		wants := false
		if o, is := o.(observe.FieldObserver); is {
			_ = author.Try(func() { wants = o.WantsFields() }) // if it panics, it gets none
		}
		return wants
	})
}

// areKept reports whether records are kept.
func (s *Records) areKept() bool { return s.recorder != nil || s.histories != nil }

// Of returns the records of a primary, if ControllerOptions keep them.
func (s *Records) Of(key trc.Key) []timeline.Record { return s.histories.Of(recordKey(key)) }

// Newest returns the newest records of the controller.
func (s *Records) Newest() []timeline.Record { return s.recorder.Records() }

// Primaries returns the number of primaries that records are kept of.
func (s *Records) Primaries() int { return s.histories.Len() }

// forget drops the records of a primary, except among the newest of the controller.
func (s *Records) forget(key trc.Key) { s.histories.Forget(recordKey(key)) }

// recordKey returns the name of a primary in records.
func recordKey(key trc.Key) string { return strings.TrimPrefix(key.String(), "/") }

// keep keeps a record. The record of a deleted primary is kept only among the newest of the
// controller.
func (s *Records) keep(key trc.Key, r timeline.Record) {
	s.recorder.Add(r)
	if s.histories == nil {
		return
	}
	s.histories.Add(r)
	// If the primary is deleted after this check, its deletion is handled later and drops the history.
	if !s.exists(key) {
		s.forget(key)
	}
}

// tell tells the observers of a run.
func (s *Records) tell(key trc.Key, r *timeline.Record) {
	for _, o := range s.observers {
		failure := author.Try(func() { o.RunEnded(s.controller, key, *r) })
		if failure != nil && s.flawed.may() {
			s.logger.Error(safely.Error(failure), "an observer panicked", "observer", fmt.Sprintf("%T", o))
		}
	}
}

// lostIDs are the reconcileIDs of runs that ended their goroutine, until their records are made.
// The zero value is ready for use.
type lostIDs struct {
	some  atomic.Bool // byKey is not empty
	mu    sync.Mutex  // guards byKey; a leaf
	byKey map[trc.Key]string
}

// keep keeps the ID of a run, if it has one.
func (l *lostIDs) keep(key trc.Key, id *string) {
	if id == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byKey == nil {
		l.byKey = map[trc.Key]string{}
	}
	l.byKey[key] = *id
	l.some.Store(true)
}

// take takes the ID of the last run of a primary, empty if it was not lost.
func (l *lostIDs) take(key trc.Key) (id string) {
	if !l.some.Load() {
		return ""
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	id = l.byKey[key]
	delete(l.byKey, key)
	l.some.Store(len(l.byKey) > 0)
	return id
}

// begin tells the observers that a run begins. The run's context is made from what they return.
func (s *Records) begin(life context.Context, run *Run) {
	ctx := life
	for _, o := range s.observers {
		o, told := o.(observe.RunObserver)
		if !told {
			continue
		}
		id := run.theID()
		failure := author.Try(func() {
			own, values := o.RunBegins(ctx, s.controller, run.Key, id)
			if own != nil {
				ctx = own
			}
			run.told = append(run.told, values...)
		})
		if failure != nil && s.flawed.may() {
			s.logger.Error(safely.Error(failure), "an observer panicked", "observer", fmt.Sprintf("%T", o))
		}
	}
	if ctx != life {
		run.Life.MakeFrom(ctx)
	}
}

// Add passes the record of a run on to observers, keeps it and logs it.
func (s *Records) Add(key trc.Key, r timeline.Record) {
	failed := r.Outcome == timeline.Failed || r.Outcome == timeline.Panicked
	shown := s.areKept() || s.logger.V(1).Enabled() || failed && s.logger.Enabled()
	if !shown && len(s.observers) == 0 {
		return
	}
	if id := s.lost.take(key); id != "" {
		r.ID = id
	}
	if s.tell(key, &r); !shown {
		return
	}
	r.Key = recordKey(key)
	s.keep(key, r)
	if r.ID == "" {
		// The run ended its goroutine, or the log level was raised in between.
		r.ID = string(uuid.NewUUID())
	}
	logger := s.logger.WithValues(append(s.values(key), "reconcileID", r.ID)...)
	logRun(logger, r, failed)
	if v := logger.V(2); v.Enabled() {
		for _, cause := range r.Causes {
			v.Info("cause", "cause", author.Sprint(cause))
		}
	}
}

// logRun writes the one line of a run.
func logRun(logger logr.Logger, r timeline.Record, failed bool) {
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
		logger.Info("run postponed", append(values, "error", r.Err)...)
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

// values returns what names a primary in the log.
func (s *Records) values(key trc.Key) []any {
	return []any{
		"controller", s.controller, "controllerGroup", s.gvk.Group, "controllerKind", s.gvk.Kind,
		"namespace", key.Namespace, "name", key.Name,
	}
}
