package framework

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/evenkeel/evenkeel/eventsource"
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
	// Sources are further event sources. Their names must not be those of Secondaries.
	Sources []eventsource.Source

	// Namespaces to watch. Default: those of the operator. For all, give [AllNamespaces].
	Namespaces []string
	// LabelSelector restricts the primaries, in kubectl's syntax. Default: all.
	LabelSelector string
	// FieldSelector restricts the primaries, in kubectl's syntax. Default: all.
	FieldSelector string
	// AllGenerations makes every change of a primary trigger, not only those of its specification. By
	// default an update triggers if metadata.generation grew, deletion was requested, the finalizer is
	// missing, or the kind has no generations.
	AllGenerations bool
	// Filter, if set, further restricts which changes of a primary trigger. old is nil for an addition;
	// deletions are not asked about. It must be pure.
	Filter func(old, new P) bool

	// Finalizer is put on primaries if the reconciler is a [Cleaner]. Default:
	// GROUP/NAME-finalizer with the primary's group and the controller's name.
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
}

// validate reports everything that can be said without the API server.
func (o *ControllerOptions[P]) validate() error {
	var errs []error
	bad := func(field string, value any, why string) {
		errs = append(errs, fmt.Errorf("framework: controller %q: %s %q: %s", o.Name, field, fmt.Sprint(value), why))
	}
	if problems := validation.IsDNS1123Label(o.Name); len(problems) > 0 {
		bad("Name", o.Name, strings.Join(problems, "; "))
	}
	if problems := validation.IsQualifiedName(o.Finalizer); len(problems) > 0 {
		bad("Finalizer", o.Finalizer, strings.Join(problems, "; "))
	} else if !strings.Contains(o.Finalizer, "/") {
		bad("Finalizer", o.Finalizer, "must be qualified, as in example.com/name")
	}
	if len(o.FieldManager) > 128 {
		bad("FieldManager", o.FieldManager, "must not be longer than 128 bytes")
	}
	if _, err := labels.Parse(o.LabelSelector); err != nil {
		bad("LabelSelector", o.LabelSelector, err.Error())
	}
	if _, err := fields.ParseSelector(o.FieldSelector); err != nil {
		bad("FieldSelector", o.FieldSelector, err.Error())
	}
	if err := checkNamespaces(o.Namespaces); err != nil {
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
	if o.KeepRecords < 0 {
		bad("KeepRecords", o.KeepRecords, "must not be negative")
	}
	return errors.Join(errs...)
}

// setDefaults fills in what follows from the primary's kind.
func (o *ControllerOptions[P]) setDefaults(gvk schema.GroupVersionKind) {
	if o.Name == "" {
		o.Name = strings.ToLower(gvk.Kind)
	}
	if o.Finalizer == "" {
		group := gvk.Group
		if group == "" {
			group = "evenkeel.dev"
		}
		o.Finalizer = group + "/" + o.Name + "-finalizer"
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

// checkNamespaces refuses lists that mix names with all, and names that cannot exist.
func checkNamespaces(namespaces []string) error {
	if slices.Contains(namespaces, AllNamespaces) {
		if len(namespaces) > 1 {
			return errors.New("AllNamespaces must be the only element")
		}
		return nil
	}
	for _, namespace := range namespaces {
		if problems := validation.IsDNS1123Label(namespace); len(problems) > 0 {
			return fmt.Errorf("%q: %s", namespace, strings.Join(problems, "; "))
		}
	}
	return nil
}

// watchedNamespaces resolves a chain of defaults, the most specific first, to what stores take:
// empty for all.
func watchedNamespaces(chain ...[]string) []string {
	for _, namespaces := range chain {
		if slices.Contains(namespaces, AllNamespaces) {
			return nil
		}
		if len(namespaces) > 0 {
			return namespaces
		}
	}
	return nil
}
