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
	"github.com/evenkeel/evenkeel/framework/internal/write"
	"github.com/evenkeel/evenkeel/retry"
	"github.com/evenkeel/evenkeel/scheduler"
)

// DefaultRunTimeout is the deadline of a run.
const DefaultRunTimeout = 10 * time.Minute

// ControllerOptions configure a controller; the zero value is the documented default.
type ControllerOptions[P Object] struct {
	// Name of the controller, unique within the operator: in logs, metrics and the finalizer. Default:
	// the primary's kind in lower case. A DNS label.
	Name string
	// GroupVersionKind is required if P is *unstructured.Unstructured or *metav1.PartialObjectMetadata
	// (metadata only), and must be empty otherwise.
	GroupVersionKind schema.GroupVersionKind
	// Secondaries that the controller reads; their changes make their primaries due.
	Secondaries []SecondarySource
	// Indexes file the primaries under values of the author's; see [Context.Primaries].
	Indexes []*Index[P]
	// Sources are further event sources, started in this order once the caches are filled; what fails to start is
	// started again, and whatever one does wrong, the others go on. Their names must not
	// be those of Secondaries.
	Sources []eventsource.Source

	// Workflow is what primaries need, and in which order. Default: none.
	Workflow Workflow[P]

	// Namespaces to watch. Default: those of the operator. For all, give [AllNamespaces].
	// [Operator.SetControllerNamespaces] changes them; so no other controller shares the caches.
	Namespaces []string
	// LabelSelector restricts the primaries, in kubectl's syntax. Default: all. One that no longer matches has no
	// more runs, and keeps the finalizer of a [Cleaner]: who takes such labels off has to see to that.
	LabelSelector string
	// FieldSelector restricts the primaries, in kubectl's syntax. Default: all.
	FieldSelector string
	// ShardSelector restricts the primaries to a part of all UIDs: see [Secondary.ShardSelector]. Default: all.
	ShardSelector string
	// ListLimit is how many primaries a list asks for at a time: see [Secondary.ListLimit]. Default: lists are streamed.
	ListLimit int64
	// AllGenerations makes every change of a primary trigger, not only those of its specification. By
	// default an update triggers if metadata.generation grew, deletion was requested, the finalizer is
	// missing, the primary waits for its Cleanup, or the kind has no generations.
	AllGenerations bool
	// GenerationFilter, if set, replaces the look at generations: it tells the updates that change what is
	// wanted from all others. As a new generation does, these end the back-off of a failing primary too.
	// Excludes AllGenerations. It must be pure, as all filters must.
	GenerationFilter func(old, new P) bool
	// AddFilter, UpdateFilter and DeleteFilter, if set, further restrict which changes of a primary trigger:
	// those that would otherwise. A primary that was replaced by one of the same name is no update. Deletions
	// trigger only with AllEvents, so DeleteFilter requires it.
	//
	// A primary whose deletion is requested and that carries the controller's finalizer passes every filter, at each
	// of its changes and after a restart: only Cleanup, or the Workflow, lets it go.
	AddFilter    func(added P) bool
	UpdateFilter func(old, new P) bool
	DeleteFilter func(last P) bool
	// Filter, if set, is asked about all that the more specific ones let pass. old is nil for an addition,
	// new for a deletion. Nor does it keep a primary from its Cleanup.
	Filter func(old, new P) bool

	// AllEvents runs Reconcile also for primaries in deletion, and once more when a primary is gone: with
	// the last known object, and [Context.Gone] true. No finalizer is put on, and the reconciler must be no
	// [Cleaner]; [PatchResource] can put one on, and take it off. The run of a primary that is gone is
	// repeated until one succeeds without a reschedule; what else there is of that name waits
	// until then, or until the retries are exhausted. It is also run for a primary that no longer
	// matches the selectors, and never for one that goes while the operator is down, nor in another instance than
	// the leader of that time unless it follows soon: only a finalizer does not miss that.
	AllEvents bool
	// Finalizer is put on primaries if the reconciler is a [Cleaner], or the [Workflow] has something to delete. Default:
	// GROUP/KIND-finalizer with the primary's group and its kind in lower case, so that a controller may be
	// renamed. Of several controllers of one kind, also in several operators, all but one must name their own, or
	// the one would take off what the other waits for; within an operator [Register] refuses that. Before a
	// finalizer is changed, or a Cleaner taken out, all primaries have to be rid of it: those that are not, and
	// are deleted, stay, which an event says ([ReasonFinalizerLeftOver]).
	//
	// Versions of this package that named the default after the controller have left GROUP/NAME-finalizer on
	// primaries. It counts as the default, and is replaced by it.
	Finalizer string
	// FieldManager owns the fields the controller writes. Default: the controller's name. Too long
	// ones (over 128 bytes) are refused.
	FieldManager string
	// PrimaryWrites is how [UpdateControl] is carried out. Default: ByPatch.
	PrimaryWrites WriteMode
	// SecondaryWrites is how [Apply] writes. Default: ByApply.
	SecondaryWrites WriteMode

	// Retry spaces failures of a primary. Default: see [retry.Policy], with [Classify] to classify them.
	Retry retry.Policy
	// MaxInterval is the longest a primary goes without a run. Default 10 h, shortened by up to 10 %
	// at random; scheduler.NoMaxInterval for none.
	MaxInterval time.Duration
	// RateLimit bounds the runs of each primary by itself. Default: no bound.
	RateLimit scheduler.RateLimit
	// Concurrency bounds the runs at a time. Default max(8, 2×GOMAXPROCS).
	Concurrency int
	// RunTimeout is the deadline of a run, after which its ctx ends. Default 10 minutes.
	RunTimeout time.Duration
	// KeepRecords is how many of the newest runs [Operator.Records] returns. Default 0: none.
	KeepRecords int
	// KeepRecordsPerPrimary is how many of the newest runs of every primary [Operator.History] returns, as
	// long as the primary exists. Default 0: none.
	KeepRecordsPerPrimary int
}

// validate reports everything that can be said without the API server. cleans says that the reconciler is
// a Cleaner, deletes that a cleanup of the workflow has something to do.
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

// validateEvents reports what is wrong with what triggers, and with the finalizer.
func (o *ControllerOptions[P]) validateEvents(cleans, deletes bool, bad func(field string, value any, why string)) {
	switch problems := validation.IsQualifiedName(o.Finalizer); {
	case o.AllEvents && o.Finalizer != "":
		bad("Finalizer", o.Finalizer, "must be empty with AllEvents, which puts no finalizer on")
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

// setDefaults fills in what follows from the primary's kind.
func (o *ControllerOptions[P]) setDefaults(gvk schema.GroupVersionKind) {
	if o.Name == "" {
		o.Name = strings.ToLower(gvk.Kind)
	}
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

// defaultFinalizer is unique per group and kind. The server takes 63 characters after the slash; a kind may have
// as many.
func defaultFinalizer(group, kind string) string {
	if full := kind + run.FinalizerSuffix; len(full) <= validation.DNS1123LabelMaxLength {
		kind = full
	}
	return run.FinalizerDomain(group) + "/" + kind
}

// formerFinalizer is what the default was when it followed from the controller's name, if that differs; empty if
// the finalizer is not the default.
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
