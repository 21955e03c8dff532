package frameworktest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/apimodel"
)

// Context is the [framework.Context] of one run, outside of an operator: for a unit test of one
// Reconcile or Cleanup. Pass its Context to the reconciler, and look at what was written by
// [World.Writes], [Get] and [Written].
type Context[P framework.Object] struct {
	*framework.Context[P]
	// World is where the run reads and writes. [World.Break] makes its next write fail.
	*World
}

// Ctx is the ctx of the run, for Reconcile.
func (c *Context[P]) Ctx() context.Context { return c.Context.Ctx() }

// ContextOption is an option of [NewContext].
type ContextOption func(*unit)

// unit is what a Context is made of.
type unit struct {
	scenario    Scenario
	held        []framework.Object
	beside      []framework.Object
	secondaries []framework.SecondarySource
	options     any // of the controller
}

// Holding lets the run read objects. An object without a namespace is in the primary's. One without
// owner references that could belong to the primary gets one to it: most secondaries are found by
// it.
func Holding(objects ...framework.Object) ContextOption {
	return func(u *unit) { u.held = append(u.held, objects...) }
}

// Beside lets the run read objects that do not belong to the primary, exactly as they are.
func Beside(objects ...framework.Object) ContextOption {
	return func(u *unit) { u.beside = append(u.beside, objects...) }
}

// Reading names the secondaries that the reconciler reads, those of its own fields. Their kinds are
// served without a definition, and without an object of them.
func Reading(secondaries ...framework.SecondarySource) ContextOption {
	return func(u *unit) { u.secondaries = append(u.secondaries, secondaries...) }
}

// Controller sets the options of the controller that the run belongs to, instead of [Reading]. A
// workflow in it has run when [NewContext] returns.
func Controller[P framework.Object](options framework.ControllerOptions[P]) ContextOption {
	return func(u *unit) { u.options = options }
}

// InScheme sets the Go types of all objects. Default: client-go's.
func InScheme(s *runtime.Scheme) ContextOption { return func(u *unit) { u.scenario.Scheme = s } }

// WithCRDs sets the folders of definitions, as in [Scenario.CRDs]. Without them, objects of custom
// kinds are neither validated nor given defaults.
func WithCRDs(folders string) ContextOption { return func(u *unit) { u.scenario.CRDs = folders } }

// NewContext returns a Context for one run of the primary. Reads are what the options say, with the
// run's own writes; writes are answered as an API server answers them, and recorded. A primary in
// deletion is for Cleanup. There is no server, no operator of the author, and nothing beyond the
// one run: conditions of the status are whatever the primary carries, and what Reconcile returns is
// the test's to judge. That another run writes nothing is shown by a second call of Reconcile with
// the same Context.
//
// A primary without a namespace is in "default" if its kind is built in or [WithCRDs] has its
// definition. Of other kinds it has cluster scope.
//
// Kinds that the model of the API server does not have are served if there is an object of them or
// the controller reads them. Those of Kubernetes have their scope. A custom kind without a
// definition has cluster scope if its first object has no namespace.
//
// It may be called in or outside of a [testing/synctest] bubble. The run ends with the test.
func NewContext[P framework.Object](t testing.TB, primary P, options ...ContextOption) *Context[P] {
	t.Helper()
	u := unit{}
	for _, o := range options {
		o(&u)
	}
	if u.scenario.Scheme == nil {
		u.scenario.Scheme = scheme.Scheme
	}
	c, err := newContext(t, primary, &u)
	if err != nil {
		t.Fatalf("frameworktest: NewContext: %v", err)
	}
	return c
}

