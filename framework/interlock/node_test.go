package interlock_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/framework"
	"github.com/evenkeel/evenkeel/framework/conditions"
	"github.com/evenkeel/evenkeel/framework/interlock"
	"github.com/evenkeel/evenkeel/framework/workflow"
	"github.com/evenkeel/evenkeel/internal/testenv/client"
)

// planned is a controller of apps with a workflow: the gate, the implementation, and the settling
// node.
type planned struct {
	gate interlock.Gate[*Database, *App]
	shop *shop

	mu    sync.Mutex // guards ready
	ready bool       // the implementation is
}

func (r *planned) workflow() framework.Workflow[*App] {
	type node = workflow.Node[*framework.Context[*App]]
	implementation := framework.Node[*App]{Node: node{
		Name: "implementation", DependsOn: []string{"gate"},
		Reconcile: func(_ context.Context, c *framework.Context[*App]) error { r.shop.implement(c.Primary()); return nil },
		ReadyPostcondition: func(context.Context, *framework.Context[*App]) (workflow.Verdict, error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			return workflow.Verdict{Met: r.ready, Reason: "it is on its way"}, nil
		},
		Delete: func(_ context.Context, c *framework.Context[*App]) error { r.shop.tearDown(c.Primary()); return nil },
		// Apps that are paused have no implementation.
		ReconcilePrecondition: func(_ context.Context, c *framework.Context[*App]) (workflow.Verdict, error) {
			return workflow.Verdict{Met: !slices.Contains(c.Primary().Spec.Apps, "paused")}, nil
		},
	}}
	return framework.Workflow[*App]{Dependents: []framework.Dependent[*App]{r.gate.Node("gate"), implementation, r.gate.Settled("settled", "implementation")}}
}

func (r *planned) Reconcile(_ context.Context, app *App, c *framework.Context[*App]) (framework.UpdateControl[*App], error) {
	conditions.MarkWorkflow(&app.Status.Conditions, app.Generation, c.WorkflowResult())
	if grant, known := r.gate.Grant(c); known {
		grant.Mark(&app.Status.Conditions, app.Generation)
	}
	return framework.PatchStatus(app), nil
}

func (r *planned) setReady(ready bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ready = ready
}

func openPlannedShop(t *testing.T, test func(s *shop, r *planned)) {
	r := &planned{gate: interlock.Gate[*Database, *App]{Relation: databases}, ready: true}
	openShopOf(t, func(s *shop, op *framework.Operator) error {
		r.shop = s
		return framework.Register(op, r, framework.ControllerOptions[*App]{Workflow: r.workflow(), KeepRecords: 100, MaxInterval: time.Minute})
	}, func(s *shop) { test(s, r) })
}

func TestANodeOfAWorkflowRequiresAGrant(t *testing.T) {
	openPlannedShop(t, func(s *shop, _ *planned) {
		d := s.app("d", "p")
		s.pass(time.Second)
		s.expect([]client.Object{d}, nil)
		if got := s.condition(d, "Reconciling"); got != "ProviderAbsent" {
			t.Errorf("the dependent waits for reason %q", got)
		}
		p := s.database("p")
		s.pass(time.Second)
		s.expect([]client.Object{p, d}, nil, d)
		if s.condition(d, "Ready") == "" || s.condition(d, "Reconciling") != "" {
			t.Errorf("conditions: %v", s.live(d).Status.Conditions)
		}
		s.delete(p)
		s.pass(time.Second)
		s.expect([]client.Object{p, d}, nil, d)
		s.requests()
		s.delete(d)
		s.pass(time.Second)
		s.expect(nil, []client.Object{p, d})
		if sent := s.requests(); count(sent, "apps:") != 1 {
			t.Errorf("a cleanup takes the end of the finalizer and nothing else: %q", sent)
		}
	})
}

// TestTheWorkflowLetsGoOnceTheImplementationIsReady: the new provider is granted, but the
// implementation is not ready on it yet.
func TestTheWorkflowLetsGoOnceTheImplementationIsReady(t *testing.T) {
	openPlannedShop(t, func(s *shop, r *planned) {
		old := s.database("old")
		s.database("new")
		d := s.app("d", "old")
		s.pass(time.Second)
		r.setReady(false)
		s.refer(d, "new")
		s.delete(old)
		s.pass(10 * time.Second)
		s.expect([]client.Object{old}, nil, d)
		r.setReady(true)
		s.pass(2 * time.Minute) // only the interval finds out
		s.expect([]client.Object{d}, []client.Object{old}, d)
	})
}

// TestWhatIsNotImplementedAnyMoreKeepsItsClaimAsLongAsTheGateIsWanted: the node behind the gate is
// deleted, the gate itself is not.
func TestWhatIsNotImplementedAnyMoreKeepsItsClaimAsLongAsTheGateIsWanted(t *testing.T) {
	openPlannedShop(t, func(s *shop, _ *planned) {
		p := s.database("p")
		d := s.app("d", "p")
		s.pass(time.Second)
		live := s.live(d)
		live.Spec.Apps = []string{"paused"}
		noError(t, s.admin.Update(s.Context(), live))
		s.delete(p)
		s.pass(time.Minute)
		s.expect([]client.Object{p, d}, nil)
	})
}

func TestTheGateSaysWhatCannotBe(t *testing.T) {
	for want, relation := range map[string]interlock.Relation[*App]{
		`interlock: Relation.Name "": must be a DNS subdomain of at most 128 bytes, such as databases.example.com`:          {Providers: databasesOf},
		`interlock: Relation.Name "databases": must be a DNS subdomain of at most 128 bytes, such as databases.example.com`: {Name: "databases", Providers: databasesOf},
		`interlock: relation "databases.example.com": Providers must not be nil`:                                            {Name: "databases.example.com"},
		`interlock: relation "databases.example.com": Select is only for Unclaimed: claims select by themselves`: {
			Name: "databases.example.com", Providers: databasesOf, Select: func(key client.ObjectKey) framework.Selection { return framework.Selection{} },
		},
	} {
		gate := interlock.Gate[*Database, *App]{Relation: relation}
		if _, err := gate.Node("gate").Describe(); fmt.Sprint(err) != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}
