package framework_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/framework"
)

func TestG17WhatAMatcherIsAskedAboutIsTheAuthors(t *testing.T) {
	for _, mode := range []framework.WriteMode{framework.ByApply, framework.ByPatch} {
		t.Run(mode.String(), func(t *testing.T) {
			overModel(t, func(m *modelled) {
				r := &pages{}
				r.configMaps.Map = toPageP
				r.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
					same := framework.MatchedBy(func(live, _ *corev1.ConfigMap) bool { live.Data["matcher"] = "x"; return true })
					answer, err := framework.Apply(ctx, c, configMapOf(page, "ours"), same, framework.WithMode(mode))
					if err != nil {
						return pageUpdate{}, err
					}
					answer.Data["author"] = "x"
					again, err := r.configMaps.GetNamed(c, "default", "p")
					if err != nil || len(again.Data) != 1 {
						t.Errorf("the cache holds %v, %v", again.Data, err)
					}
					return pageUpdate{}, err
				}
				m.createConfigMap("p", map[string]any{"a": "b"})
				defer m.operate(r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)})()
				m.createPage("p")
				time.Sleep(time.Minute)
			})
		})
	}
}

func TestAMatcherIsAskedInTheFormOfTheIntent(t *testing.T) {
	overModel(t, func(m *modelled) {
		r := &pages{}
		r.configMaps.Map = toPageP
		r.reconcile = func(ctx context.Context, page *Page, c *pageContext) (pageUpdate, error) {
			only := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", Labels: map[string]string{"l": "x"}}}
			only.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
			for _, mode := range []framework.WriteMode{framework.ByApply, framework.ByPatch} {
				asked := false
				_, err := framework.Apply(ctx, c, only, framework.WithMode(mode), framework.MatchedBy(func(live, _ *metav1.PartialObjectMetadata) bool {
					asked = true
					return live.Labels["l"] == "x"
				}))
				if err != nil || !asked {
					t.Errorf("%v, asked %v: %v", mode, asked, err)
				}
			}
			return pageUpdate{}, nil
		}
		m.createConfigMap("p", map[string]any{"a": "b"})
		defer m.operate(r, pageOptions{Secondaries: framework.Secondaries(&r.configMaps)})()
		m.createPage("p")
		time.Sleep(time.Minute)
		for _, record := range m.op.Records("webpage") {
			if record.Err != "" {
				t.Error(record.Err)
			}
		}
	})
}