func newContext[P framework.Object](t testing.TB, primary P, u *unit) (*Context[P], error) {
	controller, _ := u.options.(framework.ControllerOptions[P])
	if _, fits := u.options.(framework.ControllerOptions[P]); u.options != nil && !fits {
		return nil, fmt.Errorf("Controller: the options are %T, the primary is %T", u.options, primary)
	}
	controller.Secondaries = append(controller.Secondaries, u.secondaries...)
	controller.RunTimeout = 365 * 24 * time.Hour
	capture := &capture[P]{runs: make(chan *framework.Context[P], 1), end: make(chan struct{})}
	var reconciler framework.Reconciler[P] = capture
	copied := primary.DeepCopyObject().(P)
	if copied.GetDeletionTimestamp() != nil {
		if controller.Finalizer == "" && len(copied.GetFinalizers()) > 0 {
			controller.Finalizer = copied.GetFinalizers()[0]
		} else if controller.Finalizer == "" {
			controller.Finalizer = "frameworktest.evenkeel.dev/finalizer"
			copied.SetFinalizers([]string{controller.Finalizer})
		}
		reconciler = capturingCleaner[P]{capture}
	}
	u.scenario.Register = func(op *framework.Operator) error { return framework.Register(op, reconciler, controller) }
	on, err := u.server(copied)
	if err != nil {
		return nil, err
	}
	l := newLife(&u.scenario, on)
	ctx, cancel := context.WithCancel(context.Background())
	w, err := l.newWorld(ctx, copied.GetNamespace())
	if err != nil {
		cancel()
		return nil, err
	}
	w.fatal, w.alone = t.FailNow, true
	p, err := l.newProcess(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- p.op.Run(ctx) }()
	t.Cleanup(func() {
		close(capture.end)
		cancel()
		<-ended
		for _, failure := range l.failures() {
			t.Error(failure)
		}
	})
	select {
	case run := <-capture.runs:
		l.forget()
		return &Context[P]{Context: run, World: w}, nil
	case <-time.After(begins):
		return nil, fmt.Errorf("the run does not begin within %v: %w", begins, waitsFor(p.op))
	case err := <-ended:
		ended <- err
		return nil, fmt.Errorf("the run does not begin: %w\n%s", err, logged(l.log))
	}
}

// waitsFor says why an operator has not begun a run.
func waitsFor(op *framework.Operator) error {
	if err := op.Ready(); err != nil {
		return fmt.Errorf("%w (Reading, Holding an object of a kind, or WithCRDs makes it known)", err)
	}
	return errors.New("do the selectors and filters of the controller match the primary?")
}

// begins is how long a run may take to begin: its caches are in memory.
const begins = 20 * time.Second

// capture is a reconciler that hands its Context out, and keeps its one run until the test ends.
type capture[P framework.Object] struct {
	runs chan *framework.Context[P]
	end  chan struct{}
}

func (c *capture[P]) Reconcile(_ context.Context, _ P, run *framework.Context[P]) (framework.UpdateControl[P], error) {
	select {
	case c.runs <- run:
	default:
	}
	<-c.end
	return framework.NoUpdate[P](), nil
}

// capturingCleaner does so for a primary in deletion.
type capturingCleaner[P framework.Object] struct{ *capture[P] }

func (c capturingCleaner[P]) Cleanup(ctx context.Context, primary P, run *framework.Context[P]) (framework.DeleteControl, error) {
	_, err := c.Reconcile(ctx, primary, run)
	return framework.KeepFinalizer(), err
}

// forget drops what happened before the test's own part.
func (l *life) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writes, l.attempts = nil, 0
}

// server returns a model that has the objects.
func (u *unit) server(primary framework.Object) (*modelled, error) {
	objects := []*unstructured.Unstructured{}
	for _, o := range append(append([]framework.Object{primary}, u.held...), u.beside...) {
		kinds, _, err := u.scenario.Scheme.ObjectKinds(o)
		if err != nil {
			return nil, fmt.Errorf("%w (see InScheme)", err)
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o.DeepCopyObject())
		if err != nil {
			return nil, err
		}
		converted := &unstructured.Unstructured{Object: content}
		converted.SetGroupVersionKind(kinds[0])
		objects = append(objects, converted)
	}
	kinds, err := kindsOf(&u.scenario)
	if err != nil {
		return nil, err
	}
	model, err := modelFor(kinds, objects, declared(&u.scenario))
	if err != nil {
		return nil, err
	}
	if kind := objects[0].GroupVersionKind(); primary.GetNamespace() == "" && model.IsNamespaced(kind) {
		primary.SetNamespace("default")
		objects[0].SetNamespace("default")
	}
	if objects[0].GetUID() == "" {
		objects[0].SetUID("00000000-0000-4000-8000-000000000001")
	}
	for i, o := range objects {
		if i > 0 && o.GetNamespace() == "" && model.IsNamespaced(o.GroupVersionKind()) {
			o.SetNamespace(primary.GetNamespace())
		}
		if i > 0 && i <= len(u.held) {
			own(objects[0], o)
		}
		if err := model.Seed(o); err != nil {
			return nil, err
		}
	}
	return newInMemory(model), nil
}

