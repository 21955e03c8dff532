package interlock_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/interlock"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

// finishing is a controller of apps that finish at some time, and use nothing after that.
type finishing struct{ implementing }

func done(app *App) bool { return slices.Contains(app.Spec.Apps, "touched") }

func (r *finishing) Reconcile(ctx context.Context, app *App, c *framework.Context[*App]) (framework.UpdateControl[*App], error) {
	if done(app) {
		r.shop.tearDown(app)
		return framework.NoUpdate[*App](), nil
	}
	return r.implementing.Reconcile(ctx, app, c)
}

// TestWhoUsesNothingAnyMoreVouchesForNobody, though its claim is still there: the guard does not
// heed that.
func TestWhoUsesNothingAnyMoreVouchesForNobody(t *testing.T) {
	relation := databases
	relation.MayUse = func(app *App, _ types.NamespacedName) bool { return !done(app) }
	openShopOf(t, func(s *shop, op *framework.Operator) error {
		r := &finishing{implementing{gate: interlock.Gate[*Database, *App]{Relation: relation}, shop: s}}
		return framework.Register(op, r, framework.ControllerOptions[*App]{Secondaries: r.gate.Secondaries(), Sources: r.gate.Sources()})
	}, func(s *shop) {
		s.owners.stop()
		s.owners.register = func(op *framework.Operator) error {
			return (&interlock.Guard[*Database, *App]{Relation: relation}).Register(op)
		}
		s.start(s.owners, "owners")
		p := s.database("p")
		first := s.app("first", "p")
		s.pass(time.Second)
		s.expect(nil, nil, first)
		s.touch(first)
		s.pass(time.Second)
		s.expect([]client.Object{p, first}, nil)
		s.model.Lag("databases", time.Hour)
		s.delete(p)
		s.owners.stop()
		s.start(s.owners, "owners") // and is up to date
		s.pass(time.Second)
		s.app("second", "p")
		s.pass(time.Minute)
		s.expect(nil, []client.Object{p})
	})
}
