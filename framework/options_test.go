package framework_test

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/retry"
	webpagev1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
	"github.com/evenkeel/evenkeel/scheduler"
)

func offline(t *testing.T) *framework.Operator {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, webpagev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	op, err := framework.NewOperator(&rest.Config{Host: "127.0.0.1:1"}, framework.OperatorOptions{Logger: quiet, Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return op
}

func expectError(t *testing.T, err error, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not say %q", err, want)
		}
	}
}

type source string

func (s source) Name() string                                  { return string(s) }
func (source) Start(eventsource.Sink) (stop func(), err error) { return func() {}, nil }
func (source) Synced() <-chan struct{}                         { return nil }
func (source) Err() error                                      { return nil }

func TestNewOperatorNamesEveryBadOption(t *testing.T) {
	_, err := framework.NewOperator(nil, framework.OperatorOptions{Namespaces: []string{"UPPER"}, SyncTimeout: -1, StartPolicy: 7})
	expectError(t, err, "config is nil", `"UPPER"`, "SyncTimeout -1ns", "StartPolicy 7")
	_, err = framework.NewOperator(&rest.Config{}, framework.OperatorOptions{Namespaces: []string{framework.AllNamespaces, "a"}})
	expectError(t, err, "AllNamespaces must be the only element")
}

func TestRegisterNamesEveryBadOption(t *testing.T) {
	err := framework.Register(offline(t), &pages{}, pageOptions{
		Name: "Bad Name", Finalizer: "unqualified", FieldManager: strings.Repeat("x", 129), LabelSelector: "a in",
		Namespaces: []string{"a/b"}, PrimaryWrites: 7, RunTimeout: -time.Second, KeepRecords: -1,
		Retry: retry.Policy{Factor: 0.5}, Concurrency: -1, MaxInterval: -5, Secondaries: []framework.SecondarySource{nil},
	})
	expectError(t, err, `Name "Bad Name"`, `Finalizer "unqualified"`, "FieldManager", `LabelSelector "a in"`, `"a/b"`,
		`PrimaryWrites "7"`, `RunTimeout "-1s"`, `KeepRecords "-1"`, "Factor 0.5", "Concurrency -1", "MaxInterval -5ns", "Secondaries[0] is nil")
	err = framework.Register(offline(t), &pages{}, pageOptions{Concurrency: -1})
	expectError(t, err, "Concurrency -1", `controller "webpage"`)
}

func TestRegisterRefusesWhatCannotWork(t *testing.T) {
	op := offline(t)
	expectError(t, framework.Register(op, framework.Reconciler[*Page](nil), pageOptions{}), "nil")
	expectError(t, framework.Register(op, untyped{}, framework.ControllerOptions[*unstructuredObject]{}), "apiVersion", "kind")
	expectError(t, framework.Register(op, &pages{}, pageOptions{GroupVersionKind: webpagev1.GroupVersion.WithKind("WebPage")}), "must be empty")
	expectError(t, framework.Register(op, metadataOnly{}, framework.ControllerOptions[*metav1.PartialObjectMetadata]{}), "metadata-only")

	var one, two framework.Secondary[*corev1.ConfigMap]
	expectError(t, framework.Register(op, &pages{}, pageOptions{Secondaries: framework.Secondaries(&one, &two)}), `two event sources named "configmap"`)
	expectError(t, framework.Register(op, &pages{}, pageOptions{
		Secondaries: framework.Secondaries(&one), Sources: []eventsource.Source{source("configmap")},
	}), `two event sources named "configmap"`)
	expectError(t, framework.Register(op, &pages{}, pageOptions{Secondaries: []framework.SecondarySource{nil}}), "Secondaries[0] is nil")
	two.Name, two.Namespaces = "other", []string{"*", "b"}
	expectError(t, framework.Register(op, &pages{}, pageOptions{Secondaries: framework.Secondaries(&one, &two)}), `secondary "other"`, "only element")

	if err := framework.Register(op, &pages{}, pageOptions{}); err != nil {
		t.Fatal(err)
	}
	expectError(t, framework.Register(op, &pages{}, pageOptions{}), `there is one of that name`)
}

