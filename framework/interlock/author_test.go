package interlock_test

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/interlock"
)

// careless is a controller of apps that does not clean up.
type careless struct{ r implementing }

func (c *careless) Reconcile(ctx context.Context, app *App, of *framework.Context[*App]) (framework.UpdateControl[*App], error) {
	return c.r.Reconcile(ctx, app, of)
}

// TestAnothersFinalizerDoesNotKeepADependent: it may go before its implementation has.
func TestAnothersFinalizerDoesNotKeepADependent(t *testing.T) {
	openShopOf(t, func(s *shop, op *framework.Operator) error {
		r := &careless{implementing{gate: interlock.Gate[*Database, *App]{Relation: databases}, shop: s}}
		return framework.Register(op, r, framework.ControllerOptions[*App]{Secondaries: r.r.gate.Secondaries()})
	}, func(s *shop) {
		p := s.database("p")
		d := &App{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "d", Finalizers: []string{"others.example.com/x"}}}
		d.Spec.Databases = []string{"p"}
		noError(t, s.admin.Create(s.Context(), d))
		s.pass(time.Minute)
		s.expect([]client.Object{p, d}, nil)
	})
}
