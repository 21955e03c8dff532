package framework_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
)

func toPageP(*corev1.ConfigMap) []types.NamespacedName {
	return []types.NamespacedName{{Namespace: "default", Name: "p"}}
}

func TestG04APatchWithAVersionOfItsOwnProvesNothingAboutAnother(t *testing.T) {
	for name, version := range map[string]func(live string) string{
		"the live one": func(live string) string { return fmt.Sprintf("%q", live) },
		"none":         func(string) string { return "null" },
	} {
		t.Run(name, func(t *testing.T) {
			overModel(t, func(m *modelled) {
				m.model.Lag("configmaps", time.Minute)
				r := &pages{}
				r.configMaps.Map = toPageP
				r.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
					if m.runs() > 0 {
						return pageUpdate{}, nil
					}
					live := m.patch(m.configMaps, "c", `{"data":{"theirs":"x"}}`)
					patch := fmt.Sprintf(`{"metadata":{"resourceVersion":%s},"data":{"ours":"y"}}`, version(live.GetResourceVersion()))
					_, err := framework.MergePatch(ctx, c, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c"}}, []byte(patch))
					return pageUpdate{}, err
				}
				m.createConfigMap("c", map[string]any{"a": "b"})
				defer m.operate(r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)})()
				m.createPage("p")
				time.Sleep(5 * time.Minute)
				if m.runs() != 2 {
					t.Errorf("%d runs, want one more for what others wrote", m.runs())
				}
			})
		})
	}
}
