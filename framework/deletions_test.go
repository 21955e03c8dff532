package framework_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/framework"
)

func TestG03ADeletionHidesNoOtherIncarnationThanItsOwn(t *testing.T) {
	overModel(t, func(m *modelled) {
		m.createConfigMap("c", map[string]any{"a": "b"})
		m.once(func(ctx context.Context, page *Page, c *pageContext, configMaps *framework.Secondary[*corev1.ConfigMap]) {
			for _, version := range []string{"999999999", "", "1", "0"} { // the first is another API server's
				if err := framework.Delete(ctx, c, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
					Namespace: "default", Name: "c", UID: "another", ResourceVersion: version,
				}}); err != nil {
					t.Error(err)
				}
				if now, err := configMaps.GetNamed(c, "default", "c"); err != nil || now == nil {
					t.Errorf("after the deletion of another at version %q reads show %v, %v", version, now, err)
				}
			}
			if _, err := framework.Apply(ctx, c, configMapOf(page, "ours")); err != nil {
				t.Error(err)
			}
			if err := framework.Delete(ctx, c, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: "none", UID: "another", ResourceVersion: "0",
			}}); err != nil {
				t.Error(err)
			}
			if now, err := configMaps.GetNamed(c, "default", "p"); err != nil || now == nil {
				t.Errorf("reads show %v, %v", now, err)
			}
		})
		if m.op.Occupancy(); m.runs() != 1 {
			t.Errorf("%d runs, want own writes to be known: %v", m.runs(), m.op.Records("webpage"))
		}
	})
}
