package framework_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/internal/testenv"
	webpagev1 "github.com/evenkeel/evenkeel/samples/webpage/api/v1"
)

// statusApplier applies the status of first incarnations only.
type statusApplier struct{ t *testing.T }

func (s *statusApplier) Reconcile(ctx context.Context, p *Page, c *pageContext) (pageUpdate, error) {
	if p.Spec.HTML != "<html/>" {
		return pageUpdate{}, nil
	}
	intent := &Page{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}, Status: webpagev1.WebPageStatus{URL: "of " + string(p.UID)}}
	_, err := framework.ApplyStatus(ctx, c, intent)
	return pageUpdate{}, err
}

// TestG14AStatusDoesNotLandOnAnotherIncarnation changes the primary before the first attempt of an apply of
// its status, and replaces it before the second. The server does not refuse a patch of the status of a custom
// resource for its UID.
func TestG14AStatusDoesNotLandOnAnotherIncarnation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kinds, err := apimodel.CustomResources(testenv.WebPageCRDs())
		if err != nil {
			t.Fatal(err)
		}
		model, err := apimodel.New(apimodel.Options{Kinds: kinds})
		if err != nil {
			t.Fatal(err)
		}
		client, err := dynamic.NewForConfig(model.Config())
		if err != nil {
			t.Fatal(err)
		}
		pages := client.Resource(schema.GroupVersionResource{Group: "samples.evenkeel.dev", Version: "v1", Resource: "webpages"}).Namespace("default")
		page := func(html string) *unstructured.Unstructured {
			return &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "samples.evenkeel.dev/v1", "kind": "WebPage",
				"metadata": map[string]any{"namespace": "default", "name": "p"}, "spec": map[string]any{"html": html},
			}}
		}
		attempts := 0
		model.Intercept(func(r apimodel.Request) apimodel.Fault {
			if r.Verb != "apply" || r.Subresource != "status" {
				return apimodel.Fault{}
			}
			switch attempts++; attempts {
			case 1:
				if _, err := pages.Patch(t.Context(), "p", types.MergePatchType, []byte(`{"metadata":{"labels":{"x":"y"}}}`), metav1.PatchOptions{}); err != nil {
					t.Error(err)
				}
			case 2:
				if err := pages.Delete(t.Context(), "p", metav1.DeleteOptions{}); err != nil {
					t.Error(err)
				}
				if _, err := pages.Create(t.Context(), page("another"), metav1.CreateOptions{}); err != nil {
					t.Error(err)
				}
			}
			return apimodel.Fault{}
		})
		op, err := framework.NewOperator(model.Config(), framework.OperatorOptions{Scheme: scheme})
		if err != nil {
			t.Fatal(err)
		}
		if err := framework.Register(op, &statusApplier{t}, pageOptions{}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- op.Run(ctx) }()
		synctest.Wait()
		if _, err := pages.Create(t.Context(), page("<html/>"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if attempts < 2 {
			t.Errorf("%d attempts, want the race to happen", attempts)
		}
		now, err := pages.Get(t.Context(), "p", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if url, found, _ := unstructured.NestedString(now.Object, "status", "url"); found {
			t.Errorf("the status of %s is %q", now.GetUID(), url)
		}
	})
}
