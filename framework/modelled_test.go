package framework_test

import (
	"context"
	"reflect"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/internal/testenv"
	"github.com/evenkeel/evenkeel/timeline"
)

// modelled is an operator in virtual time, over an API server in memory, and what others do there.
type modelled struct {
	*testing.T
	model             *apimodel.Model
	pages, configMaps dynamic.ResourceInterface
	op                *framework.Operator
}

// statusKind is somebody's own, and has nothing to do with what API servers answer.
var statusKind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Status"}

// newModel returns a model that serves pages, and the kind of somebody's own.
func newModel(t *testing.T) *apimodel.Model {
	t.Helper()
	kinds, err := apimodel.CustomResources(testenv.WebPageCRDs())
	noError(t, err)
	model, err := apimodel.New(apimodel.Options{Kinds: append(kinds, apimodel.Kind{GroupVersionKind: statusKind, Plural: "statuses"}, modelOfTools)})
	noError(t, err)
	return model
}

// overModel runs a test over a model, and stops the operator that it started.
func overModel(t *testing.T, test func(m *modelled)) {
	synctest.Test(t, func(t *testing.T) {
		model := newModel(t)
		client, err := dynamic.NewForConfig(model.Config())
		noError(t, err)
		test(&modelled{
			T: t, model: model,
			pages:      client.Resource(schema.GroupVersionResource{Group: "samples.evenkeel.dev", Version: "v1", Resource: "webpages"}).Namespace("default"),
			configMaps: client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace("default"),
		})
	})
}

// operate runs a reconciler until the returned function is called.
func (m *modelled) operate(r framework.Reconciler[*Page], options pageOptions) (stop func()) {
	m.Helper()
	var err error
	if m.op, err = framework.NewOperator(m.model.Config(), framework.OperatorOptions{Logger: quiet, Scheme: scheme}); err != nil {
		m.Fatal(err)
	}
	if reflect.ValueOf(options.Retry).IsZero() {
		options.Retry = slow
	}
	options.KeepRecords = 1000
	if err := framework.Register(m.op, r, options); err != nil {
		m.Fatal(err)
	}
	running, cancel := context.WithCancel(m.Context())
	done := make(chan error, 1)
	go func() { done <- m.op.Run(running) }()
	synctest.Wait()
	return func() {
		cancel()
		if err := <-done; err != nil {
			m.Error(err)
		}
	}
}

// createPage is what a user does.
func (m *modelled) createPage(name string) *unstructured.Unstructured {
	m.Helper()
	return m.createPageWith(name, "<html/>")
}

func (m *modelled) createPageWith(name, html string) *unstructured.Unstructured {
	m.Helper()
	return m.must(m.pages.Create(m.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "samples.evenkeel.dev/v1", "kind": "WebPage",
		"metadata": map[string]any{"namespace": "default", "name": name}, "spec": map[string]any{"html": html},
	}}, metav1.CreateOptions{}))
}

// createConfigMap is what others do.
func (m *modelled) createConfigMap(name string, data map[string]any) *unstructured.Unstructured {
	m.Helper()
	return m.must(m.configMaps.Create(m.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": "default", "name": name}, "data": data,
	}}, metav1.CreateOptions{}))
}

// patch is a merge patch by others.
func (m *modelled) patch(resource dynamic.ResourceInterface, name, patch string) *unstructured.Unstructured {
	m.Helper()
	return m.must(resource.Patch(m.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "others"}))
}

func (m *modelled) must(o *unstructured.Unstructured, err error) *unstructured.Unstructured {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
	return o
}

// runs is the number of runs so far that found a primary.
func (m *modelled) runs() (n int) {
	for _, record := range m.op.Records("webpage") {
		if record.Outcome != timeline.Gone {
			n++
		}
	}
	return n
}
