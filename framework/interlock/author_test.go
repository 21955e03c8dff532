package interlock_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/interlock"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
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
		return framework.Register(op, r, framework.ControllerOptions[*App]{Secondaries: r.r.gate.Secondaries(), Sources: r.r.gate.Sources()})
	}, func(s *shop) {
		p := s.database("p")
		d := &App{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "d", Finalizers: []string{"others.example.com/x"}}}
		d.Spec.Databases = []string{"p"}
		noError(t, s.admin.Create(s.Context(), d))
		s.pass(time.Minute)
		s.expect([]client.Object{p, d}, nil)
	})
}

// labelling is a controller of apps that replaces all their labels and annotations.
type labelling struct{ implementing }

func (r *labelling) Reconcile(ctx context.Context, app *App, c *framework.Context[*App]) (framework.UpdateControl[*App], error) {
	grant, err := r.gate.Acquire(ctx, c)
	if err != nil || !grant.Granted() {
		return framework.NoUpdate[*App](), err
	}
	r.shop.implement(app)
	app.Annotations, app.Labels = nil, map[string]string{"run": fmt.Sprint(len(app.Spec.Apps))}
	return framework.PatchResource(app), nil
}

// TestAnAuthorWhoSetsAllLabelsTakesNoClaimOff, neither in the run that claims nor later.
func TestAnAuthorWhoSetsAllLabelsTakesNoClaimOff(t *testing.T) {
	openShopOf(t, func(s *shop, op *framework.Operator) error {
		r := &labelling{implementing{gate: interlock.Gate[*Database, *App]{Relation: databases}, shop: s}}
		return framework.Register(op, r, framework.ControllerOptions[*App]{Secondaries: r.gate.Secondaries(), Sources: r.gate.Sources()})
	}, func(s *shop) {
		p := s.database("p")
		d := s.app("d", "p")
		for run := range 3 {
			s.pass(time.Second)
			live := s.live(d)
			if live.Labels["run"] != fmt.Sprint(run) || len(databases.Claims(live)) != 1 {
				t.Errorf("run %d: labels %v, annotations %v", run, live.Labels, live.Annotations)
			}
			s.touch(d)
		}
		s.delete(p)
		s.pass(time.Minute)
		s.expect([]client.Object{p, d}, nil, d)
	})
}
