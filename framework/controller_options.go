package framework

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework/internal/cache"
	"github.com/evenkeel/evenkeel/framework/internal/object"
	"github.com/evenkeel/evenkeel/framework/internal/run"
	"github.com/evenkeel/evenkeel/framework/internal/safely"
	"github.com/evenkeel/evenkeel/framework/internal/write"
	"github.com/evenkeel/evenkeel/retry"
	"github.com/evenkeel/evenkeel/scheduler"
)

// DefaultRunTimeout is the default of [ControllerOptions.RunTimeout].
const DefaultRunTimeout = 10 * time.Minute

// ControllerOptions configures a controller. The zero value of each field is its documented
// default.
type ControllerOptions[P Object] struct {
	// Name of the controller, in logs, metrics and the default field manager. Default: the primary's
	// kind in lower case. It must be a DNS label and unique within the operator.
	Name string
	// GroupVersionKind of the primaries. It is required if P is *unstructured.Unstructured or
	// *metav1.PartialObjectMetadata (metadata only), or [Object] itself: then the scheme makes the
	// objects, and P says nothing of their type. It must be empty otherwise.
	GroupVersionKind schema.GroupVersionKind
	// Secondaries are the objects that the controller reads. A change of a secondary makes its
	// primaries due. Default: none.
	Secondaries []SecondarySource
	// Indexes file the primaries under values that the author computes; see [Context.Primaries].
	// Default: none.
	Indexes []*Index[P]
	// Sources are further event sources. They start in this order, after the caches are filled. A
	// source that fails to start is started again. A failing source does not stop the others. Their
	// names must differ from those of Secondaries. Default: none.
	Sources []eventsource.Source

	// Workflow declares what primaries need, and in which order. Default: none.
	Workflow Workflow[P]

	// Namespaces to watch. Default: those of the operator. Use [AllNamespaces] for all. If it is set,
	// the controller shares its caches with no other controller, because
	// [Operator.SetControllerNamespaces] can change the namespaces.
	Namespaces []string
	// LabelSelector restricts the primaries, in kubectl's syntax. Default: all.
	//
	// A primary that no longer matches has no more runs, and keeps the finalizer of a [Cleaner].
	// Whoever removes such labels must also take care of the finalizer.
	LabelSelector string
	// FieldSelector restricts the primaries, in kubectl's syntax. Default: all.
	FieldSelector string
	// ShardSelector restricts the primaries to a part of all UIDs; see [Secondary.ShardSelector].
	// Default: all.
	ShardSelector string
	// ListLimit is the page size of lists of primaries, in objects; see [Secondary.ListLimit].
	// Default: lists are streamed.
	ListLimit int64
	// AllGenerations makes every update of a primary trigger a run, not only a change of its
	// specification. Default: an update triggers if metadata.generation grew, if deletion was
	// requested, if the finalizer is missing, if the primary waits for its Cleanup, or if the kind has
	// no generations.
	AllGenerations bool
	// GenerationFilter, if set, replaces the comparison of generations. It reports whether an update
	// changes the desired state. Like a new generation, such an update also ends the back-off of a
	// failing primary. It cannot be combined with AllGenerations. Like all filters it must be pure.
	GenerationFilter func(old, new P) bool
	// AddFilter, UpdateFilter and DeleteFilter, if set, further restrict which changes of a primary
	// trigger a run. They are asked only about changes that would trigger without them. A primary that
	// was replaced by another of the same name is not an update. Deletions trigger only with
	// AllEvents, so DeleteFilter requires it.
	//
	// A primary passes every filter if its deletion is requested and it carries the controller's
	// finalizer. This holds for each of its changes and after a restart, because only Cleanup or the
	// Workflow can release it.
	AddFilter    func(added P) bool
	UpdateFilter func(old, new P) bool
	DeleteFilter func(last P) bool
	// Filter, if set, is asked about every change that the specific filters pass. old is nil for an
	// addition, new is nil for a deletion. It does not keep a primary from its Cleanup either.
	Filter func(old, new P) bool

	// Paused reports whether a primary has no runs now. Default: the annotation [Paused]. It is asked
	// with each change of the primary and before each run, so it must be pure and depend on the
	// primary alone. To let cleanups take place, it returns false for a primary in deletion.
	Paused func(primary P) bool

	// AllEvents also runs Reconcile for primaries in deletion, and once more when a primary is gone.
	// That last run gets the last known object, and [Context.Gone] is true. Default: false.
	//
	// No finalizer is added, and the reconciler must not be a [Cleaner]. [PatchResource] can add and
	// remove a finalizer.
	//
	// The run for a primary that is gone is repeated until one succeeds without a reschedule. A new
	// primary of that name waits until then, or until the retries are exhausted. A primary that no
	// longer matches the selectors also gets this run.
	//
	// A primary that is deleted while the operator is down has no such run. Nor does an instance
	// make that run that was not the leader at that time, unless it becomes the leader soon after.
	// Only a finalizer guarantees that no deletion is missed.
	AllEvents bool
	// Finalizer is added to primaries if the reconciler is a [Cleaner], or if the [Workflow] has
	// something to delete. Default: GROUP/KIND-finalizer with the primary's group, and its kind in
	// lower case, so that a controller may be renamed.
	//
	// If several controllers reconcile one kind, also in several operators, all but one must set their
	// own finalizer. Otherwise one controller would remove the finalizer that another waits for.
	// [Register] refuses this within an operator.
	//
	// Before you change a finalizer or remove a Cleaner, remove the finalizer from all primaries.
	// Primaries that still have it are not removed when they are deleted. A Kubernetes event
	// reports them ([ReasonFinalizerLeftOver]).
	//
	// Versions of this package that named the default after the controller left GROUP/NAME-finalizer
	// on primaries. It counts as the default, and is replaced by it.
	Finalizer string
	// FieldManager owns the fields that the controller writes. Default: the controller's name. At most
	// 128 bytes.
	FieldManager string
	// PrimaryWrites is how an [UpdateControl] is written. Default: [ByPatch].
	PrimaryWrites WriteMode
	// SecondaryWrites is how [Apply] writes. Default: [ByApply].
	SecondaryWrites WriteMode

	// Retry spaces the retries of a failing primary. Default: see [retry.Policy], with [Classify] to
	// classify errors.
	Retry retry.Policy
	// MaxInterval is the longest time that a primary goes without a run. Default 10 h, shortened by up
	// to 10 % at random. Use scheduler.NoMaxInterval for no limit.
	MaxInterval time.Duration
	// RateLimit bounds the runs of each primary separately. Default: no bound.
	RateLimit scheduler.RateLimit
	// Concurrency bounds the number of concurrent runs. Default max(8, 2×GOMAXPROCS).
	Concurrency int
	// RunTimeout is the deadline of a run. Its ctx ends then. Default 10 minutes.
	RunTimeout time.Duration
	// KeepRecords is the number of newest runs that [Operator.Records] returns. Default:
	// [OperatorOptions.KeepRecords].
	KeepRecords int
	// KeepRecordsPerPrimary is the number of newest runs of each primary that [Operator.History]
	// returns. They are kept as long as the primary exists. Default 0: none.
	KeepRecordsPerPrimary int
}

