package dependenttest

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/eventsource"
	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/dependent"
)

// TestDependentDifferentNamespaceITMarksReachThere, and DependentAnnotationSecondaryMapperIT,
// DependentCustomMappingAnnotationIT.
func TestDependentDifferentNamespaceITMarksReachThere(t *testing.T) {
	for name, marks := range map[string]eventsource.PrimaryRef{
		"DependentAnnotationSecondaryMapperIT":      {},
		"DependentCustomMappingAnnotationIT":        {Name: "example.com/page", Namespace: "example.com/in"},
		"DependentCustomMappingAnnotationIT labels": {Name: "example.com/page", Namespace: "example.com/in", Labels: true},
	} {
		t.Run(name, func(t *testing.T) {
			k := &configMap{Tie: dependent.Referenced, PrimaryRef: marks, Desired: func(_ context.Context, page *Page, _ *pageContext) (*corev1.ConfigMap, error) {
				return dataOf("elsewhere", page.Name, page.Spec.HTML), nil
			}}
			r := &cleaningPages{}
			r.reconcile = func(ctx context.Context, _ *Page, c *pageContext) error { return alone(k)(ctx, c) }
			r.cleanup = func(ctx context.Context, _ *Page, c *pageContext) (framework.DeleteControl, error) {
				return framework.RemoveFinalizer(), k.Delete(ctx, c)
			}
			inVirtualTime(t, r, reading(k.Secondaries()...), func(v *virtual) {
				v.create(newPage("p", "one"))
				v.pass(time.Second)
				if got := v.data("elsewhere", "p"); got != "one" {
					t.Errorf("there is %q", got)
				}
				v.patch(dataOf("elsewhere", "p", ""), `{"data":{"data":"scribbled"}}`)
				v.pass(time.Second)
				if got := v.data("elsewhere", "p"); got != "one" {
					t.Errorf("after an edit there is %q", got)
				}
				v.delete(newPage("p", ""))
				v.pass(time.Second)
				if now(v, dataOf("elsewhere", "p", "")).Name != "" || now(v, newPage("p", "")).Name != "" {
					t.Error("something is left")
				}
			})
		})
	}
}

// TestAnObjectMovesFromOneTieToAnother when a new version of the operator ties it otherwise.
func TestAnObjectMovesFromOneTieToAnother(t *testing.T) {
	for name, ties := range map[string][2]dependent.Tie{
		"owned, then marked": {dependent.Owned, dependent.Referenced}, "marked, then owned": {dependent.Referenced, dependent.Owned},
	} {
		t.Run(name, func(t *testing.T) {
			var shared framework.Secondary[*corev1.ConfigMap]
			shared.By = eventsource.AnyOf{eventsource.Owners{}, eventsource.PrimaryRef{}}
			before := &configMap{Desired: htmlOf, From: &shared, Tie: ties[0]}
			after := &configMap{Desired: htmlOf, From: &shared, Tie: ties[1]}
			r := &pages{reconcile: func(ctx context.Context, page *Page, c *pageContext) error {
				k := before
				if page.Spec.HTML == "new" {
					k = after
				}
				if err := alone(k)(ctx, c); err != nil {
					return err
				}
				if o, err := k.Get(c); err != nil || o == nil {
					t.Errorf("it is not found: %v", err)
				}
				return nil
			}}
			inVirtualTime(t, r, reading(&shared), func(v *virtual) {
				v.create(newPage("p", "old"))
				v.expectWrites("apply configmaps p")
				v.patch(newPage("p", ""), `{"spec":{"html":"new"}}`)
				v.expectWrites("apply configmaps p")
				o := now(v, dataOf("default", "p", ""))
				if owned, marked := len(o.OwnerReferences) > 0, len(o.Annotations) > 0; owned == marked || owned != (ties[1] == dependent.Owned) {
					t.Errorf("it is %v", o.ObjectMeta)
				}
			})
		})
	}
}

// TestOfTwoPrimariesThatWantOneNameOneGetsIt, and keeps it.
func TestOfTwoPrimariesThatWantOneNameOneGetsIt(t *testing.T) {
	for name, tie := range map[string]dependent.Tie{"owned": dependent.Owned, "marked": dependent.Referenced} {
		t.Run(name, func(t *testing.T) {
			k := &configMap{Tie: tie, Desired: func(_ context.Context, page *Page, _ *pageContext) (*corev1.ConfigMap, error) {
				return dataOf("default", "wanted", page.Name), nil
			}}
			r := standalone(alone(k))
			inVirtualTime(t, r, reading(k.Secondaries()...), func(v *virtual) {
				v.model.Lag("configmaps", time.Second)
				v.create(newPage("p", "x"), newPage("q", "x"))
				v.pass(time.Hour)
				var failed int
				for _, err := range r.results() {
					if errors.Is(err, dependent.ErrForeign) {
						failed++
					}
				}
				var changes int
				for _, c := range v.model.History() {
					if c.Resource == "configmaps" {
						changes++
					}
				}
				if failed == 0 || changes != 1 {
					t.Errorf("%d runs failed, %d changes", failed, changes)
				}
			})
		})
	}
}