func TestRegisterRefusesTwoControllersWithOneFinalizer(t *testing.T) {
	op := offline(t)
	if err := framework.Register(op, &cleaningPages{}, pageOptions{Name: "one", Finalizer: "example.com/f"}); err != nil {
		t.Fatal(err)
	}
	expectError(t, framework.Register(op, &cleaningPages{}, pageOptions{Name: "two", Finalizer: "example.com/f"}), `"one"`, `"example.com/f"`)
	if err := framework.Register(op, &pages{}, pageOptions{Name: "three", Finalizer: "example.com/f"}); err != nil {
		t.Errorf("a controller without a Cleaner has no finalizer, yet: %v", err)
	}
}

type untyped struct{}

func (untyped) Reconcile(context.Context, *unstructuredObject, *framework.Context[*unstructuredObject]) (framework.UpdateControl[*unstructuredObject], error) {
	return framework.UpdateControl[*unstructuredObject]{}, nil
}

type metadataOnly struct{}

func (metadataOnly) Reconcile(context.Context, *metav1.PartialObjectMetadata, *framework.Context[*metav1.PartialObjectMetadata]) (framework.UpdateControl[*metav1.PartialObjectMetadata], error) {
	return framework.UpdateControl[*metav1.PartialObjectMetadata]{}, nil
}

func TestRegisterRefusesTriggersThatExcludeEachOther(t *testing.T) {
	always := func(_, _ *Page) bool { return true }
	expectError(t, framework.Register(offline(t), &cleaningPages{}, pageOptions{AllEvents: true, Finalizer: "example.com/f"}),
		`AllEvents "true": the reconciler is a Cleaner`, `Finalizer "example.com/f": must be empty with AllEvents`)
	expectError(t, framework.Register(offline(t), &pages{}, pageOptions{AllGenerations: true, GenerationFilter: always}),
		`AllGenerations "true"`, "GenerationFilter")
	expectError(t, framework.Register(offline(t), &pages{}, pageOptions{DeleteFilter: func(*Page) bool { return true }}),
		`AllEvents "false": must be set for DeleteFilter`)
	if err := framework.Register(offline(t), &pages{}, pageOptions{AllEvents: true, AllGenerations: true, Filter: always}); err != nil {
		t.Error(err)
	}
}

// TestEveryKindMakesAFinalizer that the API server takes: the names of finalizers end at 63
// characters.
func TestEveryKindMakesAFinalizer(t *testing.T) {
	for _, length := range []int{1, 53, 54, 63} {
		kind := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: strings.Repeat("X", length)}
		err := framework.Register(offline(t), metadataCleaner{}, framework.ControllerOptions[*metav1.PartialObjectMetadata]{GroupVersionKind: kind})
		if err != nil {
			t.Errorf("a kind of %d characters: %v", length, err)
		}
		if err := framework.Register(offline(t), &cleaningPages{}, pageOptions{Name: strings.Repeat("x", length)}); err != nil {
			t.Errorf("a name of %d characters: %v", length, err)
		}
	}
	for _, bad := range []string{"foregroundDeletion", "orphan", "example.com/", "/x", "Example.com/x", "example.com/x y", "example.com/" + strings.Repeat("x", 64), "a/b/c"} {
		expectError(t, framework.Register(offline(t), &cleaningPages{}, pageOptions{Finalizer: bad}), `Finalizer "`+bad+`"`)
	}
}

func TestRegisterNamesWhatTheSchedulerRefusesWithAllElse(t *testing.T) {
	err := framework.Register(offline(t), &pages{}, pageOptions{
		Name: "Bad Name", Concurrency: -1, RateLimit: scheduler.RateLimit{Runs: 1}, Retry: retry.Policy{Factor: math.NaN(), Jitter: math.NaN()},
		MaxInterval: -time.Hour,
	})
	expectError(t, err, `Name "Bad Name"`, "Concurrency -1", "RateLimit 1 runs per 0s", "Factor NaN", "Jitter NaN", "MaxInterval -1h")
}

func TestNewOperatorRefusesANameThatEventsCannotBear(t *testing.T) {
	_, err := framework.NewOperator(&rest.Config{}, framework.OperatorOptions{Name: "my operator"})
	expectError(t, err, `Name "my operator"`)
}

type metadataCleaner struct{ metadataOnly }

func (metadataCleaner) Cleanup(context.Context, *metav1.PartialObjectMetadata, *framework.Context[*metav1.PartialObjectMetadata]) (framework.DeleteControl, error) {
	return framework.RemoveFinalizer(), nil
}