// declared returns the kinds that the controller of a scenario watches in its cluster: an operator
// that is never run says so. A controller that cannot be registered has none here; it fails later.
func declared(s *Scenario) []schema.GroupVersionKind {
	op, err := framework.NewOperator(&rest.Config{}, framework.OperatorOptions{
		Scheme: s.Scheme, LeaderElection: framework.LeaderElection{Mode: framework.Never},
	})
	if err != nil || s.Register(op) != nil {
		return nil
	}
	var kinds []schema.GroupVersionKind
	for _, source := range op.Health() {
		version, kind, is := strings.Cut(source.Kind, ", Kind=")
		if is && source.Cluster == "" {
			kinds = append(kinds, schema.FromAPIVersionAndKind(strings.TrimPrefix(version, "/"), kind))
		}
	}
	return kinds
}

// modelFor returns a model that serves the kinds of the objects and those that are declared, also
// those without a definition.
func modelFor(kinds []apimodel.Kind, objects []*unstructured.Unstructured, declared []schema.GroupVersionKind) (*apimodel.Model, error) {
	model, err := apimodel.New(apimodel.Options{Kinds: kinds})
	if err != nil {
		return nil, err
	}
	unknown := map[schema.GroupVersionKind]bool{}
	add := func(kind schema.GroupVersionKind, clusterScoped bool) {
		if model.Serves(kind) || unknown[kind] {
			return
		}
		unknown[kind] = true
		if isOfKubernetes(kind) {
			clusterScoped = isClusterScoped(kind.Kind)
		}
		plural, _ := meta.UnsafeGuessKindToResource(kind)
		kinds = append(kinds, apimodel.Kind{
			GroupVersionKind: kind, Plural: plural.Resource, ClusterScoped: clusterScoped, Status: true, Generation: true,
		})
	}
	for _, o := range objects {
		add(o.GroupVersionKind(), o.GetNamespace() == "")
	}
	for _, kind := range declared {
		add(kind, false)
	}
	if len(unknown) == 0 {
		return model, nil
	}
	return apimodel.New(apimodel.Options{Kinds: kinds})
}

// isOfKubernetes reports whether Kubernetes defines a kind. isClusterScoped is about such kinds.
func isOfKubernetes(kind schema.GroupVersionKind) bool {
	return scheme.Scheme.Recognizes(kind) || kind.Group == "apiextensions.k8s.io" || kind.Group == "apiregistration.k8s.io"
}

// isClusterScoped reports whether objects of a kind of Kubernetes have no namespace.
func isClusterScoped(kind string) bool {
	switch kind {
	case "Namespace", "Node", "PersistentVolume",
		"ClusterRole", "ClusterRoleBinding",
		"CustomResourceDefinition", "APIService",
		"StorageClass", "CSIDriver", "CSINode", "VolumeAttachment", "VolumeAttributesClass",
		"PriorityClass", "RuntimeClass", "DeviceClass", "DeviceTaintRule", "ResourcePoolStatusRequest", "ResourceSlice",
		"IngressClass", "IPAddress", "ServiceCIDR",
		"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration",
		"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding",
		"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
		"CertificateSigningRequest", "ClusterTrustBundle",
		"FlowSchema", "PriorityLevelConfiguration", "StorageVersion", "StorageVersionMigration":
		return true
	}
	return false
}

// own makes the primary the controller of an object without owners, if it can own it.
func own(primary, o *unstructured.Unstructured) {
	if len(o.GetOwnerReferences()) > 0 || primary.GetNamespace() != "" && o.GetNamespace() != primary.GetNamespace() {
		return
	}
	yes := true
	o.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: primary.GetAPIVersion(), Kind: primary.GetKind(), Name: primary.GetName(), UID: primary.GetUID(),
		Controller: &yes, BlockOwnerDeletion: &yes,
	}})
}

// Written returns the objects of a type that the operator has written so far, as the server has
// them now, in the order of their names. Objects that no longer exist are not among them.
func Written[T framework.Object](w *World) []T {
	v := Version{Namespace: w.Namespace, replay: newReplay(w.life)}
	written := map[objectID]bool{}
	for _, c := range w.life.server.changes() {
		id := v.replay.take(c)
		written[id] = written[id] || isOperators(c)
	}
	for id := range v.replay.live {
		if !written[id] {
			delete(v.replay.live, id)
		}
	}
	return Objects[T](v)
}
