package dependenttest

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/dependent"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

// messy desires a Pod whose stored form differs from what is desired for ever: the model drops the
// unknown field and the empty list, as servers drop, fill in and rewrite what they store.
func messy(access dependent.Access, options ...framework.WriteOption) *dependent.Kubernetes[*Page, *unstructured.Unstructured] {
	k := &dependent.Kubernetes[*Page, *unstructured.Unstructured]{Name: "messy", Access: access, Options: options}
	k.Secondary.GroupVersionKind = corev1.SchemeGroupVersion.WithKind("Pod")
	k.Desired = func(_ context.Context, page *Page, _ *pageContext) (*unstructured.Unstructured, error) {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"namespace": page.Namespace, "name": page.Name},
			"spec": map[string]any{"nodeName": page.Spec.HTML, "containers": []any{map[string]any{"name": "c", "image": "x", "none": "dropped", "env": []any{}}}},
		}}, nil
	}
	return k
}

// TestG12WhatIsPatchedComesToRest though what is stored differs from what is desired: the same
// intent is not sent for what it made.
func TestG12WhatIsPatchedComesToRest(t *testing.T) {
	k := messy(dependent.Patched)
	inVirtualTime(t, nothing(), managing(k), func(v *virtual) {
		pod := &corev1.Pod{}
		pod.Namespace, pod.Name = "default", "p"
		v.create(newPage("p", "one"))
		v.expectWrites("create pods p")
		for _, n := range []string{`"1"`, `"2"`, `"3"`} {
			v.label("p", "run", n)
			v.expectWrites()
		}
		v.patch(pod, `{"spec":{"nodeName":"scribbled"}}`)
		v.expectWrites("patch pods p")
		if got := now(v, pod).Spec.NodeName; got != "one" {
			t.Errorf("it is on %q", got)
		}
		v.label("p", "run", `"4"`)
		v.expectWrites()
		v.html("p", "two")
		v.expectWrites("patch pods p")
		v.html("p", "one")
		v.expectWrites("patch pods p")
		v.patch(pod, `{"metadata":{"annotations":{"example.com/theirs":"x"}}}`)
		v.expectWrites()
		v.pass(24 * time.Hour)
		v.expectWrites()
		noError(t, v.admin.Delete(v.Context(), pod, client.GracePeriodSeconds(0)))
		v.expectWrites("create pods p")
	})
}

// TestG12SecondariesWrittenByPatchComeToRest, without dependents and whatever the author does with
// what is returned.
func TestG12SecondariesWrittenByPatchComeToRest(t *testing.T) {
	k := messy(dependent.Applied)
	r := &pages{reconcile: func(ctx context.Context, page *Page, c *pageContext) error {
		desired, err := k.Desired(ctx, page, c)
		if err != nil {
			return err
		}
		stored, err := framework.Apply(ctx, c, desired, framework.OwnedByPrimary())
		if err == nil {
			stored.Object["spec"] = nil // it is the author's own
		}
		return err
	}}
	options := reading(k.Secondaries()...)
	options.AllGenerations, options.SecondaryWrites = true, framework.ByPatch
	inVirtualTime(t, r, options, func(v *virtual) {
		v.create(newPage("p", "one"))
		v.expectWrites("create pods p")
		for _, n := range []string{`"1"`, `"2"`, `"3"`} {
			v.label("p", "run", n)
			v.expectWrites()
		}
	})
}
