package external_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/workflow"
	"github.com/evenkeel/evenkeel/internal/apimodel"
)

// world is an API server in memory, a cloud, and one process of the operator at a time, in virtual
// time.
type world struct {
	*testing.T
	model *apimodel.Model
	cloud *cloud
	shops dynamic.ResourceInterface
	maps  dynamic.ResourceInterface

	op   *framework.Operator
	fuse *fuse
	stop func()
}

var errTest = errors.New("the test says so")

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// inWorld runs a test in a world of its own, and ends the operator after it.
func inWorld(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		model, err := apimodel.New(apimodel.Options{Kinds: []apimodel.Kind{{
			GroupVersionKind: shopVersion.WithKind("Shop"), Plural: "shops", Status: true, Generation: true,
		}}})
		noError(t, err)
		client, err := dynamic.NewForConfig(model.Config())
		noError(t, err)
		w := &world{
			T: t, model: model, cloud: newCloud(), stop: func() {},
			shops: client.Resource(shopVersion.WithResource("shops")).Namespace("default"),
			maps:  client.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace("default"),
		}
		test(w)
		w.stop()
	})
}

// shopkeeper has a workflow of dependents.
type shopkeeper struct {
	op       *framework.Operator
	explicit bool

	mu     sync.Mutex // guards below
	runs   int        // without runs in which a node failed
	before func(c *shopContext)
	after  func(ctx context.Context, c *shopContext) error
}

func (k *shopkeeper) Reconcile(ctx context.Context, _ *Shop, c *shopContext) (shopUpdate, error) {
	k.mu.Lock()
	k.runs++
	before, after := k.before, k.after
	k.mu.Unlock()
	if before != nil {
		before(c)
	}
	var err error
	if k.explicit {
		err = c.ReconcileWorkflow(ctx).Err()
	}
	if err == nil && after != nil {
		err = after(ctx, c)
	}
	return framework.NoUpdate[*Shop](), err
}

// result is of the last pass for the one shop, nil if that is gone.
func (k *shopkeeper) result() *workflow.Result {
	result, _ := k.op.WorkflowResult("shop", types.NamespacedName{Namespace: "default", Name: "corner"})
	return result
}

func (k *shopkeeper) ran() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.runs
}

// failure is what the last pass failed with.
func (k *shopkeeper) failure() string {
	if result := k.result(); result != nil && result.Err() != nil {
		return result.Err().Error()
	}
	return ""
}

// start starts a process that has some dependents, and may be ended by a fuse.
func (w *world) start(f *fuse, of dependents) *shopkeeper {
	w.Helper()
	k := &shopkeeper{}
	w.keep(f, k, of)
	return k
}

func (w *world) keep(f *fuse, k *shopkeeper, of dependents) {
	w.Helper()
	w.run(f, k, framework.ControllerOptions[*Shop]{
		KeepRecords: 1000, Workflow: framework.Workflow[*Shop]{Dependents: of, Explicit: k.explicit},
	})
	k.op = w.op
}

// run starts a process with a reconciler.
func (w *world) run(f *fuse, r framework.Reconciler[*Shop], options framework.ControllerOptions[*Shop]) {
	w.Helper()
	w.stop()
	config := w.model.Config()
	if f != nil {
		config.Wrap(f.wrap)
	}
	var err error
	w.op, err = framework.NewOperator(config, framework.OperatorOptions{Logger: quiet, Scheme: scheme, Name: "shops", Namespaces: []string{"default"}, Grace: -1})
	noError(w.T, err)
	noError(w.T, framework.Register(w.op, r, options))
	running, cancel := context.WithCancel(w.Context())
	done := make(chan error, 1)
	go func() { done <- w.op.Run(running) }()
	w.fuse = f
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil && !f.isDead() {
			w.Error(err)
		}
	})
	synctest.Wait()
}

// pass lets time pass, and all come to rest.
func (w *world) pass(d time.Duration) {
	time.Sleep(d) // virtual
	synctest.Wait()
}

func (w *world) create(name string, spec ShopSpec) {
	w.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&Shop{
		TypeMeta:   metav1.TypeMeta{APIVersion: shopVersion.String(), Kind: "Shop"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: spec,
	})
	noError(w.T, err)
	_, err = w.shops.Create(w.Context(), &unstructured.Unstructured{Object: content}, metav1.CreateOptions{})
	noError(w.T, err)
}

// patch merges into a shop as somebody else.
func (w *world) patch(name, patch string, subresource ...string) {
	w.Helper()
	_, err := w.shops.Patch(w.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresource...)
	noError(w.T, err)
}

func (w *world) delete(name string) {
	w.Helper()
	noError(w.T, w.shops.Delete(w.Context(), name, metav1.DeleteOptions{}))
}

// shop returns a shop as the API server has it, or nil.
func (w *world) shop(name string) *Shop {
	w.Helper()
	for _, o := range w.model.Objects("shops") {
		if o.GetName() == name {
			shop := &Shop{}
			noError(w.T, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, shop))
			return shop
		}
	}
	return nil
}

// states are the ConfigMaps that remember.
func (w *world) states() (all []*unstructured.Unstructured) {
	for _, o := range w.model.Objects("configmaps") {
		if _, is := o.GetLabels()["evenkeel.dev/external-state"]; is {
			all = append(all, o)
		}
	}
	return all
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		t.Errorf("%s: got %s, want %s", what, g, w)
	}
}

func polling(t *testing.T, a *account, kind string, period time.Duration) *eventsource.Polling[thing] {
	t.Helper()
	p, err := eventsource.NewPolling(eventsource.PollingOptions[thing]{
		Name: kind + "s", Period: period,
		Fetch: func(context.Context) (map[types.NamespacedName][]thing, error) {
			byOwner, err := a.ofKind(kind)
			all := map[types.NamespacedName][]thing{}
			for owner, things := range byOwner {
				all[types.NamespacedName{Namespace: "default", Name: owner}] = things
			}
			return all, err
		},
		Values: eventsource.ValuesOptions[thing]{ID: func(t thing) string { return t.ID }},
	})
	noError(t, err)
	return p
}
