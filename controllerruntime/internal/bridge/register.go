package bridge

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/retry"
)

// Spec describes a controller as a builder collects it.
type Spec struct {
	Name       string
	Primary    client.Object
	Predicates []predicate.Predicate
	Sources    []Source
	Options    controller.Options
	// OwnWritesTrigger lets writes of the reconciler trigger it, as those of others do.
	OwnWritesTrigger bool
}

// Source describes what a controller watches beside its primaries.
type Source struct {
	Object     client.Object
	Predicates []predicate.Predicate
	// Handler maps objects to requests. It is nil for objects that the primary owns.
	Handler handler.EventHandler
	// EveryOwner says that any owner reference counts, not only that of the controller.
	EveryOwner bool
}

// Register registers a reconciler with the operator of the manager.
func Register(m *Manager, s Spec, r reconcile.Reconciler) error {
	if s.Options.NeedLeaderElection == nil {
		s.Options.NeedLeaderElection = m.options.Controller.NeedLeaderElection
	}
	if s.Options.CacheSyncTimeout == 0 {
		s.Options.CacheSyncTimeout = m.options.Controller.CacheSyncTimeout
	}
	if s.Options.ReconciliationTimeout == 0 {
		s.Options.ReconciliationTimeout = m.options.Controller.ReconciliationTimeout
	}
	if err := s.refused(); err != nil {
		return err
	}
	switch s.Primary.(type) {
	case *unstructured.Unstructured:
		return register[*unstructured.Unstructured](m, s, r)
	case *metav1.PartialObjectMetadata:
		return register[*metav1.PartialObjectMetadata](m, s, r)
	}
	return register[framework.Object](m, s, r)
}

// refused returns an error that names the options that cannot be honoured.
func (s Spec) refused() error {
	var errs []error
	refuse := func(option, why string) {
		errs = append(errs, fmt.Errorf("controllerruntime: %s: %s", option, why))
	}
	if s.Primary == nil {
		refuse("For", "must be called, with the kind that is reconciled")
	}
	if s.Options.NewQueue != nil {
		refuse("WithOptions: NewQueue", "is not supported: the framework schedules")
	}
	if need := s.Options.NeedLeaderElection; need != nil && !*need {
		refuse("WithOptions: NeedLeaderElection", "false is not supported: the operator runs on the leader")
	}
	if s.Options.Reconciler != nil {
		refuse("WithOptions: Reconciler", "must not be set: Complete gets it")
	}
	return errors.Join(errs...)
}

func register[P framework.Object](m *Manager, s Spec, r reconcile.Reconciler) error {
	kind, err := apiutil.GVKForObject(s.Primary, m.GetScheme())
	if err != nil {
		return err
	}
	namespaced, err := m.GetClient().IsObjectNamespaced(s.Primary)
	if err != nil {
		return fmt.Errorf("controllerruntime: %v: %w", kind, err)
	}
	t := &target{kind: kind, namespaced: namespaced, sources: map[schema.GroupVersionKind]reader{}, scheme: m.GetScheme()}
	o := framework.ControllerOptions[P]{
		Name: s.name(kind), GroupVersionKind: kind, AllEvents: true, AllGenerations: true,
		Retry: retry.ControllerRuntime(), Concurrency: s.concurrency(m, kind), RunTimeout: s.Options.ReconciliationTimeout,
	}
	if period := m.options.Cache.SyncPeriod; period != nil {
		o.MaxInterval = *period
	}
	o.AddFilter, o.UpdateFilter, o.DeleteFilter = filters[P](s.Predicates)
	fields := indexesOf[P](m, kind)
	o.Indexes = fields.list()
	for _, source := range s.Sources {
		declared, err := t.watch(m, source, s.Options.CacheSyncTimeout)
		if err != nil {
			return err
		}
		o.Secondaries = append(o.Secondaries, declared)
	}
	a := &adapted[P]{target: t, fields: fields, reconciler: r, limiter: s.Options.RateLimiter, ownWritesTrigger: s.OwnWritesTrigger}
	if a.limiter == nil {
		a.limiter = workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]()
	}
	o.Retry.Classify = a.classify
	if err := framework.Register(m.operator, framework.Reconciler[P](a), o); err != nil {
		return err
	}
	return m.run()
}

func (s Spec) name(kind schema.GroupVersionKind) string {
	if s.Name != "" {
		return s.Name
	}
	return strings.ToLower(kind.Kind)
}

// concurrency returns the number of workers: controller-runtime's default is one.
func (s Spec) concurrency(m *Manager, kind schema.GroupVersionKind) int {
	if n := s.Options.MaxConcurrentReconciles; n > 0 {
		return n
	}
	of := m.options.Controller
	if n := of.GroupKindConcurrency[kind.GroupKind().String()]; n > 0 {
		return n
	}
	return max(1, of.MaxConcurrentReconciles)
}

// filters returns the predicates as filters, and none without predicates.
func filters[S framework.Object](all []predicate.Predicate) (add func(S) bool, update func(old, new S) bool, remove func(S) bool) {
	if len(all) == 0 {
		return nil, nil, nil
	}
	pass := func(asked func(predicate.Predicate) bool) bool {
		for _, p := range all {
			if !asked(p) {
				return false
			}
		}
		return true
	}
	add = func(o S) bool {
		return pass(func(p predicate.Predicate) bool { return p.Create(event.CreateEvent{Object: o}) })
	}
	update = func(old, new S) bool {
		return pass(func(p predicate.Predicate) bool {
			return p.Update(event.UpdateEvent{ObjectOld: old, ObjectNew: new})
		})
	}
	remove = func(o S) bool {
		return pass(func(p predicate.Predicate) bool { return p.Delete(event.DeleteEvent{Object: o}) })
	}
	return add, update, remove
}

// adapted is a reconciler of controller-runtime as one of the framework.
type adapted[P framework.Object] struct {
	target           *target
	fields           indexes[P]
	reconciler       reconcile.Reconciler
	limiter          workqueue.TypedRateLimiter[reconcile.Request]
	ownWritesTrigger bool
}

// Reconcile calls the reconciler with its run in ctx.
func (a *adapted[P]) Reconcile(ctx context.Context, _ P, c *framework.Context[P]) (framework.UpdateControl[P], error) {
	none, request := framework.NoUpdate[P](), reconcile.Request{NamespacedName: c.Key()}
	result, err := a.reconciler.Reconcile(context.WithValue(ctx, runKey{}, runOf(a, c)), request)
	switch {
	case err != nil:
		return none, &failure{error: err, pause: a.limiter.When(request)}
	case result.RequeueAfter > 0:
		a.limiter.Forget(request)
		return none.RescheduleAfter(result.RequeueAfter), nil
	//lint:ignore SA1019 reconcilers still use it
	case result.Requeue:
		return none.RescheduleAfter(max(a.limiter.When(request), time.Millisecond)), nil
	}
	a.limiter.Forget(request)
	return none, nil
}

// failure is an error with the pause that the rate limiter wants after it.
type failure struct {
	error
	pause time.Duration
}

// Unwrap returns the reconciler's error.
func (f *failure) Unwrap() error { return f.error }

// classify lets the rate limiter space the attempts, and honours TerminalError.
func (a *adapted[P]) classify(err error) retry.Verdict {
	if errors.Is(err, reconcile.TerminalError(nil)) {
		return retry.Verdict{Class: retry.NotAgain}
	}
	verdict := framework.Classify(err)
	var f *failure
	if errors.As(err, &f) {
		verdict.NotBefore = max(verdict.NotBefore, f.pause)
	}
	return verdict
}
