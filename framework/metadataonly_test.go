package framework_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/framework"
)

func TestG07ByPatchFindsWhatAMetadataOnlyCacheShows(t *testing.T) {
	overModel(t, func(m *modelled) {
		var owned framework.Secondary[*metav1.PartialObjectMetadata]
		owned.GroupVersionKind = corev1.SchemeGroupVersion.WithKind("ConfigMap")
		r := &pages{}
		r.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			_, err := framework.Apply(ctx, c, configMapOf(page, "ours"), framework.OwnedByPrimary(), framework.WithMode(framework.ByPatch))
			return pageUpdate{}, err
		}
		m.createConfigMap("p", map[string]any{"data": "theirs"})
		defer m.operate(r, pageOptions{Secondaries: framework.Secondaries(&owned)})()
		m.createPage("p")
		time.Sleep(time.Minute)
		if now := m.must(m.configMaps.Get(m.Context(), "p", metav1.GetOptions{})); m.runs() > 3 || now.Object["data"].(map[string]any)["data"] != "ours" {
			t.Errorf("%d runs, data %v", m.runs(), now.Object["data"])
		}
	})
}

func TestG01AnAnswerOfMetadataAloneDoesNotEmptyTheCaches(t *testing.T) {
	overModel(t, func(m *modelled) {
		m.model.Lag("configmaps", time.Minute)
		r := &pages{}
		r.configMaps.Map = toPageP
		r.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			if m.runs() > 0 {
				return pageUpdate{}, nil
			}
			only := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c"}}
			only.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
			_, err := framework.Do(ctx, c, only, func(context.Context) (*metav1.PartialObjectMetadata, error) {
				answer := only.DeepCopy()
				stored := m.patch(m.configMaps, "c", `{"metadata":{"labels":{"x":"y"}}}`)
				answer.UID, answer.ResourceVersion, answer.Labels = stored.GetUID(), stored.GetResourceVersion(), stored.GetLabels()
				return answer, nil
			})
			now, _ := r.configMaps.GetNamed(c, "default", "c")
			if now.Data["a"] != "b" || now.Labels["x"] != "y" {
				t.Errorf("reads show %v with the labels %v", now.Data, now.Labels)
			}
			return pageUpdate{}, err
		}
		m.createConfigMap("c", map[string]any{"a": "b"})
		defer m.operate(r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)})()
		m.createPage("p")
		time.Sleep(5 * time.Minute)
	})
}

func TestG05AnApplyIsForTheVersionThatAMetadataOnlyCacheShows(t *testing.T) {
	overModel(t, func(m *modelled) {
		var owned framework.Secondary[*metav1.PartialObjectMetadata]
		owned.GroupVersionKind = corev1.SchemeGroupVersion.WithKind("ConfigMap")
		r := &pages{}
		r.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			_, err := framework.Apply(ctx, c, configMapOf(page, page.Spec.HTML), framework.OwnedByPrimary())
			if err == nil {
				sample := configMapOf(page, "")
				_, err = framework.MergePatch(ctx, c, sample, []byte(`{"data":{"patched":"`+page.Spec.HTML+`"}}`))
			}
			return pageUpdate{}, err
		}
		defer m.operate(r, pageOptions{Secondaries: framework.Secondaries(&owned)})()
		m.createPage("p")
		time.Sleep(time.Minute)
		m.patch(m.pages, "p", `{"spec":{"html":"two"}}`)
		time.Sleep(time.Minute)
		if m.runs() != 2 {
			t.Errorf("%d runs, want one for each generation: %v", m.runs(), m.op.Records("webpage"))
		}
	})
}