// validate reports every invalid option that can be found without the API server. cleans reports
// whether the reconciler is a Cleaner, deletes whether a cleanup of the workflow has something to
// do.
func (o *ControllerOptions[P]) validate(cleans, deletes bool) error {
	var errs []error
	bad := func(field string, value any, why string) {
		errs = append(errs, fmt.Errorf("framework: controller %q: %s %q: %s", o.Name, field, fmt.Sprint(value), why))
	}
	if problems := validation.IsDNS1123Label(o.Name); len(problems) > 0 {
		bad("Name", o.Name, strings.Join(problems, "; "))
	}
	o.validateEvents(cleans, deletes, bad)
	if len(o.FieldManager) > 128 {
		bad("FieldManager", o.FieldManager, "must not be longer than 128 bytes")
	}
	if _, err := labels.Parse(o.LabelSelector); err != nil {
		bad("LabelSelector", o.LabelSelector, err.Error())
	}
	if _, err := fields.ParseSelector(o.FieldSelector); err != nil {
		bad("FieldSelector", o.FieldSelector, err.Error())
	}
	if err := (cache.Retention{Page: o.ListLimit, Shard: o.ShardSelector}).Check(object.Typed); err != nil {
		errs = append(errs, fmt.Errorf("framework: controller %q: %w", o.Name, err))
	}
	if err := cache.CheckNamespaces(o.Namespaces); err != nil {
		bad("Namespaces", o.Namespaces, err.Error())
	}
	for field, mode := range map[string]WriteMode{"PrimaryWrites": o.PrimaryWrites, "SecondaryWrites": o.SecondaryWrites} {
		if mode < ByDefault || mode > ByApply {
			bad(field, int(mode), "must be ByDefault, ByPatch or ByApply")
		}
	}
	if o.RunTimeout < 0 {
		bad("RunTimeout", o.RunTimeout, "must not be negative")
	}
	for field, size := range map[string]int{"KeepRecords": o.KeepRecords, "KeepRecordsPerPrimary": o.KeepRecordsPerPrimary} {
		if size < 0 {
			bad(field, size, "must not be negative")
		}
	}
	return errors.Join(errs...)
}

