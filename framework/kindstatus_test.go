package framework_test

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
)

func TestG01ADeletedObjectOfAKindNamedStatusIsShownWhileItTerminates(t *testing.T) {
	overModel(t, func(m *modelled) {
		statuses := framework.Secondary[*unstructured.Unstructured]{
			GroupVersionKind: statusKind, Map: func(*unstructured.Unstructured) []types.NamespacedName { return nil },
		}
		r := &pages{reconcile: func(ctx context.Context, _ *Page, c *pageContext) (pageUpdate, error) {
			mine := &unstructured.Unstructured{}
			mine.SetGroupVersionKind(statusKind)
			mine.SetNamespace("default")
			mine.SetName("s")
			mine.SetFinalizers([]string{"example.com/held"})
			stored, err := framework.Create(ctx, c, mine)
			if err != nil {
				return pageUpdate{}, err
			}
			if err := framework.Delete(ctx, c, stored); err != nil {
				return pageUpdate{}, err
			}
			now, err := statuses.GetNamed(c, "default", "s")
			if err == nil && (now == nil || now.GetDeletionTimestamp() == nil) {
				t.Errorf("reads show %v", now)
			}
			return pageUpdate{}, err
		}}
		defer m.operate(r, pageOptions{Secondaries: framework.Secondaries(&statuses)})()
		m.createPage("p")
		time.Sleep(time.Minute)
		if runs := m.op.Records("webpage"); len(runs) != 1 || runs[0].Err != "" {
			t.Error(runs)
		}
	})
}
