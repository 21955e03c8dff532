package framework_test

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/evenkeel/evenkeel/framework"
)

func TestAnErrorStatusThatIsNotRetriedSurvivesAConflict(t *testing.T) {
	overModel(t, func(m *modelled) {
		r := &failingPages{}
		r.reconcile = func(context.Context, *Page, *pageContext) (pageUpdate, error) {
			if m.runs() == 0 { // no new generation: nobody is told
				m.patch(m.pages, "p", `{"metadata":{"labels":{"x":"y"}}}`)
			}
			return pageUpdate{}, errors.New("hopeless")
		}
		r.errorStatus = func(page *Page, _ *pageContext, failure error) framework.ErrorStatusControl[*Page] {
			page.Status.URL = failure.Error()
			return framework.PatchErrorStatus(page).WithoutRetry()
		}
		defer m.operate(r, pageOptions{})()
		m.createPage("p")
		time.Sleep(time.Minute)
		now := m.must(m.pages.Get(m.Context(), "p", metav1.GetOptions{}))
		if url, _, _ := unstructured.NestedString(now.Object, "status", "url"); url != "hopeless" {
			t.Errorf("the status is %v after %d runs", now.Object["status"], m.runs())
		}
	})
}
