package run

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/evenkeel/evenkeel/framework/internal/admission"
	"github.com/evenkeel/evenkeel/framework/internal/cache"
	"github.com/evenkeel/evenkeel/framework/internal/client"
	"github.com/evenkeel/evenkeel/framework/internal/finalrun"
	"github.com/evenkeel/evenkeel/framework/internal/host"
	"github.com/evenkeel/evenkeel/framework/internal/registry"
	"github.com/evenkeel/evenkeel/framework/internal/source"
	"github.com/evenkeel/evenkeel/framework/internal/write"
	"github.com/evenkeel/evenkeel/internal/author"
	"github.com/evenkeel/evenkeel/retry"
	"github.com/evenkeel/evenkeel/scheduler"
	"github.com/evenkeel/evenkeel/timeline"
	"github.com/evenkeel/evenkeel/trc"
)

// Controller is one registered reconciler with its stores and its scheduler. All fields are set
// before the first run and are read-only from then on, except the scheduler and the maps and
// registries that have locks of their own.
type Controller struct {
	Operator    *host.Host              // the operator that the controller belongs to
	Name        string                  // the controller's name, unique in the operator
	GVK         schema.GroupVersionKind // the kind of the primaries
	Options     Options                 // with their defaults
	sample      trc.Object              // an empty primary
	Indexes     []source.Index          // indexes of primaries
	author      Author
	HasCleanup  bool           // the author has a Cleanup
	ShowsErrors bool           // the author has an ErrorStatusHandler
	Filters     PrimaryFilters // the author's filters of primaries
	writeConfig write.Config   // the write config of runs
	conditions  conditionPath  // index path of the conditions in a primary; see conditionsIn
	Workflow    Workflow       // the workflow, if there is one
	finalizer   finalizer      // what it keeps primaries with until they are cleaned up
	scope       *cache.Scope   // the default namespaces to watch

	Resource   *client.Client                   // the resource of the primaries
	Store      *cache.Store                     // the primaries
	primaries  atomic.Pointer[trc.Subscription] // the subscription to Store
	Sources    registry.Registry                // what is read beside the primaries
	Scheduler  *scheduler.Scheduler[trc.Key]    // runs the primaries
	admission  admission.Admission              // admits runs by namespace
	Records    Records                          // of its runs
	states     primaryStates                    // what is kept for primaries between runs
	finalRuns  finalrun.FinalRuns               // none unless ControllerOptions.AllEvents
	pause      pause                            // the primaries that have no runs
	Startup    Startup                          // starts it
	Namespaces Namespaces                       // changes its namespaces
	notices    notices                          // what authors and users are told
}

// FinalizerName returns the kind of the primaries and the controller's finalizer. Both are empty if
// the controller needs no finalizer.
func (c *Controller) FinalizerName() (string, string) {
	if !c.Cleans() {
		return "", ""
	}
	return c.GVK.GroupKind().String(), c.Options.Finalizer
}

// Yields drops the former finalizer if it belongs to another controller of the same kind.
func (c *Controller) Yields(gk, finalizer string) {
	if gk == c.GVK.GroupKind().String() && finalizer == c.finalizer.former {
		c.finalizer.former = ""
		c.writeConfig.FormerFinalizer = ""
	}
}

// Overdue returns the runs that have not ended after their deadline.
func (c *Controller) Overdue() []string { return c.admission.Overdue() }

// Pause ends the runs and lets no further one begin. It records the runs that ignore their end and
// returns an error then.
func (c *Controller) Pause() error {
	err := c.Scheduler.Pause()
	if err != nil {
		c.admission.Ignored()
	}
	return err
}

func (c *Controller) ledgerWriter(key trc.Key) trc.Writer {
	return trc.Writer{Controller: c.Name, Primary: key}
}

// needsFinalizer reports whether the controller's finalizer must still be added to the primary.
func (c *Controller) needsFinalizer(primary trc.Object) bool {
	return c.Cleans() && primary.GetDeletionTimestamp() == nil && !slices.Contains(primary.GetFinalizers(), c.Options.Finalizer)
}

// finalizer is the controller's finalizer, with its former name.
type finalizer struct {
	name   string
	former string // counts as the controller's finalizer; may be empty
}