// validateEvents reports invalid options about triggers and the finalizer.
func (o *ControllerOptions[P]) validateEvents(cleans, deletes bool, bad func(field string, value any, why string)) {
	switch problems := validation.IsQualifiedName(o.Finalizer); {
	case o.AllEvents && o.Finalizer != "":
		bad("Finalizer", o.Finalizer, "must be empty with AllEvents, which adds no finalizer")
	case o.AllEvents:
	case len(problems) > 0:
		bad("Finalizer", o.Finalizer, strings.Join(problems, "; "))
	case !strings.Contains(o.Finalizer, "/"):
		bad("Finalizer", o.Finalizer, "must be qualified, as in example.com/name")
	}
	if o.AllEvents && cleans {
		bad("AllEvents", o.AllEvents, "the reconciler is a Cleaner, which waits for deletions by a finalizer; it can be one or the other")
	}
	if o.AllEvents && deletes && !o.Workflow.Explicit {
		bad("AllEvents", o.AllEvents, "the workflow has nodes to delete, which takes a finalizer; leave them to garbage collection, or set Workflow.Explicit and call CleanupWorkflow")
	}
	if o.AllGenerations && o.GenerationFilter != nil {
		bad("AllGenerations", o.AllGenerations, "must not be set together with GenerationFilter")
	}
	if o.DeleteFilter != nil && !o.AllEvents {
		bad("AllEvents", o.AllEvents, "must be set for DeleteFilter: deletions do not trigger otherwise")
	}
}

// ControllerSettings are the options of a controller that do not depend on its code. Each points to
// the field of [ControllerOptions] of the same name.
type ControllerSettings struct {
	Namespaces                         *[]string
	LabelSelector, FieldSelector       *string
	AllGenerations                     *bool
	Finalizer, FieldManager            *string
	PrimaryWrites, SecondaryWrites     *WriteMode
	Retry                              *retry.Policy
	MaxInterval                        *time.Duration
	RateLimit                          *scheduler.RateLimit
	Concurrency                        *int
	RunTimeout                         *time.Duration
	KeepRecords, KeepRecordsPerPrimary *int
}

