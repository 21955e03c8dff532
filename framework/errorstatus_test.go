package framework_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/apimodel"
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

// TestC92AnUpdateThatIsRefusedIsAFailureOfTheRun: the status can tell why the resource is not as
// wanted.
func TestC92AnUpdateThatIsRefusedIsAFailureOfTheRun(t *testing.T) {
	r := &failingPages{}
	r.reconcile = func(_ context.Context, page *Page, _ *pageContext) (pageUpdate, error) {
		page.Labels = map[string]string{"l": "x"}
		return framework.PatchResource(page), nil
	}
	r.errorStatus = func(page *Page, c *pageContext, failure error) framework.ErrorStatusControl[*Page] {
		page.Status.URL = fmt.Sprint(c.Retry().Attempt, " ", apierrors.IsForbidden(failure))
		return framework.PatchErrorStatus(page)
	}
	inVirtualTime(t, r, pageOptions{Retry: everySecond}, func(v *virtual) {
		v.disturb(func(r apimodel.Request) apimodel.Fault {
			if r.Resource == "webpages" && r.Verb == "patch" && r.Subresource == "" {
				return apimodel.Fault{Answer: &apierrors.NewForbidden(schema.GroupResource{Resource: r.Resource}, r.Name, errors.New("says a webhook")).ErrStatus}
			}
			return apimodel.Fault{}
		})
		v.createPage("p", "a")
		v.pass(time.Minute)
		if got := v.page("p").Status.URL; got != "2 true" {
			t.Errorf("the status is %q", got)
		}
		if n := len(v.op.Records("webpage")); n != 3 {
			t.Errorf("%d runs", n)
		}
	})
}