// is reports whether a finalizer is the controller's finalizer, or its former one.
func (f finalizer) is(other string) bool {
	return other == f.name || other == f.former && f.former != ""
}

// isOn reports whether a primary has it.
func (f finalizer) isOn(primary trc.Object) bool {
	return slices.ContainsFunc(primary.GetFinalizers(), f.is)
}

// New returns a controller. Its filters, indexes and workflow must be set before Complete is
// called.
func New(h *host.Host, gvk schema.GroupVersionKind, o Options, a Author, sample trc.Object) *Controller {
	c := &Controller{
		Operator: h, Name: o.Name, GVK: gvk, Options: o, author: a, sample: sample,
	}
	c.Records = Records{
		logger: h.Logger, controller: o.Name, gvk: gvk, observers: h.Observers,
		recorder: timeline.NewRecorder(o.KeepRecords), histories: timeline.NewHistories(o.KeepRecordsPerPrimary),
		exists: func(key trc.Key) bool { return c.Store.Get(key) != nil || c.finalRuns.Due(key) != nil },
	}
	c.Records.fields = c.Records.wantsFields()
	c.scope, c.finalizer = h.Scope, finalizer{o.Finalizer, o.FormerFinalizer}
	if len(o.Namespaces) > 0 {
		c.scope = &cache.Scope{Of: c.Name, Namespaces: slices.Clone(o.Namespaces)}
	}
	c.Sources.Set(registry.Opener{
		Host: h, Controller: o.Name, GVK: gvk, PrimaryType: reflect.TypeOf(sample), Scope: c.scope, Sink: sink{c}, AllDue: c.everythingDue,
		Fields: c.Records.fields,
	}, c.isGone, c.unknownSecondary)
	c.notices.Controller, c.Namespaces.Controller, c.Startup.Controller = c, c, c
	c.conditions, c.Workflow.controller, c.Workflow.describe = conditionsIn(sample), o.Name, c.Sources.Describe
	c.Options.Retry.Classify = guardedClassifier(h.Calls, o.Name, o.Retry.Classify)
	c.writeConfig = write.Config{
		Port: h.Cluster, FieldManager: o.FieldManager, Mode: o.SecondaryWrites, OwnerGVK: gvk,
		Owns: c.notices.owns, Loops: &c.states, Created: c.notices.emitUnmapped,
	}
	return c
}

// guardedClassifier returns a classifier that gives the zero verdict if the author's does not
// return.
func guardedClassifier(calls *author.Callbacks, controller string, classify func(error) retry.Verdict) func(error) retry.Verdict {
	callback := calls.New(fmt.Sprintf("Retry.Classify of controller %q", controller))
	return func(failure error) retry.Verdict {
		if onlyConflicts(failure) || onlyNotSynced(failure) {
			return retry.Verdict{Class: retry.Soon} // the other errors are refused for now, too
		}
		var verdict retry.Verdict
		if callback.Do(func() string { return author.Text(failure) }, func() { verdict = classify(failure) }) != nil {
			return retry.Verdict{}
		}
		return verdict
	}
}

// Complete sets up everything that follows from the filters, the indexes and the workflow, and
// validates the options.
func (c *Controller) Complete() error {
	c.Sources.GuardIndexes(c.Name, c.Indexes)
	c.pause.runs = c.Filters.Runs
	if c.Cleans() {
		c.writeConfig.Finalizer, c.writeConfig.FormerFinalizer = c.Options.Finalizer, c.finalizer.former
	}
	schedule := scheduler.Options[trc.Key]{
		Concurrency: c.Options.Concurrency, Retry: c.Options.Retry, MaxInterval: c.Options.MaxInterval, RateLimit: c.Options.RateLimit,
		Grace: c.Operator.Grace, Record: c.Records.Add, Decide: primaryHandler{c}.needsRun,
	}
	if !c.Records.areKept() && len(c.Records.observers) == 0 {
		if c.Operator.Logger.GetSink() == nil {
			schedule.Record = nil // nobody would read it
		}
		schedule.RecordFailures = c.Operator.Quiet
	}
	var err error
	if c.Scheduler, err = scheduler.New(c.Reconcile, schedule); err != nil {
		err = fmt.Errorf("framework: controller %q: %w", c.Name, err)
	}
	return errors.Join(c.Startup.declare(), c.Startup.validateIndexes(), err)
}