// Settings returns pointers to the options that do not depend on the controller's code. Writing
// through them changes o.
func (o *ControllerOptions[P]) Settings() ControllerSettings {
	return ControllerSettings{
		Namespaces: &o.Namespaces, LabelSelector: &o.LabelSelector, FieldSelector: &o.FieldSelector,
		AllGenerations: &o.AllGenerations, Finalizer: &o.Finalizer, FieldManager: &o.FieldManager,
		PrimaryWrites: &o.PrimaryWrites, SecondaryWrites: &o.SecondaryWrites,
		Retry: &o.Retry, MaxInterval: &o.MaxInterval, RateLimit: &o.RateLimit,
		Concurrency: &o.Concurrency, RunTimeout: &o.RunTimeout,
		KeepRecords: &o.KeepRecords, KeepRecordsPerPrimary: &o.KeepRecordsPerPrimary,
	}
}

// complete names the controller, has it configured, and sets the defaults.
func (o *ControllerOptions[P]) complete(gvk schema.GroupVersionKind, of OperatorOptions) error {
	if o.Name == "" {
		o.Name = strings.ToLower(gvk.Kind)
	}
	if of.Configure != nil {
		err := safely.AskOnce("Configure", func() error { return of.Configure(o.Name, o.Settings()) })
		if err != nil {
			return fmt.Errorf("framework: controller %q: %w", o.Name, err)
		}
	}
	if o.KeepRecords == 0 {
		o.KeepRecords = of.KeepRecords
	}
	o.setDefaults(gvk)
	return nil
}

// setDefaults sets the defaults of what is not set, also those that depend on the primary's kind.
func (o *ControllerOptions[P]) setDefaults(gvk schema.GroupVersionKind) {
	if o.Finalizer == "" && !o.AllEvents {
		o.Finalizer = defaultFinalizer(gvk.Group, strings.ToLower(gvk.Kind))
	}
	if o.Retry.Classify == nil {
		o.Retry.Classify = Classify
	}
	if o.FieldManager == "" {
		o.FieldManager = o.Name
	}
	if o.PrimaryWrites == ByDefault {
		o.PrimaryWrites = ByPatch
	}
	if o.SecondaryWrites == ByDefault {
		o.SecondaryWrites = ByApply
	}
	if o.RunTimeout == 0 {
		o.RunTimeout = DefaultRunTimeout
	}
}

// defaultFinalizer returns a finalizer that is unique per group and kind. The server accepts 63
// characters after the slash. A kind may have as many, so the suffix is left out if it does not
// fit.
func defaultFinalizer(group, kind string) string {
	if full := kind + run.FinalizerSuffix; len(full) <= validation.DNS1123LabelMaxLength {
		kind = full
	}
	return run.FinalizerDomain(group) + "/" + kind
}

// formerFinalizer returns the default of versions that named it after the controller. It is empty
// if that is the same, or if the finalizer is not the default.
func (o *ControllerOptions[P]) formerFinalizer(gvk schema.GroupVersionKind) string {
	former := defaultFinalizer(gvk.Group, o.Name)
	if o.Finalizer != defaultFinalizer(gvk.Group, strings.ToLower(gvk.Kind)) || former == o.Finalizer {
		return ""
	}
	return former
}

func (o *ControllerOptions[P]) settings(gvk schema.GroupVersionKind) run.Options {
	return run.Options{
		Name: o.Name, Secondaries: keysOf(o.Secondaries), Sources: o.Sources,
		Namespaces: o.Namespaces, LabelSelector: o.LabelSelector, FieldSelector: o.FieldSelector, ShardSelector: o.ShardSelector,
		ListLimit: o.ListLimit, AllGenerations: o.AllGenerations, AllEvents: o.AllEvents,
		Finalizer: o.Finalizer, FormerFinalizer: o.formerFinalizer(gvk), FieldManager: o.FieldManager,
		PrimaryWrites: write.Mode(o.PrimaryWrites), SecondaryWrites: write.Mode(o.SecondaryWrites),
		Retry: o.Retry, MaxInterval: o.MaxInterval, RateLimit: o.RateLimit, Concurrency: o.Concurrency, RunTimeout: o.RunTimeout,
		KeepRecords: o.KeepRecords, KeepRecordsPerPrimary: o.KeepRecordsPerPrimary,
	}
}
