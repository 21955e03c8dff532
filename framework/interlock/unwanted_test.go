package interlock_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/interlock"
	"github.com/evenkeel/evenkeel/framework/workflow"
	"github.com/evenkeel/evenkeel/internal/apimodel"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

// toggled is a controller of apps whose gate is wanted as long as something outside says so. It
// writes no status.
type toggled struct{ planned }

func (r *toggled) Reconcile(context.Context, *App, *framework.Context[*App]) (framework.UpdateControl[*App], error) {
	return framework.NoUpdate[*App](), nil
}

func (r *toggled) workflow() framework.Workflow[*App] {
	type node = workflow.Node[*framework.Context[*App]]
	wanted := framework.Node[*App]{Node: node{
		Name:      "wanted",
		Reconcile: func(context.Context, *framework.Context[*App]) error { return nil },
		ReconcilePrecondition: func(context.Context, *framework.Context[*App]) (workflow.Verdict, error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			return workflow.Verdict{Met: r.ready}, nil
		},
	}}
	implementation := framework.Node[*App]{Node: node{
		Name: "implementation", DependsOn: []string{"gate"},
		Reconcile: func(_ context.Context, c *framework.Context[*App]) error { r.shop.implement(c.Primary()); return nil },
		Delete:    func(_ context.Context, c *framework.Context[*App]) error { r.shop.tearDown(c.Primary()); return nil },
	}}
	return framework.Workflow[*App]{Dependents: []framework.Dependent[*App]{wanted, r.gate.Node("gate", "wanted"), implementation}}
}

// TestAReleaseOfAGateThatIsNotWantedTakesNoClaimOffLater: the gate is not wanted for a while, for a
// reason that is not the dependent's. That the claim be taken off does not arrive until its sender
// has given it up, and the gate has granted again.
func TestAReleaseOfAGateThatIsNotWantedTakesNoClaimOffLater(t *testing.T) {
	r := &toggled{planned{gate: interlock.Gate[*Database, *App]{Relation: databases}, ready: true}}
	openShopOf(t, func(s *shop, op *framework.Operator) error {
		r.shop = s
		return framework.Register(op, r, framework.ControllerOptions[*App]{Workflow: r.workflow(), MaxInterval: time.Minute})
	}, func(s *shop) {
		p := s.database("p")
		d := s.app("d", "p")
		s.pass(time.Second)
		s.expect(nil, nil, d)
		var late []byte
		s.disturb(func(r apimodel.Request) apimodel.Fault {
			if r.Resource != "apps" || r.Verb != "apply" || strings.Contains(string(r.Body), databases.Annotation()) {
				return apimodel.Fault{}
			}
			late = r.Body
			return apimodel.Fault{Drop: true}
		})
		r.setReady(false)
		s.pass(90 * time.Second)
		s.expect([]client.Object{p, d}, nil)
		r.setReady(true)
		s.pass(10 * time.Minute)
		s.expect([]client.Object{p, d}, nil, d)
		s.disturb(nil)
		if late == nil {
			t.Fatal("nothing is late")
		}
		// It is carried out, or refused.
		_ = s.admin.Patch(s.Context(), s.live(d), client.RawPatch(types.ApplyPatchType, late), client.FieldOwner(databases.Name), client.ForceOwnership)
		s.apps.stop() // as it might put the claim on again in time
		s.delete(p)
		s.pass(10 * time.Second)
		s.expect([]client.Object{p, d}, nil, d)
		s.start(s.apps, "apps")
		r.setReady(false)
		s.pass(2 * time.Minute)
		s.expect([]client.Object{d}, []client.Object{p})
		if left := s.live(d); len(left.Annotations)+len(left.Labels) != 0 {
			t.Errorf("left: %v %v", left.Annotations, left.Labels)
		}
	})
}
