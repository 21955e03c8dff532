package interlock_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/dependent"
	"github.com/evenkeel/evenkeel/framework/interlock"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

// TestADatabaseStaysUntilWhatTheAppOwnsHasGone, though the cluster would collect it, and does so
// after the app.
func TestADatabaseStaysUntilWhatTheAppOwnsHasGone(t *testing.T) {
	r := &planned{gate: interlock.Gate[*Database, *App]{Relation: databases}}
	implementation := &dependent.Kubernetes[*App, *corev1.ConfigMap]{
		Name: "implementation", DependsOn: []string{"gate"},
		Desired: func(_ context.Context, app *App, _ *framework.Context[*App]) (*corev1.ConfigMap, error) {
			return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: app.Name}}, nil
		},
	}
	openShopOf(t, func(_ *shop, op *framework.Operator) error {
		flow := framework.Workflow[*App]{Dependents: []framework.Dependent[*App]{r.gate.Node("gate"), implementation}}
		return framework.Register(op, r, framework.ControllerOptions[*App]{Workflow: flow})
	}, func(s *shop) {
		p := s.database("p")
		d := s.app("d", "p")
		s.pass(time.Second)
		implemented := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name}}
		hold := func(finalizers string) {
			noError(t, s.admin.Patch(s.Context(), implemented, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":`+finalizers+`}}`))))
		}
		hold(`["example.com/slow"]`)
		s.delete(p)
		s.delete(d)
		s.pass(time.Hour)
		s.expect([]client.Object{p, d, implemented}, nil)
		hold("null")
		s.pass(time.Second)
		s.expect(nil, []client.Object{p, d, implemented})
	})
}
