package apimodel_test

import (
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/internal/apimodel"
)

func TestChangedIsClosedAtTheNextCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := newModel(t)
		pages := client(t, model).Resource(pageGVR).Namespace("default")
		changed := model.Changed()
		select {
		case <-changed:
			t.Error("closed before a commit")
		default:
		}
		if _, err := pages.Create(t.Context(), page("a"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		<-changed
	})
}

func TestModelsOfTheSameKindsShareNoObjects(t *testing.T) {
	kinds, err := apimodel.CustomResources(customResources()[0])
	if err != nil {
		t.Fatal(err)
	}
	var models []*apimodel.Model
	for range 2 {
		model, err := apimodel.New(apimodel.Options{Kinds: kinds})
		if err != nil {
			t.Fatal(err)
		}
		models = append(models, model)
	}
	pages := client(t, models[0]).Resource(pageGVR).Namespace("default")
	if _, err := pages.Create(t.Context(), page("a"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if a, b := len(models[0].Objects("webpages")), len(models[1].Objects("webpages")); a != 1 || b != 0 {
		t.Errorf("%d and %d pages", a, b)
	}
}
