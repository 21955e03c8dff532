package framework_test

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	webpagev1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

// statusApplier applies the status of first incarnations only.
type statusApplier struct{}

func (*statusApplier) Reconcile(ctx context.Context, p *Page, c *pageContext) (pageUpdate, error) {
	if p.Spec.HTML != "<html/>" {
		return pageUpdate{}, nil
	}
	intent := &Page{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}, Status: webpagev1.WebPageStatus{URL: "of " + string(p.UID)}}
	_, err := framework.ApplyStatus(ctx, c, intent)
	return pageUpdate{}, err
}

// TestG14AStatusDoesNotLandOnAnotherIncarnation changes the primary before the first attempt of an
// apply of its status, and replaces it before the second. The server does not refuse a patch of the
// status of a custom resource for its UID.
func TestG14AStatusDoesNotLandOnAnotherIncarnation(t *testing.T) {
	overModel(t, func(m *modelled) {
		attempts := 0
		m.model.Intercept(func(r apimodel.Request) apimodel.Fault {
			if r.Verb != "apply" || r.Subresource != "status" {
				return apimodel.Fault{}
			}
			switch attempts++; attempts {
			case 1:
				m.patch(m.pages, "p", `{"metadata":{"labels":{"x":"y"}}}`)
			case 2:
				noError(m.T, m.pages.Delete(m.Context(), "p", metav1.DeleteOptions{}))
				m.createPageWith("p", "another")
			}
			return apimodel.Fault{}
		})
		stop := m.operate(&statusApplier{}, pageOptions{})
		m.createPage("p")
		time.Sleep(time.Minute)
		stop()
		if attempts < 2 {
			m.Errorf("%d attempts, want the race to happen", attempts)
		}
		now := m.must(m.pages.Get(m.Context(), "p", metav1.GetOptions{}))
		if url, found, _ := unstructured.NestedString(now.Object, "status", "url"); found {
			m.Errorf("the status of %s is %q", now.GetUID(), url)
		}
	})
}
