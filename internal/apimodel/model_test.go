package apimodel_test

import (
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/internal/testenv"
	webpagev1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

var (
	pageGVR      = webpagev1.GroupVersion.WithResource("webpages")
	configMapGVR = corev1.SchemeGroupVersion.WithResource("configmaps")
)

func newModel(t *testing.T) *apimodel.Model {
	t.Helper()
	var kinds []apimodel.Kind
	for _, folder := range customResources() {
		found, err := apimodel.CustomResources(folder)
		if err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, found...)
	}
	model, err := apimodel.New(apimodel.Options{Kinds: kinds})
	if err != nil {
		t.Fatal(err)
	}
	return model
}

func customResources() []string {
	return []string{testenv.WebPageCRDs(), filepath.Join(testenv.Root(), "samples", "prefixedpod", "config", "crd", "bases")}
}

func page(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": webpagev1.GroupVersion.String(), "kind": "WebPage",
		"metadata": map[string]any{"namespace": "default", "name": name},
		"spec":     map[string]any{"html": "<html/>"},
	}}
}
